"""What a fork means: nothing that was under way in the origin is silently repeated; each is decided anew."""

from __future__ import annotations

from asterism.constellation.task import TaskError
from asterism.kernel.machine import Redo, Turn
from asterism.machines.constellation_agent.approval import put_to_person
from asterism.machines.constellation_agent.memory import AgentMemory
from asterism.machines.constellation_agent.planning_state import AskedPerson
from asterism.machines.constellation_agent.tasks import ask_person, call_off
from asterism.machines.control import Forked
from asterism.machines.task_lifecycle import Continued, Retried
from asterism.machines.wiring import Board, move_task


def ask_approval_anew(memory: AgentMemory, turn: Turn) -> None:
    """Ask here about what was waiting for a person's yes there."""
    asked = memory.planning
    if isinstance(asked, AskedPerson):
        call_off(memory, asked.effect, turn)
        asked.effect, asked.expires_at = put_to_person(memory, asked.subject, turn)


def decide_anew(memory: AgentMemory, board: Board, event: Forked, turn: Turn) -> None:
    """Start again what may be repeated, ask a person about what may not, and ask again what was being asked.

    The copied effects are called off: their ids are the origin's in another name, and belong to nobody.
    """
    for effect, attempt in tuple(memory.attempts.items()):
        if effect in turn.abandoned:  # a child's: called off already
            del memory.attempts[effect]
        else:
            call_off(memory, effect, turn)
        task = board.constellation.tasks[attempt.task_id]
        error = TaskError(code="interrupted", message=f"it was under way when {event.origin} was forked")
        if attempt.redone is Redo.NEVER:
            where = f" on {attempt.device}" if attempt.device else ""
            prompt = f"{attempt.task_id}{where} was under way when {event.origin} was forked, and may have finished. Run it here?"
            inquiry = ask_person(memory, "interruption", attempt, prompt, turn)
            move_task(board, task, Continued(effect=inquiry, inquiry=inquiry), turn)
        else:
            move_task(board, task, Retried(error=error, not_before=turn.at), turn)
    for effect, question in tuple(memory.questions.items()):
        if effect.startswith(f"{turn.run}:{turn.seq}."):
            continue  # asked above
        call_off(memory, effect, turn)
        task = board.constellation.tasks[question.task_id]
        inquiry = ask_person(memory, question.kind, question.attempt, question.prompt, turn)
        move_task(board, task, Continued(effect=inquiry, inquiry=inquiry), turn)
