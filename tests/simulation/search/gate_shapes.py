"""Random fleets with guards, plans with gates, and what planners, people and clients try against them."""

from __future__ import annotations

import random
from typing import Any, Literal

import msgspec

from asterism.constellation.machine.definition import ConstellationDefinition
from asterism.constellation.machine.events import Edited, Retry, RunOptions
from asterism.constellation.model.documents import PlanDocument, parse_plan
from asterism.constellation.planner.port import PlannerRequest, Proposal
from asterism.conversation.machine.events import MessageReceived
from asterism.conversation.python import AgentResult, AgentStatus, InputField, Message, StandardAgent, flowagent
from asterism.conversation.python.children import as_child, constellation
from asterism.engine.control.run_control import GuardLifted, Verb
from asterism.engine.kernel.guards import DeviceGuards, SkillGuard
from asterism.engine.kernel.machine import Event, kind_of
from asterism.engine.kernel.packing import event_body
from asterism.engine.kernel.permissions import ALL_BUT_LOCAL, LOWEST, Permission, Permissions
from asterism.engine.kernel.profile import AgentProfile
from asterism.engine.ports.store import InquiryRow
from asterism.testing.device import Script
from asterism.testing.people import Answer, Answerer
from asterism.testing.planner import Reply
from tests.simulation.search.gate_oracle import FOREIGN, RENAMED
from tests.simulation.search.shapes import likely
from tests.simulation.search.watched_world import ClientAnswer, ClientEvent, Report

NATURAL = "words"
"""A device without skills."""
CLERK = "clerk"
"""A device whose tasks are conversations."""
WORDS = ("copy it", "copy all of it", "delete it", "send it to ada")
SKILLS = ("safe", "work")
MOST = 5
"""Maximum number of tasks of a plan, which are ``t0``, ``t1`` and so on."""
STATUSES: tuple[Literal["CONTINUE", "FINISH", "START"], ...] = ("CONTINUE", "FINISH", "START")
OPERATOR: Permissions = (Permission.VIEW, Permission.SUBMIT, Permission.COMMAND, Permission.EDIT)
APPROVER: Permissions = (Permission.VIEW, Permission.ANSWER)


def guarded(rng: random.Random, fleet: list[AgentProfile]) -> list[AgentProfile]:
    """Return a fleet with random guards, and a device without skills."""
    return [*(_guarded(rng, profile) for profile in fleet), _guarded(rng, AgentProfile(device_id=NATURAL, natural_language=True))]


def _guarded(rng: random.Random, profile: AgentProfile) -> AgentProfile:
    skills = {skill.name: _guard(rng) for skill in profile.skills if likely(rng, 0.4)}
    return msgspec.structs.replace(profile, guards=DeviceGuards(every=_guard(rng), skills=skills))


def _guard(rng: random.Random) -> SkillGuard:
    return SkillGuard(
        approval=likely(rng, 0.25),
        no_options=("*",) if likely(rng, 0.2) else (),
        secrets=("LISTED",) if likely(rng, 0.5) else (),
        task_env=("APP_*",) if likely(rng, 0.5) else (),
        task_folder=likely(rng, 0.5),
    )


def planning(fleet: list[AgentProfile]) -> AgentProfile:
    """Return a device whose tasks are constellations, planned on this fleet."""
    child = ConstellationDefinition(fleet=tuple(fleet), options=RunOptions(replan="never")).as_child()
    return AgentProfile(device_id="planning", kind="agent", natural_language=True, child=child)


@flowagent(description="Have a note worked on some day", timeout_s=600.0)
class Clerk(StandardAgent):
    """It asks for what its request lacks, and hands the note to a plan in code."""

    idempotent = True
    note: str = InputField("Which note?", min_length=1)
    day: str = InputField("Which day?")

    async def on_running(self, msg: Message) -> AgentResult:
        """Start the plan."""
        tasks = [{"task_id": "c0", "device": "d0", "skill": "work", "inputs": {"x": 1, "note": "${inputs.note}"}}]
        started = constellation({"tasks": tasks}, inputs={"note": self.note}, options=RunOptions(replan="never"))
        return self.make_result(AgentStatus.COMPLETED, "done", data={"ended": str(await self.child("work", started))})


