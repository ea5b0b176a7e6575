"""Exported pages in a real browser, opened from disk: what they show, and that they request nothing."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from asterism.console.export import PageLog, PageRun, machine_data, run_page
from asterism.constellation.form import FORM
from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.engine.kernel.packing import packer
from asterism.views import Delta
from asterism.views.view import unread_view
from tests.end_to_end.browsers import TIMEOUT_MS, until
from tests.end_to_end.hostile_skills import ENDLESS, HOSTILE
from tests.journals.test_golden import FORM_OF, MACHINE_OF, golden
from tests.support.constellation_harness import Agent
from tests.unit.console.story import story

SHOWN = "<img src=x onerror=\"document.title='taken'\"></script><script>document.title='taken'</script>\\u202e\\u001b[31m&amp;"


class Opened:
    """A page in the browser; at its end, nothing may have been requested or reported."""

    def __init__(self, browser: Browser, file: Path, *, width: int = 1600, height: int = 900, scheme: str = "light") -> None:
        self.file = file
        self.context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme="dark" if scheme == "dark" else "light"
        )
        self.page: Page = self.context.new_page()
        self.page.set_default_timeout(TIMEOUT_MS)
        self.reported: list[str] = []
        self.requested: list[str] = []
        self.page.on("console", lambda message: self.reported.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.reported.append(str(error)))
        self.page.on("request", lambda request: self.requested.append(request.url))
        self.page.goto(file.as_uri())
        self.page.locator("run-page .entry:not(:empty)").wait_for()

    def close(self) -> None:
        self.context.close()
        assert self.reported == []
        assert [url for url in self.requested if not url.startswith((self.file.as_uri(), "data:"))] == []
        assert self.requested.count(self.file.as_uri()) == 1

    def key(self, key: str) -> None:
        self.page.keyboard.press(key)

    def until(self, script: str) -> None:
        """Wait until an expression is true in the page."""
        until(self.page, script)

    def task(self, name: str) -> Locator:
        return self.page.locator(f"plan-view .task[data-task='{name}']")


def write(folder: Path, *runs: PageRun) -> Path:
    file = folder / "run.html"
    file.write_text(run_page(runs), encoding="utf-8")
    return file


def story_page(folder: Path) -> Path:
    deltas = unread_view(FORM, "r").read(story())
    return write(
        folder, PageRun("r", "", machine_data(CONSTELLATION_AGENT), deltas, {"r:15.0": PageLog("epoch 30, \x1b[1mloss\x1b[0m 0.1\r\n", 7)})
    )


def golden_page(folder: Path, name: str, old: str = "", new: str = "") -> Path:
    """Write the page of a golden journal, with a text replaced in it."""
    machine, records = MACHINE_OF[name], golden(name)
    deltas = unread_view(FORM_OF[name], records[0].run_id).read(map(packer(machine).unpack, records))
    if old:
        deltas = msgspec.json.decode(msgspec.json.encode(deltas).replace(old.encode(), json.dumps(new)[1:-1].encode()), type=list[Delta])
    return write(folder, PageRun(records[0].run_id, "", machine_data(machine), deltas))


@pytest.mark.parametrize("change", ["cut", "empty", "edited"])
def test_a_file_that_was_cut_off_or_changed_says_so(browser: Browser, tmp_path: Path, change: str) -> None:
    file = story_page(tmp_path)
    text = file.read_text(encoding="utf-8")
    before, data, _ = re.split(r'(?<=id="runs">)(.*)(?=</script>)', text)
    edited = data.replace('"deltas":[', '"deltas":{', 1)
    changed = {"cut": text[:-2000], "empty": f"{before}[]</script>", "edited": f"{before}{edited}</script>"}
    file.write_text(changed[change], encoding="utf-8")
    page = browser.new_page()
    page.goto(file.as_uri())
    expect(page.get_by_role("alert")).to_contain_text("The run in this file cannot be read. Export it again.")
    page.close()


def test_a_run_is_played_back_by_keys(browser: Browser, tmp_path: Path) -> None:
    opened = Opened(browser, story_page(tmp_path))
    page = opened.page
    assert page.title().startswith("Download MNIST")
    assert opened.task("scan").get_attribute("data-status") == "failed"
    assert opened.task("review").get_attribute("data-status") == "waiting"
    assert opened.task("rebuild_image").get_attribute("data-status") == "running"
    assert "asterism answer r:34.0 approve" in page.locator(".card.question").inner_text()
    opened.key("[")
    opened.key("[")
    page.locator(".entry", has_text="Entry 20 of 39").wait_for()
    assert opened.task("package").get_attribute("data-mark") == "removed"
    assert opened.task("retrain_cnn").get_attribute("data-mark") == "added"
    assert opened.task("deploy").get_attribute("data-mark") == "changed"
    assert opened.task("split").get_attribute("data-mark") == "same"
    assert "Accuracy 0.92 is below the 0.95 threshold" in page.locator(".card.thought").inner_text()
    assert page.locator(".card.question").count() == 0
    opened.key("d")
    opened.until("!document.querySelector('[data-mark]')")
    assert opened.task("package").count() == 0
    opened.key("ArrowLeft")
    page.locator(".entry", has_text="Entry 19 of 39").wait_for()
    assert opened.task("package").get_attribute("data-status") == "pending"
    assert opened.task("rebuild_image").count() == 0
    opened.until("location.hash.includes('at=19')")
    opened.key("l")
    opened.task("rebuild_image").wait_for()
    opened.close()


def test_the_entry_of_a_card_is_brought_into_sight_in_the_journal(browser: Browser, tmp_path: Path) -> None:
    opened = Opened(browser, story_page(tmp_path))
    opened.page.set_viewport_size({"width": 1440, "height": 500})
    current = opened.page.locator(".journal [aria-current]")
    expect(current).not_to_be_in_viewport()
    opened.page.locator(".card.thought").get_by_role("button", name="entry").click()
    expect(current).to_be_in_viewport()
    opened.close()


def test_an_address_shows_the_same_again(browser: Browser, tmp_path: Path) -> None:
    file = story_page(tmp_path)
    opened = Opened(browser, file)
    opened.page.evaluate("location.hash = 'at=16&task=train_cnn'")
    opened.page.locator(".entry", has_text="Entry 16 of 39").wait_for()
    card = opened.page.locator(".card.picked")
    card.locator("summary", has_text="Attempt 1").click()
    assert "epoch 30, loss 0.1" in card.inner_text()
    assert "7 earlier bytes left out" in card.inner_text()
    assert '"model": "cnn-1"' in card.inner_text()
    opened.close()


def test_tasks_are_reached_by_keys_and_shown_in_a_table(browser: Browser, tmp_path: Path) -> None:
    opened = Opened(browser, story_page(tmp_path))
    page = opened.page
    opened.task("fetch_mnist").focus()
    for _ in range(3):
        opened.key("ArrowRight")
    focused = str(page.evaluate("document.activeElement.dataset.task"))
    assert focused != "fetch_mnist"
    opened.key("Enter")
    page.locator(".card.picked").wait_for()
    assert focused in page.locator(".card.picked").inner_text()
    opened.key("t")
    page.locator("task-table tbody tr").first.wait_for()
    assert page.locator("task-table tbody tr").count() == 21
    assert page.locator("task-table tr[data-task=rebuild_image] .status").inner_text() == "running"
    page.locator("task-table th button", has_text="Took").click()
    page.locator("task-table th[aria-sort=ascending]").wait_for()
    opened.key("Escape")
    opened.until("!document.querySelector('.card.picked')")
    opened.close()


def test_the_playhead_is_dragged_along_the_timeline(browser: Browser, tmp_path: Path) -> None:
    opened = Opened(browser, story_page(tmp_path))
    box = opened.page.locator("run-timeline .track").bounding_box()
    assert box
    opened.page.mouse.move(box["x"] + box["width"] * 0.9, box["y"] + 4)
    opened.page.mouse.down()
    opened.page.mouse.move(box["x"] + box["width"] * 0.1, box["y"] + 4, steps=4)
    opened.page.mouse.up()
    opened.until("document.querySelector('.playhead').getAttribute('aria-valuenow') < 12")
    opened.until("document.querySelector('run-page').classList.contains('past')")
    opened.key("l")
    opened.until("!document.querySelector('run-page').classList.contains('past')")
    opened.close()


def test_a_range_of_the_timeline_is_chosen_goes_with_the_playhead_and_is_left(browser: Browser, tmp_path: Path) -> None:
    opened = Opened(browser, story_page(tmp_path))
    page = opened.page
    whole, bars = page.get_by_role("button", name="Whole run"), page.locator("run-timeline .bar")
    expect(whole).to_be_hidden()
    count = bars.count()
    box = page.locator("run-timeline .axis").bounding_box()
    assert box
    page.mouse.move(box["x"] + box["width"] * 0.2, box["y"] + 8)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + 8, steps=4)
    expect(page.locator("run-timeline .chosen")).to_be_visible()
    page.mouse.up()
    expect(whole).to_be_visible()
    expect(page.locator("run-timeline .chosen")).to_be_hidden()
    opened.until("/range=[0-9.]+-[0-9.]+$/.test(location.hash)")
    assert page.evaluate("document.querySelector('run-page').cursor.atEnd")
    assert 0 < bars.count() < count
    expect(page.locator(".playhead.away")).to_be_attached()
    opened.key("l")  # it is at the end already
    expect(page.locator(".playhead:not(.away)")).to_be_attached()
    opened.key("ArrowLeft")
    expect(page.locator(".playhead:not(.away)")).to_be_attached()
    opened.key("l")
    opened.until("/range=[0-9.]+-Infinity/.test(location.hash)")
    page.locator(".playhead").focus()
    opened.key("0")
    expect(whole).to_be_hidden()
    expect(bars).to_have_count(count)
    opened.key("+")
    expect(whole).to_be_visible()
    for _ in range(2):
        opened.key("-")
    expect(whole).to_be_hidden()
    opened.until("!location.hash.includes('range')")
    page.evaluate("location.hash = 'range=0-1'")
    expect(whole).to_be_visible()
    page.mouse.click(box["x"] + box["width"] * 0.5, box["y"] + 8)
    opened.until("document.querySelector('run-page').classList.contains('past')")
    whole.click()
    expect(bars).to_have_count(count)
    opened.close()


def test_a_range_is_played_from_its_begin_to_its_end(browser: Browser, tmp_path: Path) -> None:
    opened = Opened(browser, story_page(tmp_path))
    opened.page.evaluate("location.hash = 'range=1-2'")
    opened.page.get_by_role("button", name="Whole run").wait_for()
    timeline = "document.querySelector('run-timeline')"
    opened.key(" ")
    opened.until(f"+document.querySelector('.playhead').getAttribute('aria-valuenow') >= {timeline}.scale.count(0)")
    opened.until("document.querySelector('run-page').cursor.atEnd === false")
    assert opened.page.evaluate(f"{timeline}.has(document.querySelector('run-page').cursor.count)")
    assert opened.page.evaluate(f"{timeline}.range") == [1, 2]
    opened.key(" ")
    opened.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_shows_the_question_below_the_plan_and_scrolls_one_way(browser: Browser, tmp_path: Path, scheme: str) -> None:
    opened = Opened(browser, story_page(tmp_path), width=390, height=844, scheme=scheme)
    assert opened.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    tops = [opened.page.locator(selector).bounding_box() for selector in (".picture", ".card.question", "run-dock", ".card.thought")]
    assert all(tops)
    assert [top["y"] for top in tops if top] == sorted(top["y"] for top in tops if top)
    opened.close()


def test_handlers_are_labeled_and_tasks_are_counted_by_their_ends(browser: Browser, tmp_path: Path) -> None:
    opened = Opened(browser, golden_page(tmp_path, "handlers"))
    page = opened.page
    labels = {text for text in page.locator("plan-view .task .role").all_inner_texts() if text}
    assert labels == {"on failure", "finally"}
    assert page.locator(".stats dd").first.inner_text().startswith("4 of 7 completed, ")
    opened.close()


def test_a_fan_out_with_a_failed_item_is_marked(browser: Browser, tmp_path: Path) -> None:
    items = {"total": 4, "completed": 3, "failed": 1, "cancelled": 0, "skipped": 0}
    task = {"name": "build", "order": 0, "device": "workstation", "status": "COMPLETED", "items": items}
    delta = Delta(
        seq=1,
        at=1.0,
        kind="go",
        actor="a",
        state="FAIL",
        text="goes",
        put={"run": {"machine": CONSTELLATION_AGENT.name}, "task:build": task},
    )
    opened = Opened(browser, write(tmp_path, PageRun("r", "", machine_data(CONSTELLATION_AGENT), [delta])))
    small = opened.task("build").locator("small")
    assert opened.task("build").get_attribute("data-status") == "partial"
    assert small.inner_text() == "3 of 4, 1 failed · workstation"
    color, failed = opened.page.evaluate(
        "() => ['--c', '--failed'].map((it) => getComputedStyle(document.querySelector('.task')).getPropertyValue(it))"
    )
    assert color == failed
    opened.close()


def test_a_resume_is_marked_and_interrupted_attempts_have_bars_of_their_own(browser: Browser, tmp_path: Path) -> None:
    opened = Opened(browser, golden_page(tmp_path, "fan_out"))
    timeline = opened.page.locator("run-timeline")
    assert timeline.locator(".bar[data-status=interrupted]").count() == 2
    assert timeline.locator(".bar").count() == 8
    mark = timeline.locator(".resume-mark")
    assert mark.get_attribute("title") == "Entry 9: resumed by process-2"
    mark.click()
    opened.page.locator(".entry", has_text="Entry 9 of 14").wait_for()
    assert opened.task("b").get_attribute("data-status") == "running"
    opened.close()


def test_a_loop_shows_its_steps_and_findings(browser: Browser, tmp_path: Path) -> None:
    opened = Opened(browser, golden_page(tmp_path, "loop_ladder"))
    text = opened.page.locator("loop-view").inner_text()
    assert "Finding 3, by w, attempt 3: failed" in text
    assert "it gives up: the last steps gave nothing new" in text
    opened.close()


def test_a_conversation_shows_its_messages_and_fields(browser: Browser, tmp_path: Path) -> None:
    opened = Opened(browser, golden_page(tmp_path, "flow"))
    page = opened.page
    assert page.locator(".messages li").count() == 18
    assert "4 small on the way." in page.locator(".messages li").last.inner_text()
    assert page.locator(".fields tr", has_text="size").inner_text().split() == ["size", "small", "given"]
    opened.page.evaluate("location.hash = 'at=7'")
    opened.until("document.querySelectorAll('.messages li').length === 3")
    opened.close()


def test_child_runs_are_opened_from_their_tasks(browser: Browser, tmp_path: Path) -> None:
    machine = machine_data(CONSTELLATION_AGENT)
    task = {"name": "sub", "order": 0, "device": "d", "skill": "x", "status": "RUNNING", "child": "r.1", "effect": "r:1.0"}
    parent = Delta(
        seq=1, at=1.0, kind="go", actor="a", state="CONTINUE", text="goes", put={"run": {"machine": machine["name"]}, "task:sub": task}
    )
    child = msgspec.structs.replace(parent, put={"run": {"machine": machine["name"], "name": "below"}, "task:own": {**task, "child": None}})
    opened = Opened(browser, write(tmp_path, PageRun("r", "", machine, [parent]), PageRun("r.1", "r", machine, [child])))
    opened.task("sub").click()
    opened.page.locator(".card.picked button", has_text="r.1").click()
    opened.task("own").wait_for()
    assert opened.page.title() == "below"
    opened.page.locator(".up button").click()
    opened.task("sub").wait_for()
    opened.close()


def test_hostile_texts_stay_text(browser: Browser, tmp_path: Path) -> None:
    agent = Agent({"tasks": [{"task_id": "a", "name": HOSTILE, "device": "d"}, {"task_id": "b", "name": ENDLESS, "device": "d"}]})
    agent.ends("a", {HOSTILE: HOSTILE})
    deltas = unread_view(FORM, "r").read(agent.entries)
    logs = {"r:2.0": PageLog(f"{HOSTILE}\n{ENDLESS}")}
    opened = Opened(browser, write(tmp_path, PageRun("r", "", machine_data(CONSTELLATION_AGENT), deltas, logs)))
    page = opened.page
    assert page.locator(".task b").first.inner_text().startswith("<img src=x onerror=")
    opened.task("a").click()
    page.locator(".card.picked").wait_for()
    page.locator(".card.picked summary", has_text="Attempt 1").click()
    assert SHOWN.replace("\\u001b[31m", "") in page.locator(".card.picked pre.log").inner_text()
    assert page.evaluate("document.images.length + document.scripts.length") == 2
    assert "taken" not in page.title() or page.title().startswith("<")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    opened.close()


def test_hostile_messages_stay_text(browser: Browser, tmp_path: Path) -> None:
    opened = Opened(browser, golden_page(tmp_path, "flow", "Any wishes?", HOSTILE))
    assert opened.page.locator(".messages li", has_text=SHOWN).count() == 1
    assert opened.page.evaluate("document.images.length + document.scripts.length") == 2
    opened.close()


def test_a_run_without_tasks_and_a_run_of_another_machine_have_pages(browser: Browser, tmp_path: Path) -> None:
    machine = {"name": "kettle", "initial": "COLD", "states": ["COLD", "HOT"], "ends": ["HOT"], "moves": [["COLD", "HOT"]]}
    delta = Delta(
        seq=1,
        at=1.0,
        kind="switched_on",
        actor="ann",
        state="HOT",
        text="on",
        put={"run": {"machine": "kettle", "state": "HOT", "ended": True}},
    )
    opened = Opened(browser, write(tmp_path, PageRun("r", "", machine, [delta])))
    assert opened.page.locator(".pill").inner_text() == "HOT"
    opened.close()
    empty = unread_view(FORM, "r").read(story()[:2])
    opened = Opened(browser, write(tmp_path, PageRun("r", "", machine_data(CONSTELLATION_AGENT), empty)))
    assert opened.page.locator(".note").inner_text() == "The planner decides"
    opened.close()


def large(tasks: int, entries: int) -> list[Delta]:
    """Return the deltas of a run of layered tasks, each of which starts and ends."""
    row = {"device": "d", "skill": "do", "status": "PENDING", "item": None, "items": None}
    put = {f"task:t{n}": {**row, "name": f"task {n}", "order": n} for n in range(tasks)}
    width = max(2, int(tasks**0.5))
    put |= {f"line:{n}": {"from": f"t{n - width + n % 2}", "to": f"t{n}", "type": "SUCCESS_ONLY"} for n in range(width, tasks)}
    put["run"] = {"machine": CONSTELLATION_AGENT.name, "name": f"{tasks} tasks"}
    deltas = [Delta(seq=1, at=0.0, kind="constellation_submitted", actor="ann", state="CONTINUE", put=put)]
    for n in range(entries):
        task, ends = n // 2 % tasks, n % 2 == 1
        attempt = {"ended_at": float(n)} if ends else {"began_at": float(n), "kind": "dispatch", "part": f"t{task}", "device": "d"}
        fields = {"status": "COMPLETED", "ended_at": float(n)} if ends else {"status": "RUNNING", "started_at": float(n)}
        change = {f"task:t{task}": fields, f"attempt:r:{n // 2}": attempt}
        deltas.append(Delta(seq=n + 2, at=float(n), kind="go", actor="d", state="CONTINUE", text="goes", part=f"t{task}", put=change))
    return deltas


def test_of_a_large_plan_only_the_tasks_around_the_view_are_elements(browser: Browser, tmp_path: Path) -> None:
    opened = Opened(browser, write(tmp_path, PageRun("r", "", machine_data(CONSTELLATION_AGENT), large(900, 40))))
    page = opened.page
    plan = page.locator("plan-view")
    assert plan.get_attribute("data-afar") == ""
    assert plan.locator(".task").count() == 1  # the one that Tab reaches
    found = page.evaluate(
        """() => {
            const { layout, viewport } = document.querySelector('plan-view');
            const [[id, place]] = [...layout.nodes].slice(450);
            return { id, x: (place.x + 92) * viewport.k + viewport.x, y: (place.y + 26) * viewport.k + viewport.y };
        }"""
    )
    plan.click(position={"x": found["x"], "y": found["y"]})
    page.locator(".card.picked", has_text=found["id"].replace("t", "task ")).wait_for()
    assert opened.task(found["id"]).get_attribute("aria-current") == "true"
    plan.dblclick(position={"x": found["x"], "y": found["y"]})
    opened.until("!document.querySelector('plan-view').hasAttribute('data-afar')")
    assert 5 < plan.locator(".task").count() < 600
    opened.task(found["id"]).focus()
    opened.key("ArrowDown")
    opened.until(f"document.activeElement.dataset.task !== '{found['id']}'")
    opened.close()


def test_from_afar_a_large_plan_is_one_picture_with_the_colors_of_its_tasks(browser: Browser, tmp_path: Path) -> None:
    opened = Opened(browser, write(tmp_path, PageRun("r", "", machine_data(CONSTELLATION_AGENT), large(200, 400))))
    page, plan = opened.page, opened.page.locator("plan-view")
    page.evaluate("document.querySelector('plan-view').viewport.zoom(0.2)")
    opened.until("document.querySelector('plan-view').hasAttribute('data-afar')")
    x, y = page.evaluate(
        """() => {
            const { layout, viewport } = document.querySelector('plan-view');
            const { left, top } = viewport.pane.getBoundingClientRect();
            const place = layout.nodes.get('t7');
            return [left + (place.x + 20) * viewport.k + viewport.x, top + (place.y + 20) * viewport.k + viewport.y];
        }"""
    )
    ended = page.screenshot(clip={"x": x, "y": y, "width": 1, "height": 1})
    page.evaluate("document.querySelector('run-page').cursor.show(2)")
    page.locator(".entry", has_text="Entry 2 of").wait_for()
    assert page.screenshot(clip={"x": x, "y": y, "width": 1, "height": 1}) != ended
    page.evaluate("document.querySelector('plan-view').viewport.zoom(5)")
    opened.until("!document.querySelector('plan-view').hasAttribute('data-afar')")
    assert plan.locator(".task").count() > 1
    opened.close()


@pytest.mark.slow
def test_large_runs_are_drawn_and_scrubbed_within_three_times_their_budgets(browser: Browser, tmp_path: Path) -> None:
    """Measured is the processor time of the page's main thread, so other work on the machine is not."""
    opened = Opened(browser, write(tmp_path, PageRun("r", "", machine_data(CONSTELLATION_AGENT), large(500, 10_000))))
    session = opened.context.new_cdp_session(opened.page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def used_s() -> float:
        return float(next(it["value"] for it in session.send("Performance.getMetrics")["metrics"] if it["name"] == "TaskDuration"))

    opened.page.reload()
    opened.until("document.querySelector('plan-view')?.layout?.nodes.size === 500")
    assert (drawn := used_s()) < 3 * 1.5
    opened.page.evaluate(
        """async () => {
            const { cursor } = document.querySelector('run-page');
            for (let n = 0; n < 40; n++) {
                cursor.show(1 + ((n * 3701) % 10000));
                await new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)));
            }
        }"""
    )
    assert (used_s() - drawn) / 40 < 3 * 0.05
    opened.context.close()
