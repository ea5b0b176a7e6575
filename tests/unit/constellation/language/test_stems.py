"""Words without their endings."""

from __future__ import annotations

import pytest

from asterism.constellation.language.stems import stem, unknown, words


@pytest.mark.parametrize(
    "forms",
    [
        ("train", "trains", "trained", "training"),
        ("evaluate", "evaluates", "evaluating", "evaluation", "evaluations"),
        ("deploy", "deployed", "deployment", "deploying"),
        ("verify", "verifies", "verified", "verification", "verifying"),
        ("archive", "archives", "archiving", "archived"),
        ("file", "files"),
        ("ship", "shipped", "shipping"),
    ],
)
def test_the_forms_of_a_word_have_one_stem(forms: tuple[str, ...]) -> None:
    assert len({stem(form) for form in forms}) == 1


def test_numbered_names_stay_apart() -> None:
    assert len({stem(name) for name in ("node1", "node11", "node111")}) == 3


def test_names_are_split() -> None:
    assert words("download_mnist downloadMnist download-mnist") == ["download", "mnist"] * 3


def test_two_neighbours_may_be_written_as_one_word() -> None:
    assert unknown(words("the data set"), {*words("dataset"), "the"}) == []
    assert unknown(words("the image set"), {*words("dataset"), "the"}) == ["imag", "set"]