def conversing(rng: random.Random) -> AgentProfile:
    """Return a device whose tasks are conversations with a ``Clerk``."""
    return _guarded(rng, AgentProfile(device_id=CLERK, kind="flow", natural_language=True, child=as_child(Clerk)))


def renamed(profile: AgentProfile) -> AgentProfile:
    """Return a device that has each skill that is not idempotent under another name."""
    skills = tuple(it if it.idempotent else msgspec.structs.replace(it, name=it.name + RENAMED) for it in profile.skills)
    return msgspec.structs.replace(profile, skills=skills)


def renaming(rng: random.Random, profile: AgentProfile) -> list[Report]:
    """Return two reports of a device that renames skills: one drops them and one adds them, in either order."""
    then = renamed(profile)
    both = {it.name: it for it in (*profile.skills, *then.skills)}
    kept = [it for it in profile.skills if it.idempotent] if likely(rng, 0.5) else both.values()
    at_s = round(rng.choice((0.1, rng.uniform(0, 30))), 1)
    reports = (at_s, msgspec.structs.replace(profile, skills=tuple(kept))), (at_s + 0.5, then)
    return [Report(at_s=when, what="find", device=it.device_id, profile=it) for when, it in reports]


def use_of_renamed(profile: AgentProfile, at_s: float) -> ClientEvent:
    """Return an edit that adds a task for a skill under its other name."""
    skill = next(it.name for it in renamed(profile).skills if not it.idempotent)
    added = {"task_id": f"by_{profile.device_id}", "device": profile.device_id, "skill": skill, "inputs": {"x": 1, "note": "n"}}
    return by_operator(Edited(actions=({"tool": "add_task", "parameters": added},)), at_s)


# -- plans and edits -------------------------------------------------------------------------------


def plan(rng: random.Random, fleet: list[AgentProfile], *, foreign: bool) -> PlanDocument:
    """Return a plan in which some tasks ask for approval; a ``foreign`` one may use what no fleet lists."""
    ids = [f"t{number}" for number in range(rng.randint(1, MOST))]
    upstream = {task_id: [source for source in ids[:at] if likely(rng, 0.3)] for at, task_id in enumerate(ids)}
    return parse_plan({
        "tasks": [task(rng, task_id, fleet, upstream[task_id], foreign=foreign) for task_id in ids],
        "dependencies": [{"from": source, "to": target, "type": "COMPLETION_ONLY"} for target in ids for source in upstream[target]],
    })  # fmt: skip


def task(
    rng: random.Random, task_id: str, fleet: list[AgentProfile], upstream: list[str], *, foreign: bool, nests: bool = True
) -> dict[str, Any]:
    """Return a task of a plan document."""
    found: dict[str, Any] = {"task_id": task_id, "description": rng.choice(WORDS), "requires_approval": likely(rng, 0.3)}
    if nests and likely(rng, 0.1):
        inner = [task(rng, f"i{number}", fleet, [], foreign=foreign, nests=False) for number in range(rng.randint(1, 2))]
        return {**found, "constellation": {"tasks": inner}}
    profile = rng.choice(fleet)
    found["device"] = profile.device_id
    if profile.skills:
        found |= {"skill": rng.choice(profile.skills).name, "inputs": {"x": 1, "note": _note(rng, upstream, foreign=foreign)}}
    elif profile.device_id == CLERK:
        found["inputs"] = rng.choice(({"note": "n"}, {"note": "n"}, {"note": "n", "day": "monday"}, {"day": "monday"}, {"note": ""}))
    if likely(rng, 0.5):
        codes = rng.choice((["raised", "crashed"], ["raised", "crashed", "interrupted", "device_lost", "timeout"]))
        found["retry"] = {"max_attempts": rng.randint(2, 4), "backoff_s": rng.choice((0.0, 5.0, 30.0)), "on": codes}
    if likely(rng, 0.15) and profile.child is None:
        names = ("APP_MODE", f"{FOREIGN}_MODE", "LD_PRELOAD") if foreign else ("APP_MODE",)
        found["env"] = {rng.choice(names): "1"}
    if likely(rng, 0.1) and profile.child is None:
        found["folder"] = "data"
    if profile.skills and likely(rng, 0.1):
        found["for_each"] = {"items": ["a", "-b"], "failed": rng.choice(("stop", "omit"))}
        found["inputs"]["x"] = "${item}"
    return found


