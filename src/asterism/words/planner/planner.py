"""The planner port without a model: it plans plain imperative requests by the skills of a fleet.

    plan_offline("Download MNIST on laptop, then train it on the GPU server", fleet)

Pure and synchronous. It never guesses silently: a request is planned as a whole, or refused with
every clause that cannot be placed. The task's ``tips`` name choices between equal candidates and
values carried over from earlier clauses.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import msgspec

from asterism.constellation.language.vocabulary import REPORTS
from asterism.constellation.model.documents import parse_plan
from asterism.constellation.planner.port import PlannerRequest, PlanningUnavailable, Proposal
from asterism.engine.kernel.profile import Fleet
from asterism.errors import InvalidInput
from asterism.words.planner.advice import advice
from asterism.words.planner.clauses import Clause, split
from asterism.words.planner.mentions import FleetWords
from asterism.words.planner.placement import Placed, meant_skills, place
from asterism.words.planner.refusal import ClauseRefused, PlanRefused
from asterism.words.planner.spoken_condition import Earlier, Spoken, bind, on_failure

MAX_REQUEST_LENGTH = 10_000
"""Maximum characters of a request."""
MAX_CLAUSES = 100

_CASCADES = frozenset({"missing_parameter", "bad_condition", "bad_structure"})


class OfflinePlanner:
    """Turns plain imperative requests into constellations, and refuses any other clause by name.

    Caches the last plan: a request that was rehearsed before its run is not planned twice.
    """

    def __init__(self) -> None:
        self._last: tuple[str, Fleet, Proposal] | None = None

    async def propose(self, question: PlannerRequest) -> Proposal:
        """Return the plan of the request; in EDITING, no edits.

        Raises:
            PlanningUnavailable: a clause cannot be placed, or the last plan was refused: it would
                be the same again.
        """
        if question.mode == "EDITING":
            return Proposal(thought="without a model, no edits are planned")
        if question.feedback:
            why = question.rejections[-1] if question.rejections else question.feedback
            raise PlanningUnavailable(f"without a model, there is no other plan: {why}", code="refused")
        if self._last is not None and self._last[:2] == (question.request, question.fleet):
            return self._last[2]
        try:
            document = plan_offline(question.request, question.fleet)
        except InvalidInput as error:
            raise PlanningUnavailable(str(error), code="refused") from None
        thought = str(document.pop("thought", ""))
        proposal = Proposal(thought=thought, plan=parse_plan(document))
        self._last = (question.request, question.fleet, proposal)
        return proposal


class _Branch(msgspec.Struct, frozen=True):
    """The last condition, its sources, and the tasks before the branch."""

    spoken: Spoken
    before: tuple[str, ...]
    sources: tuple[str, ...]


def plan_offline(request: str, fleet: Fleet) -> dict[str, Any]:
    """Return the plan document of a request: ``tasks``, ``dependencies`` and a ``thought``.

    Raises:
        PlanRefused: some clauses cannot be placed; it has each of them with the reason.
        InvalidInput: an empty or overlong request, or a fleet without devices.
    """
    if len(request) > MAX_REQUEST_LENGTH:
        raise InvalidInput(f"the request has {len(request)} characters; at most {MAX_REQUEST_LENGTH} are planned at once")
    if not fleet:
        raise InvalidInput("the fleet has no devices; add one first")
    fleet_words = FleetWords.of(fleet)

    def is_placed(wording: str) -> bool:
        try:
            return not _built(wording, fleet_words).refusals
        except InvalidInput:
            return False

    builder = _built(request, fleet_words)
    if builder.refusals:
        raise PlanRefused(builder.refusals, advice(request, builder.refusals, fleet_words, is_placed))
    return builder.document()


def _built(request: str, fleet_words: FleetWords) -> _PlanBuilder:
    clauses = split(request, fleet_words)
    if not clauses:
        raise InvalidInput("the request is empty; write what to do, for instance 'count files in ./photos on desk'")
    if len(clauses) > MAX_CLAUSES:
        raise InvalidInput(f"the request has {len(clauses)} clauses; at most {MAX_CLAUSES} are planned at once")
    builder = _PlanBuilder(fleet_words)
    for index, clause in enumerate(clauses):
        builder.begin(clause)
        builder.add(clause, clauses[index + 1] if clause.shares_next else None)
    builder.refuse_contradictions()
    return builder


class _PlanBuilder:
    """Builds a plan clause by clause.

    The next clause waits for the tasks of ``stage``, which wait for the tasks of ``before``.
    ``split_ends`` is True if only one of several branches runs: then a new sentence cannot wait for
    "the step before".
    """

    def __init__(self, fleet_words: FleetWords) -> None:
        self.fleet_words = fleet_words
        self.steps: dict[str, Placed] = {}
        self.refusals: list[ClauseRefused] = []
        self.stage: tuple[str, ...] = ()
        self.before: tuple[str, ...] = ()
        self.branch: _Branch | None = None
        self.split_ends = False
        self.excluded: dict[str, Clause] = {}
        self.value = 0
        self.before_values: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
        self.ends: tuple[str, ...] = ()

    def begin(self, clause: Clause) -> None:
        """Start the steps for the next value of a list beside those for the others, and join them after the last."""
        if clause.value == self.value:
            return
        if clause.value == 1 or not self.value:
            self.before_values, self.ends = (self.stage, self.before), ()
        self.ends = (*self.ends, *self.stage) if self.value else ()
        if clause.value:
            self.stage, self.before = self.before_values
        else:
            self.stage = self.ends
        self.value = clause.value
        self.branch = None

    def add(self, clause: Clause, sharing: Clause | None) -> None:
        """Place a clause and add its dependencies, or record its refusal."""
        try:
            if clause.problem is not None:
                raise clause.problem
            if clause.negated:
                self.excluded |= dict.fromkeys(meant_skills(clause, self.fleet_words), clause)
            elif not self._only_reports(clause):
                self._place(clause, sharing)
        except ClauseRefused as refused:
            # Refusals that only follow from an earlier one are not reported.
            if not self.refusals or refused.code not in _CASCADES or clause.problem is not None:
                refused.clause, refused.start, refused.end = clause.text, clause.start, clause.end
                self.refusals.append(refused)

    def _place(self, clause: Clause, sharing: Clause | None) -> None:
        before, conditions, parallel = self._dependencies(clause)
        failed = [source for source, condition in conditions.items() if on_failure(condition)]
        lines = ({} if failed else dict.fromkeys(before, "")) | conditions
        earlier = self._earlier(failed or before, lines, failed)
        stage = self.stage if parallel else ()
        for placed in place(clause, self.fleet_words, earlier, sharing.tokens if sharing else ()):
            placed.lines = lines
            task_id = f"task_{len(self.steps) + 1:03d}"
            self.steps[task_id] = placed
            stage = (*stage, task_id)
        self.stage = stage
        self.before = before
        if clause.condition is not None:
            self.split_ends |= bool(failed) or (self.branch is not None and self.branch.before == before)
            self.branch = _Branch(clause.condition, before, tuple(conditions))
        elif clause.otherwise:
            self.split_ends = True
            self.branch = None

    def _only_reports(self, clause: Clause) -> bool:
        """Return True for "tell me if it fails", which every run does."""
        atoms = clause.condition.atoms if clause.condition is not None else ()
        only_status = bool(atoms) and all(atom.operator in {"fails", "succeeds"} for atom in atoms)
        return only_status and bool(self.steps) and all(token.low in REPORTS for token in clause.tokens)

    def refuse_contradictions(self) -> None:
        """Refuse steps that the request excludes, and a request that only excludes."""
        for skill, clause in self.excluded.items():
            if any(step.name == skill for step in self.steps.values()):
                refused = ClauseRefused("bad_structure", f"another part of the request asks for {skill}; remove one of them")
                refused.clause, refused.start, refused.end = clause.text, clause.start, clause.end
                self.refusals.append(refused)
        if not self.steps and self.excluded and not self.refusals:
            raise InvalidInput("the request only says what not to do, so there is nothing to run")

    def _dependencies(self, clause: Clause) -> tuple[tuple[str, ...], dict[str, str], bool]:
        """Return the tasks that a clause waits for, their conditions, and if it joins the stage."""
        if clause.otherwise:
            if self.branch is None:
                raise ClauseRefused("bad_structure", "there is no 'if' before this 'otherwise'")
            if clause.condition is not None:
                raise ClauseRefused("bad_structure", "'otherwise if' is not supported offline; give each case its own 'if'")
            return self.branch.before, bind(self.branch.spoken.opposite(), self._upstream(self.branch.before)), False
        if clause.condition is not None and self.branch is not None and not clause.then and not clause.parallel:
            sibling = self._sibling(clause.condition, self.branch)
            if sibling:
                return self.branch.before, sibling, False
        if clause.after == "sentence" and self.split_ends:
            why = "only one of the branches before it runs, so it is unclear which step it waits for; write it with 'then' in its branch"
            raise ClauseRefused("bad_structure", why)
        before = self.before if clause.parallel else self.stage
        conditions = bind(clause.condition, self._upstream(before)) if clause.condition is not None else {}
        return before, conditions, clause.parallel

    def _sibling(self, spoken: Spoken, branch: _Branch) -> dict[str, str]:
        """Return the conditions of an alternative: an "if" over the same results as the last one.

        Empty if the clause is no alternative.
        """
        try:
            conditions = bind(spoken, self._upstream(branch.before))
        except ClauseRefused:
            return {}
        return conditions if tuple(conditions) == branch.sources else {}

    def _distances(self, before: Sequence[str]) -> dict[str, int]:
        """Return every upstream task with its distance in dependencies, nearest first; O(n + e)."""
        found: dict[str, int] = {}
        layer = list(before)
        distance = 1
        while layer:
            for task in layer:
                found.setdefault(task, distance)
            layer = list(dict.fromkeys(source for task in layer for source in self.steps[task].lines if source not in found))
            distance += 1
        return found

    def _upstream(self, before: Sequence[str]) -> list[Earlier]:
        return [one for one in self._earlier(before) if one.distance]

    def _earlier(self, before: Sequence[str], lines: Collection[str] = (), failed: Collection[str] = ()) -> list[Earlier]:
        distances = self._distances(before)
        order = dict.fromkeys((*distances, *reversed(self.steps)))
        return [
            Earlier(task, step.skill, step.inputs, distances.get(task, 0), has_line=task in lines, gives_result=task not in failed)
            for task, step in ((task, self.steps[task]) for task in order)
        ]

    def document(self) -> dict[str, Any]:
        """Return the plan document."""
        tasks = []
        dependencies = []
        summary = []
        for number, (task_id, step) in enumerate(self.steps.items(), 1):
            task: dict[str, Any] = {"task_id": task_id, "name": step.name, "description": step.description, "device": step.device}
            given = {"skill": step.skill.name if step.skill else "", "inputs": step.inputs, "tips": step.tips}
            tasks.append(task | {key: value for key, value in given.items() if value})
            conditions = [condition for condition in step.lines.values() if condition]
            summary.append(f"({number}) {step.name} on {step.device}{' if ' if conditions else ''}{' and '.join(conditions)}")
            for source, condition in step.lines.items():
                line = {"from": source, "to": task_id, "type": "CONDITIONAL" if condition else "SUCCESS_ONLY"}
                dependencies.append({**line, "condition": condition} if condition else line)
        return {"tasks": tasks, "dependencies": dependencies, "thought": f"Decomposed into {len(tasks)} tasks: {', '.join(summary)}"}
