from __future__ import annotations

import re
from typing import Any

import pytest

from asterism.constellation.model.condition import MAX_LENGTH, Condition, InputCondition
from asterism.errors import InvalidInput


def ask(text: str, result: Any = None, status: str = "COMPLETED", ancestors: Any = None) -> tuple[bool, str]:
    met, why = Condition(text).evaluate(result, status, ancestors or {})
    return met, str(why)


@pytest.mark.parametrize(
    ("text", "result", "met"),
    [
        ("accuracy > 0.95", {"accuracy": 0.951}, True),
        ("accuracy > 0.95", {"accuracy": 0.95}, False),
        ("accuracy > 0.95", {"accuracy": 1}, True),
        ("errors < 5", {"errors": 4.5}, True),
        ("errors == 0", {"errors": 0.0}, True),
        ("errors == 0.0", {"errors": 0}, True),
        ("count >= 9007199254740993", {"count": 9007199254740993}, True),
        ("ok", {"ok": True}, True),
        ("!ok", {"ok": False}, True),
        ("result > 3", 4, True),
        ("result == null", None, True),
        ("size(result) == 2", ["a", "b"], True),
        ('result.deep[1].name == "x"', {"deep": [{}, {"name": "x"}]}, True),
        ('has(result.model) && model == "m"', {"model": "m"}, True),
        ('has(result.model) && model == "m"', {}, False),
        ("errors.all(e, e < 3)", {"errors": [1, 2]}, True),
        ('name.startsWith("model") && name.contains("-v2")', {"name": "model-v2"}, True),
        ('name == "accuracy // status tasks"', {"name": "accuracy // status tasks"}, True),
        ("accuracy > 0.9 // good enough", {"accuracy": 0.95}, True),
        ('"x" in tags', {"tags": ["x"]}, True),
        ("result.result == 1 && result.status == 2", {"result": 1, "status": 2}, True),
    ],
)
def test_a_condition_asks_about_the_result(text: str, result: Any, *, met: bool) -> None:
    assert ask(text, result)[0] is met


def test_a_condition_may_ask_for_the_status() -> None:
    assert ask('status == "FAILED"', status="FAILED") == (True, "")


def test_a_condition_may_ask_about_other_tasks() -> None:
    facts = {"a": {"status": "COMPLETED", "result": {"rows": 3}}}
    assert ask('tasks["a"].result.rows > 2', ancestors=facts) == (True, "")
    assert ask("tasks['a'].status == \"COMPLETED\"", ancestors=facts) == (True, "")
    assert ask("tasks.a.result.rows > 2", ancestors=facts) == (True, "")


def test_a_condition_says_whom_and_what_it_asks_about() -> None:
    condition = Condition('accuracy > 0.9 && tasks["a"].result.x > loss && tasks.b.status == status && tasks.exists(t, t == "c")')
    assert condition.fields == {"accuracy", "loss"}
    assert condition.task_ids == {"a", "b"}
    assert condition.refers_to_status
    assert not Condition('name == "status" || result.status == 1').refers_to_status


@pytest.mark.parametrize(
    "text",
    [
        'verdict != "bad"',
        "failed_tests != 0",
        "x == None",
        "x == null",
        "x != null",
        "!blocked",
        'verdict == "good"',
        'result.verdict != "bad"',
        "[1, 2].exists(one, one == x)",
        "x == y",
    ],
)
def test_a_name_that_the_result_lacks_is_an_error_in_every_spelling(text: str) -> None:
    assert ask(text, {"score": 1})[0] is False
    assert ask(text, ["not an object"])[0] is False


@pytest.mark.parametrize("text", ["has(result.x) && x > 3", "score > 0 && score > 3 && x > 3"])
def test_a_name_that_is_not_reached_may_be_absent(text: str) -> None:
    assert ask(text, {"score": 1}) == (False, f"{text} is false: score is 1" if "score" in text else f"{text} is false")
    assert ask("!has(result.x) || x > 3", {"score": 1}) == (True, "")