def _note(rng: random.Random, upstream: list[str], *, foreign: bool) -> str:
    notes = ["n", "n", "m", "${secret.LISTED}", *(f"it said: ${{{source}.error}}" for source in upstream)]
    return rng.choice([*notes, "-r", f"${{secret.{FOREIGN}}}"] if foreign else notes)


def attack(rng: random.Random, fleet: list[AgentProfile], ids: list[str], *, foreign: bool = True) -> dict[str, Any]:
    """Return an edit that would weaken a gate, or prepare that: for one of these tasks, or a new one."""
    target, fresh = rng.choice(ids or ["t0"]), f"n{rng.randrange(1_000)}"
    profile = rng.choice(fleet)
    skill = rng.choice(profile.skills).name if profile.skills else ""
    changes: tuple[dict[str, Any], ...] = (
        {"requires_approval": False},
        {"requires_approval": False, "description": rng.choice(WORDS)},
        {"description": rng.choice(WORDS)},
        {"description": rng.choice(WORDS)},
        {"name": "harmless"},
        {"inputs": {"x": 1, "note": _note(rng, [], foreign=foreign)}},
        {"device": profile.device_id, "skill": skill},
        {"requires_approval": True},
        {"env": {"APP_MODE": "2"}},
        {"folder": "elsewhere"},
    )
    added = task(rng, rng.choice((fresh, fresh, target)), fleet, [], foreign=foreign)
    added["requires_approval"] = likely(rng, 0.2)
    edits: tuple[tuple[str, dict[str, Any]], ...] = (
        ("remove_task", {"task_id": target}),
        ("add_task", added),
        ("add_task", added),
        *(("update_task", {"task_id": target, **change}) for change in rng.sample(changes, 3)),
        ("build_constellation", {"tasks": [added], "clear": likely(rng, 0.7)}),
    )
    tool, parameters = rng.choice(edits)
    return {"tool": tool, "parameters": parameters}


class Schemer:
    """Script of a planner that writes gates, and tries to go around them."""

    def __init__(self, seed: int, fleet: list[AgentProfile]) -> None:
        self._seed = seed
        self._fleet = fleet

    def __call__(self, question: PlannerRequest) -> Reply:
        """Return a reply that depends only on the seed and the key of the question."""
        rng = random.Random(f"{self._seed}:{question.key}")
        after_s = rng.choice((0.0, 1.0, 10.0))
        if question.mode == "CREATION":
            return Reply(after_s=after_s, proposal=Proposal(plan=plan(rng, self._fleet, foreign=True), status="CONTINUE"))
        ids = [found["task_id"] for found in (question.constellation or {}).get("tasks", ())]
        actions = tuple(attack(rng, self._fleet, ids) for _ in range(rng.choice((0, 1, 1, 2, 3))))
        status = rng.choices(STATUSES, (14, 2, 4))[0]
        return Reply(after_s=after_s, proposal=Proposal(actions=actions, status=status))


# -- people and clients ----------------------------------------------------------------------------

