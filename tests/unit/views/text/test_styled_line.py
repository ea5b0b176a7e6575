"""A line in parts: its text, its styles, and its width in a terminal."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from asterism.cli.output import rich_text
from asterism.views.text.styled_line import StyledLine, cell_width


def test_a_line_is_its_text_and_its_parts_have_styles() -> None:
    line = StyledLine("a", "dim").append("b", "bold").append("", "red").append("c")
    assert str(line) == "abc"
    assert (line.style, line.parts) == ("dim", [("a", ""), ("b", "bold"), ("c", "")])


def test_an_appended_line_keeps_its_style() -> None:
    line = StyledLine("a", "dim").append_line(StyledLine("b", "cyan").append("c", "bold"))
    assert line.parts == [("a", ""), ("b", "cyan"), ("c", "cyan bold")]


def test_spaces_at_the_end_are_removed_across_parts() -> None:
    assert StyledLine("a ", "dim").append(" b  ", "bold").append("  ").rstrip().parts == [("a ", ""), (" b", "bold")]
    assert str(StyledLine("  ").rstrip()) == ""


def test_rich_text_has_the_same_text_and_is_cut_only_if_the_line_is_fixed() -> None:
    line = StyledLine("[b]a", "dim", fixed=True).append("b", "bold")
    text = rich_text(line)
    assert (text.plain, text.style, text.no_wrap, text.overflow) == ("[b]ab", "dim", True, "ellipsis")
    assert [(span.start, span.end, span.style) for span in text.spans] == [(4, 5, "bold")]
    assert rich_text(StyledLine("a")).no_wrap is None


@pytest.mark.parametrize("text", ["", "plain", "größe", "日本語", "e\u0301", "한국어", "\u1112\u1161\u11ab", "नमस्ते", "🌍 ok"])
def test_the_width_of_a_text_is_that_in_a_terminal(text: str) -> None:
    assert cell_width(text) == cell_len(text)
