"""The page that `asterism serve --open` names."""

from __future__ import annotations

import pytest

from asterism.cli.api_options import page_of
from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.conversation.machine.table import FLOW_AGENT
from asterism.engine.ports.store import RunRow


@pytest.mark.parametrize(("machine", "page"), [(CONSTELLATION_AGENT.name, "/runs/r1"), (FLOW_AGENT.name, "/conversations/r1")])
def test_a_conversation_has_a_page_of_its_own(machine: str, page: str) -> None:
    assert page_of(RunRow(run_id="r1", machine=machine, title="t", state="START")) == page