@pytest.mark.parametrize(
    ("text", "result", "why"),
    [
        ("accuracy > 0.95", {"accuracy": 0.92}, "accuracy > 0.95 is false: accuracy is 0.92"),
        ("accuracy > 0.95", {"loss": 1}, "accuracy > 0.95: the result has no accuracy"),
        ("accuracy > 0.95 && loss < 1", {}, "accuracy > 0.95 && loss < 1: the result has no accuracy, loss"),
        ("accuracy > 0.95", None, "accuracy > 0.95: the result has no accuracy"),
        ("accuracy > 0.95", [1], "accuracy > 0.95: the result has no accuracy"),
        ("accuracy", {"accuracy": 0.92}, "accuracy: gives DOUBLE, not yes or no"),
        ("result", "yes", "result: gives STRING, not yes or no"),
        ("accuracy > 0.95", {"accuracy": "0.99"}, "accuracy > 0.95: No matching overloads"),
        ("result.a.b > 1", {"a": {}}, "result.a.b > 1: Key not found"),
        ("1 / result == 1", 0, "1 / result == 1: divide by zero"),
        ("result[5] == 1", [1], "result[5] == 1: Index error"),
        ("big > 1", {"big": 2**64}, "big > 1: Integer value"),
        ('text == "a"', {"text": "\ud800"}, 'text == "a": '),
    ],
)
def test_a_condition_that_is_not_met_says_why_and_never_raises(text: str, result: Any, why: str) -> None:
    met, reason = ask(text, result)
    assert not met
    assert reason.lower().startswith(why.lower())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("result.bytes > params.minimum", (True, "")),
        ('bytes_read > params["the-most"]', (False, 'bytes_read > params["the-most"] is false: bytes_read is 3, params.the-most is 9')),
        ("params.minimum in [1, 2]", (True, "")),
        ("params.other > 1", (False, 'params.other > 1: Key not found in map : "other"')),
        ("params.exists(p, params[p] == 9)", (True, "")),
        ("result.params == 1", (True, "")),
    ],
)
def test_a_condition_uses_the_parameters_of_the_plan(text: str, expected: tuple[bool, str]) -> None:
    result = {"bytes": 3, "bytes_read": 3, "params": 1}
    met, why = Condition(text).evaluate(result, "COMPLETED", {}, {"minimum": 2, "the-most": 9})
    assert (met, str(why)) == expected


def test_in_a_plan_without_parameters_params_is_a_field() -> None:
    assert ask("params.rate > 1", {"params": {"rate": 2}}) == (True, "")
    assert ask("params.rate > 1", {}) == (False, "params.rate > 1: the plan has no parameters, and the result has no params")
    assert ask("params > 1", {}) == (False, "params > 1: the result has no params; has(result.params) asks")


def test_when_uses_the_parameters_unless_an_input_has_their_name() -> None:
    condition = InputCondition("x > params.minimum")
    assert condition.evaluate({"x": 3}, {"minimum": 2}) == (True, "")
    assert condition.evaluate({"x": 3, "params": {"minimum": 4}}, {"minimum": 2})[0] is False
    assert str(condition.evaluate({"x": 3})[1]) == "x > params.minimum: there is no input params"


def test_a_task_that_is_not_there_is_a_condition_not_met() -> None:
    met, reason = ask('tasks["b"].result.x > 1')
    assert not met
    assert reason


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "a condition is empty"),
        ("  ", "a condition is empty"),
        ("accuracy >", "does not parse"),
        ("accuracy > 95%", "does not parse"),
        ("accuracy = 3", "does not parse"),
        ("import os", "does not parse"),
        ("__import__('os')", "does not parse"),
        ("open('/etc/passwd')", "does not parse"),
        ("1 + 1", "is INT, not yes or no"),
        ('"yes"', "is STRING, not yes or no"),
        ("status", "is STRING, not yes or no"),
        ("status > 3", "does not parse"),
        ("true\x00", f"may have {MAX_LENGTH} printable characters"),
        ("a" * (MAX_LENGTH + 1), f"may have {MAX_LENGTH} printable characters"),
        ("(" * 400 + "true" + ")" * 400, "does not parse"),
        ("\ud800 == 1", "printable characters"),
        ("rows.exists(r, (s + s).size() > 9)", r"\+ and bytes\(\) cannot be combined with"),
        ("rows . map (r, bytes(s)).size() > 9", r"\+ and bytes\(\) cannot be combined with"),
        ("l == 1 || .l == .l", "has a name that begins with a dot"),
        ("[1] in .l", "has a name that begins with a dot"),
        ("name.matches(pattern)", "its pattern as one text in quotes"),
        ('name.matches("a" + pattern)', "its pattern as one text in quotes"),
        ('matches(name, "a")', "its pattern as one text in quotes"),
        ("rows.all(r, cols.all(c, r.contains(c)))", "one macro at most"),
        ('rows.all(r, r.cells.all(c, c.matches("a")))', "one macro at most"),
        ("s + s + s + s + s + s + s + s + s + s + s + s == s", r"has 10 \+ or bytes\(\) at most"),
    ],
)
def test_a_condition_that_cannot_be_asked_is_refused(text: str, told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        Condition(text)


TOO_MUCH = r"(?s).*: it may look at \d+ values, and there are more; have the task return a summary"
LISTS = [[1]] * 200_000


@pytest.mark.parametrize(
    ("text", "result"),
    [
        (f"!(result.l in [{','.join(['result.o'] * 108)}])", {"l": LISTS, "o": LISTS}),
        (f"!(l in[{','.join(['o'] * 480)}])", {"l": LISTS, "o": LISTS}),
        ("&&".join(["m==m"] * 160), {"m": LISTS}),
        ("!t.contains(s)", {"t": "a" * 1_000_000, "s": "a" * 500_000 + "b"}),
        ('t.matches("(a{30}){30}b|c$")', {"t": "a" * 1_000_000}),
        (r't.matches("\\pL?\\pL?b|c$")', {"t": "a" * 1_000_000}),
        ("!tags.exists(t, s.contains(t))", {"tags": ["b"] * 100, "s": "a" * 100_000}),
        ("!result.exists//\n(x, result != result)", list(range(5_000))),
        ('""" " """ != \'\' && !result.exists(x, result != result) || \'\' == "b"', list(range(5_000))),
        ("[1].exists(result, true) && result == result && result == result", LISTS),
    ],
)
def test_what_the_operators_of_a_condition_look_at_is_bounded(text: str, result: Any) -> None:
    met, reason = ask(text, result)
    assert not met
    assert re.fullmatch(TOO_MUCH, reason)


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ('log.contains("ERROR") && !log.contains("FATAL")', {"log": "ERROR" + "x" * 1_000_000}),
        ("log.contains(tag)", {"log": "x" * 400_000 + "v1", "tag": "v1"}),
        ("result != before", {"before": LISTS}),
        ("now == before", {"now": LISTS, "before": LISTS}),
        (r'day.matches("^\\d{4}-\\d{2}-\\d{2}$")', {"day": "2026-03-01"}),
        (r"day.matches(r'^\d{4}-\d{2}-\d{2}$')", {"day": "2026-03-01"}),
        (r'day.matches("^[\x41-\x5a]+$")', {"day": "MONDAY"}),
        ('tags.exists(t, t.matches("^v[0-9]+$"))', {"tags": ["latest"] * 99 + ["v2"]}),
        ("tags.exists(t, t.contains(part))", {"tags": ["latest"] * 99 + ["v2"], "part": "v"}),
    ],
)
def test_a_condition_looks_at_what_a_result_of_the_usual_size_has(text: str, result: Any) -> None:
    assert ask(text, result) == (True, "")