FIELDS: tuple[Any, ...] = (
    *({"day": "friday"}, {"day": "friday"}, {"note": "n", "day": "friday"}),
    *({"day": "friday", "note": "k"}, {"day": "friday", "note": "-k"}, "friday", "the note is k", "change the note to -k"),
)
"""What people say to a ``Clerk``, by name and in words: the field that it asks for, and others."""


def answers(seed: int) -> Answerer:
    """Return people who usually approve, and clients who answer other questions, without permission, or twice."""

    def given(inquiry: InquiryRow) -> list[Answer]:
        rng = random.Random(f"{seed}:{inquiry.inquiry_id}")
        subject = msgspec.json.decode(inquiry.subject)
        found: list[Answer] = []
        for _ in range(rng.choice((0, 1, 1, 1, 1, 2, 3))):
            verbs: tuple[Verb, ...] = ("approve", "approve", "approve", "approve", "edit", "reject", "respond")
            verb = rng.choice(verbs)
            value: Any = {"note": rng.choice(("k", "-k"))} if verb == "edit" else {"value": 1} if verb == "respond" else None
            if "fields" in subject:  # of a conversation
                verb, value = "respond", rng.choice(FIELDS)
            shape: dict[str, Any] = {"verb": verb, "value": value, "after_s": rng.choice((0.0, 0.5, 2.0, 15.0, 60.0))}
            if likely(rng, 0.5):
                permissions = rng.choice((ALL_BUT_LOCAL, APPROVER, APPROVER, OPERATOR, LOWEST))
                found.append(ClientAnswer(by="mallory", is_stale=likely(rng, 0.4), permissions=permissions, **shape))
            else:
                found.append(Answer(by="ada", **shape))
        return found

    return given


def client_events(rng: random.Random, fleet: list[AgentProfile], ids: list[str]) -> list[ClientEvent]:
    """Return edits, retries and lifts of clients with random permissions."""
    found = []
    for _ in range(rng.randint(1, 8)):
        actions = tuple(attack(rng, fleet, ids) for _ in range(rng.choice((1, 1, 2))))
        event: Event = rng.choice((
            Edited(actions=actions),
            Edited(actions=actions),
            Edited(actions=actions),
            Retry(),
            Retry(tasks=(rng.choice(ids),)),
            GuardLifted(name=rng.choice((*SKILLS, NATURAL)), reason="simulated"),
            MessageReceived(text="", values=rng.choice(FIELDS[:5])),
        ))  # fmt: skip
        permissions = rng.choice((OPERATOR, OPERATOR, APPROVER, LOWEST, ALL_BUT_LOCAL))
        if isinstance(event, GuardLifted):
            permissions = rng.choice((OPERATOR, ALL_BUT_LOCAL))
        at_s = round(rng.uniform(0, 90), 1)
        run_id = rng.choice(("", "", "", "*"))
        found.append(
            ClientEvent(at_s=at_s, what="inbox_row", kind=kind_of(event), body=event_body(event), permissions=permissions, run_id=run_id)
        )
    return found


def late_changes(rng: random.Random, ids: list[str]) -> list[ClientEvent]:
    """Return one edit for each task, which changes what its device gets."""
    change = rng.choice(({"description": "delete it"}, {"description": "delete it"}, {"inputs": {"x": 2}}, {"requires_approval": False}))
    edits = [Edited(actions=({"tool": "update_task", "parameters": {"task_id": task_id, **change}},)) for task_id in ids]
    return [by_operator(it, 0) for it in edits]


def first_short(script: Script) -> Script:
    """Return a script in which the first tasks of a plan take one second, and the others longer than a retry of those."""
    return lambda attempt: msgspec.structs.replace(script(attempt), duration_s=1.0 if attempt.task_id in ("t0", "t1") else 40.0)


def by_operator(event: Event, at_s: float) -> ClientEvent:
    """Return an event of a client that may change a run."""
    return ClientEvent(at_s=at_s, what="inbox_row", kind=kind_of(event), body=event_body(event), permissions=OPERATOR)
