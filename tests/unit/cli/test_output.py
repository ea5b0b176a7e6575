"""Values in words; what comes from elsewhere is shown, and never obeyed."""

from __future__ import annotations

import contextlib
import io
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from asterism.cli import main
from asterism.cli.exit_codes import FAILED
from asterism.cli.output import complain, local_time, message, put_line
from asterism.views.text.styled_line import DAYTIME, MOMENT, StyledLine
from asterism.views.words import MAX_VALUE, count, duration, last_line, plain, preview


@given(st.text())
def test_plain_text_is_one_printable_line(text: str) -> None:
    assert plain(text).isprintable()
    assert len(plain(text, 40)) <= max(40, 1) or text.isprintable()


def test_control_characters_are_escaped() -> None:
    assert plain("a\x1b[31mb\r\nc\u202ed\x9b") == "a\\x1b[31mb c\\u202ed\\x9b"


@given(st.text())
def test_a_message_is_printable_and_all_but_its_first_line_are_indented(text: str) -> None:
    first, *more = message(text).split("\n")
    assert first.isprintable()
    assert all(line.startswith("  ") and line.isprintable() for line in more)


def test_printable_lines_of_a_message_stay_unchanged() -> None:
    assert message("no:\n  'paint': why\nasterism: all is well\r\x1b[2K") == "no:\n  'paint': why\n  asterism: all is well\\r\\x1b[2K"


def test_a_full_disk_behind_standard_error_stops_no_command(monkeypatch: pytest.MonkeyPatch) -> None:
    returned = False
    with contextlib.suppress(OSError), Path("/dev/full").open("w", encoding="utf-8") as full:  # closing it fails, too
        monkeypatch.setattr(sys, "stderr", full)
        complain("it could not be sent")
        returned = True
    assert returned


def test_long_text_ends_in_an_ellipsis() -> None:
    assert plain("x" * 1000, 10) == "x" * 9 + "…"


def test_an_object_is_its_fields_and_a_path_its_end() -> None:
    assert (
        preview({"accuracy": 0.97777777, "errors": 10, "list": [1, 2], "text": "a b"}) == "accuracy=0.977778 errors=10 list=[1, 2] text=a b"
    )
    assert preview({"total": 11155.38, "small": 0.1 + 0.2, "large": 1e20}) == "total=11155.38 small=0.3 large=1e+20"
    shown = preview({"path": "/" + "folder/" * 20 + "model.joblib"})
    assert shown.startswith("path=…")
    assert shown.endswith("/model.joblib")
    assert len(shown) == len("path=") + MAX_VALUE
    assert preview({str(number): number for number in range(20)}).endswith("… 12 more")
    assert preview([1, None]) == "[1, null]"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0.00 s"),
        (1.234, "1.23 s"),
        (59.94, "59.9 s"),
        (61, "1 min 01 s"),
        (3660, "1 h 01 min"),
        (90_000, "1 d 01 h"),
        (1e300, "1e+300 s"),
        (float("inf"), "inf s"),
    ],
)
def test_a_duration_has_about_three_digits(seconds: float, words: str) -> None:
    assert duration(seconds) == words


@pytest.mark.parametrize("at", [1e300, -1e300, 1e18, float("inf"), float("nan")])
def test_a_time_outside_the_calendar_is_shown_as_invalid(at: float) -> None:
    assert local_time(at, MOMENT) == local_time(at, DAYTIME) == f"invalid time ({at:g} s)"


def test_counts_and_last_lines() -> None:
    assert (count(1, "task"), count(2, "task")) == ("1 task", "2 tasks")
    assert last_line("one\ntwo\n\n") == "two"
    assert last_line("") == ""


@pytest.mark.parametrize(("fixed", "lines"), [(True, 1), (False, 2)])
def test_a_terminal_cuts_a_fixed_line_and_wraps_any_other(*, fixed: bool, lines: int) -> None:
    shown = io.StringIO()
    put_line(Console(file=shown, force_terminal=True, width=40), StyledLine("word " * 10, fixed=fixed))
    assert shown.getvalue().count("\n") == lines
    assert shown.getvalue().endswith("…\n") == fixed


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (FileNotFoundError(2, "No such file or directory", "plug.py"), "asterism: cannot use plug.py: No such file or directory"),
        (OSError("no luck"), "asterism: no luck"),
    ],
)
def test_an_error_of_the_system_that_is_none_of_the_output_does_not_say_so(
    error: OSError, words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails() -> None:
        raise error

    monkeypatch.setattr("asterism.cli._check_folder", fails)
    assert main(["version"]) == FAILED
    assert capsys.readouterr().err.strip() == words


def test_an_output_that_cannot_be_written_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with contextlib.suppress(OSError), Path("/dev/full").open("w", encoding="utf-8") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert main(["--version"]) == FAILED
    assert capsys.readouterr().err.strip() == "asterism: cannot write the output: No space left on device"
