"""The words of phrases may change while runs are under way: no journal and no memory has them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from asterism.engine.kernel import phrase
from asterism.engine.kernel.packing import packer
from asterism.engine.kernel.run import Run
from asterism.engine.kernel.snapshot import take_snapshot
from tests.journals.test_golden import ENDS, MACHINE_OF, OUTCOMES, golden
from tests.journals.write import GOLDEN

OTHER = "in other words"


@pytest.fixture
def other_words() -> Iterator[None]:
    for name in GOLDEN:
        golden(name)  # converted with the words that they had
    with pytest.MonkeyPatch.context() as patch:
        for code in phrase.WORDINGS:
            patch.setitem(phrase.WORDINGS, code, lambda **_: OTHER)
        yield


@pytest.mark.usefixtures("other_words")
@pytest.mark.parametrize("name", GOLDEN)
def test_a_golden_journal_ends_the_same_when_every_phrase_has_other_words(name: str) -> None:
    machine = MACHINE_OF[name]
    run = Run(machine, golden(name)[0].run_id)
    for record in golden(name):
        run.replay([packer(machine).unpack(record)])
        run.fixed_requests = {}  # what planners are asked, which is for this version only
        snapshot = take_snapshot(run, "")
        assert snapshot is not None
        assert OTHER not in snapshot.body, record.seq
    assert run.memory.outcome() == (ENDS[name][0] if name in ENDS else OUTCOMES[name])
