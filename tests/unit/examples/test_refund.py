"""The refund agent of examples."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.end_to_end import command

DESK = Path(__file__).parents[3] / "examples" / "refund" / "desk.py"


def asterism(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return command.run(arguments, env={**os.environ, "ASTERISM_DATABASE": "runs.db"}, cwd=folder, timeout=60)


def test_a_refund_waits_for_a_person_and_another_process_pays_it_once(tmp_path: Path) -> None:
    asked = asterism(tmp_path, "loop", "run", f"{DESK}:desk", "Order 17 arrived broken.")
    assert asked.returncode == 3, asked.stderr
    assert 'subject: tool=refund arguments={"order": "17", "amount": 49.9}' in asked.stdout
    run = asked.stdout.split()[1]
    done = asterism(tmp_path, "answer", run, "approve")
    assert (done.returncode, done.stdout.count("calls refund")) == (0, 1), done.stderr
    assert "Done: refunded 49.90 euros for order 17." in done.stdout
