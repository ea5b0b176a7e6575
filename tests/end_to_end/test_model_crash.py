"""kill -9 around a question to the model, with real processes: at most one more question, and no edit twice."""

from __future__ import annotations

import asyncio
import collections
import os
import signal
import sys
from pathlib import Path

import pytest

from asterism.constellation.machine.events import Planned
from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.engine.kernel.journal import Entry
from asterism.engine.kernel.packing import packer
from asterism.stores.sqlite import SqliteStore
from asterism.testing.model_wire import ModelRequest
from asterism.testing.scripted_model import HANG, ModelAnswer, ScriptedModel
from tests.end_to_end.test_model_story import CREATED, EDITED, FINISHED
from tests.support.http_runs import creating, edit, ended

ROOT = Path(__file__).parents[2]
QUESTIONS = 5
"""Of the uninterrupted run: the creation, and one after each of its four tasks."""
CREATION, EDITING = 1, 4
"""Which of them makes the constellation, and which changes it."""
ENTRY_OF_THE_EDIT = 16

pytestmark = pytest.mark.slow


class Scene:
    """A database, a log of what was performed, and a model that may see its asker die."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: list[ModelRequest] = []
        self.entries: list[Entry] = []
        self.said: list[str] = []

    def lives(self, *, asking: int = 0, reply: int = 0, entry: int = 0) -> None:
        """One process that is killed, while it asks question number ``asking`` or as ``model_owner`` says; then one that goes on."""
        asyncio.run(self._lives(asking, reply, entry))

    async def _lives(self, asking: int, reply: int, entry: int) -> None:
        owners: list[asyncio.subprocess.Process] = []
        replies: dict[str, ModelAnswer] = {"task_003": EDITED, "task_005": FINISHED}

        def script(request: ModelRequest) -> ModelAnswer:
            if request.number == asking:
                owners[-1].kill()
                return HANG
            if creating(request):
                return CREATED
            return replies.get(ended(request)[0], edit())

        async with ScriptedModel(script) as model:
            for how in (f"new {reply} {entry}", "resume 0 0"):
                word, *deaths = how.split()
                argv = [str(self.folder / "runs.db"), "r1", str(self.folder / "log"), word, model.openai_url, *deaths]
                owner = await asyncio.create_subprocess_exec(
                    sys.executable,
                    "-m",
                    "tests.end_to_end.model_owner",
                    *argv,
                    cwd=ROOT,
                    env={**os.environ, "OPENAI_API_KEY": "any"},
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.STDOUT,
                )
                owners.append(owner)
                out, _ = await owner.communicate()
                self.said.append(f"{owner.returncode} {out.decode()}".strip())
            self.asked = model.requests
        store = SqliteStore.open(self.folder / "runs.db", create=False)
        self.entries = [packer(CONSTELLATION_AGENT).unpack(record) for record in await store.records("r1")]
        await store.close()

    def performed(self) -> collections.Counter[str]:
        return collections.Counter((self.folder / "log").read_text(encoding="utf-8").split())


def assert_whole(scene: Scene, *, questions: int) -> None:
    """It was killed, it went on to its end, and nothing was done twice."""
    assert scene.said == [f"{-signal.SIGKILL}", "0 ended finished"]
    assert len(scene.asked) == questions
    assert scene.performed() == {"task_001": 1, "task_002": 1, "task_003": 1, "task_005": 1}
    answers = [entry.event for entry in scene.entries if isinstance(entry.event, Planned) and not entry.note]
    assert [len(answer.actions) for answer in answers] == [0, 0, 0, 3, 0]
    assert len({answer.effect_id for answer in answers}) == len(answers)


@pytest.mark.parametrize("asking", [CREATION, EDITING], ids=["creation", "edit"])
def test_killed_while_the_model_is_being_asked_it_asks_once_more(tmp_path: Path, asking: int) -> None:
    scene = Scene(tmp_path)
    scene.lives(asking=asking)
    assert_whole(scene, questions=QUESTIONS + 1)
    assert scene.asked[asking - 1].messages == scene.asked[asking].messages


@pytest.mark.parametrize("reply", [CREATION, EDITING], ids=["creation", "edit"])
def test_killed_between_the_reply_and_its_edit_it_asks_once_more_and_edits_once(tmp_path: Path, reply: int) -> None:
    scene = Scene(tmp_path)
    scene.lives(reply=reply)
    assert_whole(scene, questions=QUESTIONS + 1)


def test_killed_right_after_the_edit_became_durable_it_asks_no_more_about_it(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.lives(entry=ENTRY_OF_THE_EDIT)
    assert_whole(scene, questions=QUESTIONS)
    edited = scene.entries[ENTRY_OF_THE_EDIT - 1]
    assert isinstance(edited.event, Planned)
    assert len(edited.event.actions) == 3
