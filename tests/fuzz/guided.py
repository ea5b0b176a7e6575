"""One test of this folder, driven by atheris: led by which code its input reaches, where hypothesis alone goes by chance.

``python -m tests.fuzz.guided MODULE TEST SECONDS``. What fails is kept by hypothesis, so that the next ``make test`` tries it first.
Not among what is installed, since it is not there for every system: ``pip install atheris``.
"""

from __future__ import annotations

import importlib
import random
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).parent
SEEDS = 50
TESTS = {
    "test_files": (
        "test_a_corrupted_fleet_file_is_read_or_rejected",
        "test_a_corrupted_json_plan_is_read_or_rejected",
        "test_a_corrupted_yaml_plan_is_read_or_rejected",
        "test_a_journal_file_that_was_changed_anywhere_is_refused",
        "test_records_that_were_sealed_after_they_were_changed_are_refused_by_the_replay",
    ),
    "test_answers": (
        "test_a_model_reply_is_accepted_or_rejected",
        "test_what_a_reply_asks_for_is_taken_refused_or_asked_again_and_is_replayed",
        "test_any_json_result_settles_its_task_and_is_replayed",
        "test_any_answer_to_a_loop_is_taken_or_refused_and_is_replayed",
        "test_a_snapshot_that_was_changed_is_ignored_or_still_one",
        "test_a_condition_is_answered_or_refused_in_bounded_time_and_memory",
    ),
    "test_words": (
        "test_any_text_is_parsed_or_rejected_in_bounded_time",
        "test_a_value_that_is_taken_of_what_is_said_is_what_a_journal_gives_back",
        "test_a_corrupted_loop_file_is_read_or_rejected",
    ),
}
"""Those whose input is all drawn, by file."""


def main(module: str, test: str, seconds: str) -> None:
    """Never returns: atheris ends the process, with 0 when the time is up."""
    atheris = importlib.import_module("atheris")  # an extra of its own
    with atheris.instrument_imports(include=["asterism"]):
        found = getattr(importlib.import_module(f"{__package__}.{module}"), test)
    bounds = [f"-max_total_time={seconds}", "-max_len=4096", "-timeout=60", "-rss_limit_mb=4096", "-print_final_stats=1"]
    kept = Path(tempfile.mkdtemp(prefix="fuzz-"))
    (seeds := kept / "seeds").mkdir()
    for number in range(SEEDS):  # what hypothesis draws from a short text is no example
        (seeds / str(number)).write_bytes(random.Random(number).randbytes(2048))
    atheris.Setup([sys.argv[0], *bounds, f"-artifact_prefix={kept}/", str(seeds)], found.hypothesis.fuzz_one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:])
