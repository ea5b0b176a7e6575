"""Rules for references to secrets in the inputs of a task."""

from __future__ import annotations

import re

from asterism.constellation.model.constellation import TaskConstellation
from asterism.constellation.model.edits import EditRefused
from asterism.constellation.model.task import TaskStar
from asterism.devices.model.references import SECRET, references, written_as
from asterism.engine.kernel.data import texts_of
from asterism.engine.kernel.phrase import phrase
from asterism.engine.kernel.profile import Fleet

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def check_secrets(task: TaskStar, constellation: TaskConstellation, fleet: Fleet) -> None:
    """Check the references to secrets of a task.

    Raises:
        EditRefused: ``bad_reference``, for a name that is none, a text with other references, or a
            task that starts a run of its own, whose journal would have the secret.
    """
    if SECRET in constellation.tasks:
        return  # the name refers to that task
    used = [path for source, path in references([*task.inputs.values(), *task.env.values()]) if source == SECRET]
    for path in used:
        if len(path) != 1 or not NAME.fullmatch(path[0]):
            raise EditRefused("bad_reference", task.task_id, phrase("secret_name", reference=written_as(SECRET, path)))
    for text in texts_of(task.inputs):
        sources = {source for source, _ in references(text)}
        if SECRET in sources and len(sources) > 1:
            raise EditRefused("bad_reference", task.task_id, phrase("secret_among", text=f"{text!r:.80}"))
    if task.for_each and any(source == SECRET for source, _ in references(task.for_each.items)):
        raise EditRefused("bad_reference", task.task_id, phrase("secret_items"))
    if task.wait and any(source == SECRET for source, _ in references(task.referring_values)):
        raise EditRefused("bad_reference", task.task_id, phrase("secret_of_wait"))
    profile = fleet.get(task.device)
    if used and (task.constellation is not None or (profile is not None and profile.child is not None)):
        raise EditRefused("bad_reference", task.task_id, phrase("secret_below"))
