"""The ranker: which skill a text speaks of, and when that is clear."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asterism.constellation.model.skill_ranker import clear_match, rank
from asterism.engine.kernel.profile import Fleet, Skill
from tests.support.example_fleets import digits, folder


def skills_of(fleet: Fleet) -> list[Skill]:
    return [skill for profile in fleet.values() for skill in profile.skills]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("train_cnn", "train_cnn"),
        ("evaluation of the model", "evaluate"),
        ("retrain the CNN with more data", "train_cnn"),
        ("ship it", "deploy"),
        ("fetch handwritten digits", "download_mnist"),
    ],
)
def test_a_text_that_speaks_of_one_skill_is_clear(text: str, name: str) -> None:
    found = clear_match(text, skills_of(digits()))
    assert found is not None
    assert found.name == name


@pytest.mark.parametrize("text", ["", "brew coffee", "model", "the dataset", "💥"])
def test_a_text_that_speaks_of_none_is_not_clear(text: str) -> None:
    assert clear_match(text, skills_of(digits())) is None


def test_between_two_that_fit_equally_nothing_is_clear() -> None:
    pair = [Skill(name=f"report_{what}", description="Report something.") for what in ("sales", "stock")]
    assert clear_match("report something", pair) is None
    assert clear_match("report the stock", pair) == pair[1]


def test_skills_of_one_name_do_not_compete() -> None:
    one, other = (Skill(name="archive", description=told) for told in ("Archive a folder.", "Archive any folder."))
    assert clear_match("archive the folder", [one, other]) == one


def test_the_nearest_comes_first_and_ties_keep_their_order() -> None:
    ranked = rank("check the files for duplicates", skills_of(folder()))
    assert ranked[0].skill.name == "check_files"
    assert [one.skill.name for one in rank("nothing here", skills_of(folder()))] == ["count_files", "check_files", "archive", "verify"]


@given(st.text(max_size=200))
def test_ranking_is_the_same_every_time(text: str) -> None:
    skills = skills_of({**digits(), **folder()})
    assert rank(text, skills) == rank(text, skills)
    assert len(rank(text, skills)) == len(skills)