TEN = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]"


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("".join(f"{TEN}.all(x{depth}, " for depth in range(12)) + "true" + ")" * 12, None),
        ("result.all(x, result.all(y, result.all(z, x - y - z <= 0)))", list(range(800))),
        ("result.all(x, result.exists(y, y > 5000) || true)", list(range(900))),
    ],
)
def test_a_hostile_condition_runs_out_of_its_budget(text: str, result: Any) -> None:
    met, reason = ask(text, result)
    assert not met
    assert "budget" in reason


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ('result.matches("(a+)+b")', "a" * 100_000),
        ("!" * (MAX_LENGTH - 4) + "true", None),
        ("-" * (MAX_LENGTH - 5) + "1 > 0", None),
        ("result == result", [[[[1] * 50] * 50] * 10]),
    ],
)
def test_a_hostile_condition_ends(text: str, result: Any) -> None:
    assert isinstance(ask(text, result)[0], bool)


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("result.exists(x, result != result)", list(range(2_000))),
        ("result.filter(x, true).size() > 3", [{"a": 1}] * 2_000),
        ("result.exists(x, x == 'a')", ["a" * 200_000]),
        ("result.exists(x, x.k == 1)", {"k" * 200_000: 1}),
        ('[1].all(x, tasks["big"].result.size() > 1)', {}),
    ],
)
def test_what_a_condition_with_a_macro_looks_at_is_bounded(text: str, result: Any) -> None:
    met, reason = ask(text, result, ancestors={"big": {"status": "COMPLETED", "result": list(range(5_000))}})
    assert not met
    assert re.fullmatch(TOO_MUCH, reason)


def test_a_condition_with_a_macro_looks_at_no_more_than_it_names() -> None:
    result = {"rows": [{"ok": True, "score": 1e-5}] * 200, "log": "x" * 500_000}
    tasks = {"a": {"status": "COMPLETED", "result": [1, 2]}, "b": {"status": "COMPLETED", "result": list(range(9_000))}}
    assert ask("rows.all(r, r.ok && r.score < 1e+5)", result, ancestors=tasks) == (True, "")
    assert ask('tasks["a"].result.exists(x, x > 1)', result, ancestors=tasks) == (True, "")
    assert ask("log.size() > 3 && a + 1 == 3", {**result, "a": 2}) == (True, "")


def test_a_deep_result_does_not_hurt() -> None:
    deep: Any = 1
    for _ in range(900):
        deep = [deep]
    assert ask("result == 1", deep)[0] is False


def test_a_condition_of_the_greatest_length_is_accepted() -> None:
    text = "x == 1" + " || x == 1" * 99
    assert len(text) <= MAX_LENGTH
    assert ask(text, {"x": 1}) == (True, "")
