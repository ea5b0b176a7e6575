"""The server to look at, ``python -m examples.console``."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
ROOT = Path(__file__).parents[2]


def test_the_server_to_look_at_has_runs_of_every_kind(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "examples.console", "--port", "0", "--folder", str(tmp_path / "site")]
    with subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True) as site:
        assert site.stdout
        try:
            address = next(filter(None, (re.match(r"(http\S+)/#login=", line) for line in site.stdout)))[1]
            token = (tmp_path / "site" / "runs.db.token").read_text().strip()
            with httpx2.Client(base_url=address, headers={"Authorization": f"Bearer {token}"}, timeout=30) as http:
                runs = http.get("/api/runs?limit=100").raise_for_status().json()["runs"]
                questions = http.get("/api/inquiries").raise_for_status().json()["inquiries"]
            outcomes = {(it["title"][:30], it["outcome"] or it["status"]) for it in runs}
            assert {
                ("Stock count", "failed"),
                ("Weekly sales", "finished"),
                ("Release 2.4.1", "waiting"),
                ("Book a table", "waiting"),
            } <= outcomes
            assert sum(it["run_id"].startswith("nightly-backup-") and it["outcome"] == "finished" for it in runs) == 2
            assert len(questions) >= 4
        finally:
            site.send_signal(signal.SIGINT)
        assert site.wait(60) == 0
