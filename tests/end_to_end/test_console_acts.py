"""What one does in the console, in a real browser: answer, command, submit, and draw edits of a plan."""

from __future__ import annotations

import json
from typing import Any

from playwright.sync_api import Browser, Route, expect

from tests.end_to_end.browsers import TIMEOUT_MS
from tests.end_to_end.console_site import ConsoleSite, Tab

PLAN: dict[str, Any] = {
    "name": "shipping",
    "params": {"version": "str", "copies": {"type": "int", "default": 2}},
    "tasks": [
        {"task_id": "prepare", "name": "prepare", "device": "builder", "skill": "prepare"},
        {
            "task_id": "deploy",
            "name": "deploy",
            "device": "production",
            "skill": "deploy",
            "inputs": {"version": "${params.version}", "copies": "${params.copies}"},
        },
    ],
    "dependencies": [{"from": "prepare", "to": "deploy"}],
}


def approve(http: Any, inquiry: str) -> None:
    """Approve a question as a client that has read it."""
    path = f"/api/inquiries/{inquiry}"
    body = {"verb": "approve", "digest": http.get(path).json()["digest"]}
    http.post(f"{path}/answer", json=body).raise_for_status()


def asked(site: ConsoleSite, title: str) -> tuple[str, str]:
    """Submit a run that waits for an approval; return its id and that of its question."""
    inputs = {"version": "1", "dry": False, "copies": 2}
    run = site.submit(
        {"task_id": "deploy", "device": "production", "skill": "deploy", "inputs": inputs, "requires_approval": True}, title=title
    )
    site.until(run, "waiting")
    with site.http() as http:
        return run, str(http.get("/api/inquiries", params={"run": run}).json()["inquiries"][0]["inquiry_id"])


def held(site: ConsoleSite, name: str) -> str:
    """Submit a run whose first task is under way until it is released; two others wait for it."""
    first = {"task_id": "hold", "skill": "hold", "inputs": {"name": name}}
    return site.submit(first, *({"task_id": it, "skill": "prepare", "after": ["hold"]} for it in ("check", "publish")), title=name)


def result_of(site: ConsoleSite, run: str) -> Any:
    site.until(run, "ended")
    with site.http() as http:
        return http.get(f"/api/runs/{run}/result").raise_for_status().json()


def test_a_question_is_approved_by_keys(browser: Browser, site: ConsoleSite) -> None:
    run, _ = asked(site, "by keys")
    tab = Tab(browser, site, "/inbox")
    tab.page.locator(".question-row", has_text="by keys").wait_for()
    hints = tab.page.locator(".keys-hint kbd")
    expect(hints).to_have_text(["J", "K"])  # no other key does anything before a question is shown
    tab.page.keyboard.press("j")
    expect(hints).to_have_text(["J", "K", "A", "E", "R"])
    form = tab.page.locator(".question-row.current answer-form")
    expect(form.locator(".values")).to_contain_text("version")
    tab.page.keyboard.press("a")
    expect(form.locator(".verdict")).to_contain_text("A came right after something else")
    tab.decide("a")
    expect(form.locator(".verdict")).to_contain_text("Press Enter to approve it")
    tab.page.keyboard.press("Escape")
    expect(form.locator(".verdict")).to_have_text("")
    assert len(open_questions(site)) == 1
    tab.decide("a")
    tab.page.keyboard.press("Enter")
    tab.page.locator(".answered li", has_text="You have approved it").wait_for()
    tab.page.locator(".inbox .empty").wait_for()
    assert result_of(site, run)["results"] == {"deploy": "1 x2"}
    tab.page.get_by_role("link", name="Runs").click()
    tab.page.locator("runs-page tbody tr").first.wait_for()
    tab.page.get_by_role("link", name="Inbox").click()
    tab.page.locator(".answered li", has_text="You have approved it").wait_for()
    tab.close()


def test_a5_a_long_request_is_approved_only_after_it_has_been_unfolded(browser: Browser, site: ConsoleSite) -> None:
    tail = "x" * 5000 + "; then delete the customers table"
    task = {"task_id": "deploy", "device": "production", "skill": "deploy", "inputs": {"version": tail}, "requires_approval": True}
    run = site.submit(task, title="long")
    site.until(run, "waiting")
    with site.http() as http:
        question = http.get("/api/inquiries", params={"run": run}).json()["inquiries"][0]["inquiry_id"]
    tab = Tab(browser, site, f"/inbox?question={question}")
    form = tab.page.locator("answer-form")
    for verb in ("approve", "edit"):
        expect(form.locator(f"[data-verb={verb}]")).to_be_disabled()
    tab.decide("a")
    tab.page.keyboard.press("Enter")
    expect(form.locator(".verdict")).to_have_text("Unfold it first.")
    expect(form.locator("[data-verb=reject]")).to_be_enabled()
    form.locator("details.whole:not([open]) summary").click()
    expect(form.locator(".values pre")).to_have_text(tail)
    form.locator("[data-verb=approve]").click()
    assert result_of(site, run)["outcome"] == "finished"
    tab.close()


def open_questions(site: ConsoleSite) -> list[str]:
    with site.http() as http:
        return [it["inquiry_id"] for it in http.get("/api/inquiries").raise_for_status().json()["inquiries"]]


def test_a_double_click_and_keys_after_an_answer_answer_no_other_question(browser: Browser, site: ConsoleSite) -> None:
    (_, first), (_, second) = asked(site, "first"), asked(site, "second")
    tab = Tab(browser, site, f"/inbox?question={second}")
    approve = tab.page.locator("answer-form [data-verb=approve]")
    place = approve.bounding_box()
    assert place
    tab.page.locator(f"[data-question='{first}']").click()
    approve.wait_for()
    tab.page.mouse.dblclick(place["x"] + 9, place["y"] + 9)
    expect(tab.page.locator(f"[data-question='{second}']")).to_have_attribute("aria-expanded", "true")
    assert approve.bounding_box() == place
    assert open_questions(site) == [first, second]
    tab.page.mouse.click(place["x"] + 29, place["y"] + 9)
    tab.page.locator(".answered li", has_text="You have approved it").wait_for()
    expect(tab.page.locator(".question-head[aria-expanded=true]")).to_have_count(0)
    tab.page.keyboard.type("area")
    tab.page.keyboard.press("Enter")
    expect(tab.page.locator("answer-form")).to_have_count(0)
    assert open_questions(site) == [first]
    tab.page.keyboard.press("j")
    tab.decide("r")
    tab.page.locator("answer-form textarea").press("Enter")
    tab.page.locator(".inbox .empty").wait_for()
    tab.close()


def test_a_question_that_is_chosen_before_the_inbox_knows_its_run_stays_open(browser: Browser, site: ConsoleSite) -> None:
    run, inquiry = asked(site, "chosen early")
    tab = Tab(browser, site, "/machines")
    held_back: list[Route] = []
    tab.page.route(f"**/api/runs/{run}", lambda route: held_back.append(route))  # noqa: PLW0108 - it cannot wrap a built-in method
    tab.page.get_by_role("link", name="Inbox").click()
    tab.page.locator(f"[data-question='{inquiry}']").click()
    tab.page.locator("answer-form").wait_for()
    for route in held_back:
        route.continue_()
    expect(tab.page.locator(".question-row.current")).to_contain_text("chosen early")  # it knows the title of the run now
    expect(tab.page.locator("answer-form")).to_have_count(1)
    tab.close()
    with site.http() as http:
        http.post(f"/api/runs/{run}/commands", json={"command": "cancel"}).raise_for_status()


def test_what_is_typed_before_a_form_is_there_answers_no_question(browser: Browser, site: ConsoleSite) -> None:
    (run, first), (_, second) = asked(site, "first"), asked(site, "second")
    tab = Tab(browser, site, f"/inbox?question={second}")
    held_back: list[Route] = []
    tab.page.route("**/api/devices", lambda route: held_back.append(route))  # noqa: PLW0108 - it cannot wrap a built-in method
    tab.page.locator("answer-form [data-verb=edit]").click()
    tab.page.keyboard.type("okafor")  # K is the previous question, and A approves it
    for route in held_back:
        route.continue_()
    tab.page.locator("answer-form").get_by_label("copies").wait_for()
    assert open_questions(site) == [first, second]
    tab.close()
    with site.http() as http:
        for question in (first, second):
            http.post(f"/api/inquiries/{question}/answer", json={"verb": "reject"}).raise_for_status()
    site.until(run, "ended")


def test_arguments_are_edited_in_a_form_that_says_what_is_wrong(browser: Browser, site: ConsoleSite) -> None:
    run, inquiry = asked(site, "edited")
    tab = Tab(browser, site, f"/inbox?question={inquiry}")
    form = tab.page.locator("answer-form")
    form.locator("[data-verb=edit]").wait_for()
    tab.decide("e")
    form.get_by_label("copies").fill("many")
    form.get_by_role("button", name="Approve with these changes").click()
    assert form.locator(".form-row .problem:not([hidden])").inner_text() == "This is no number."
    assert form.get_by_label("copies").get_attribute("aria-invalid") == "true"
    form.get_by_label("copies").fill("5")
    form.get_by_label("dry").check()
    tab.page.keyboard.press("Enter")
    tab.page.locator(".answered li", has_text="You have approved it with changes: dry true, copies 5").wait_for()
    assert result_of(site, run)["results"] == {"deploy": "1 dry x5"}
    tab.close()


def test_an_approval_that_comes_second_is_not_taken_and_says_so(browser: Browser, site: ConsoleSite) -> None:
    run, inquiry = asked(site, "second")
    tab = Tab(browser, site, f"/inbox?question={inquiry}")

    def first(route: Route) -> None:
        with site.http("approver") as http:
            http.post(f"/api/inquiries/{inquiry}/answer", json={"verb": "reject", "reason": "no"}).raise_for_status()
        route.continue_()

    tab.page.route("**/answer", first)
    tab.expect("409")
    tab.page.locator("[data-verb=approve]").click()
    verdict = tab.page.locator(".question-row.current .verdict")
    expect(verdict).to_contain_text("Your answer was not taken")
    expect(tab.page.locator("answer-form .verbs button")).to_have_count(0)
    assert result_of(site, run)["outcome"] == "failed"
    tab.close()


def test_d7_an_answer_that_its_run_has_not_taken_yet_may_be_sent_again(browser: Browser, site: ConsoleSite) -> None:
    run, inquiry = asked(site, "pending")
    tab = Tab(browser, site, f"/inbox?question={inquiry}")
    keys = list[str]()

    def pend(route: Route) -> None:
        keys.append(route.request.headers["idempotency-key"])
        if len(keys) > 1:
            return route.continue_()
        return route.fulfill(status=202, json={"verdict": "pending", "run_id": run, "key": "x"})

    tab.page.route("**/answer", pend)
    tab.page.locator("[data-verb=approve]").click()
    expect(tab.page.locator(".question-row.current .verdict")).to_contain_text("Its run has not taken it yet")
    tab.page.locator("[data-verb=approve]").press("Enter")  # a second click soon after the first one is none
    expect(tab.page.locator(".answered li", has_text="You have approved it")).to_be_visible()
    assert (len(keys), len(set(keys))) == (2, 1)
    assert result_of(site, run)["outcome"] == "finished"
    tab.close()


def test_d7_the_inbox_says_that_there_are_more_questions_as_soon_as_it_knows(browser: Browser, site: ConsoleSite) -> None:
    _, inquiry = asked(site, "many")
    with site.http("approver") as http:
        one = http.get(f"/api/inquiries/{inquiry}").raise_for_status().json()
    many = [{**one, "inquiry_id": f"{inquiry}-{number}"} for number in range(500)]
    following = list[str]()
    tab = Tab(browser, site, "/settings")
    tab.page.route(
        "**/api/inquiries?*", lambda route: route.fulfill(json={"inquiries": many, "next": following[-1] if following else None})
    )
    tab.go("/inbox")
    expect(tab.page.locator(".question-row")).to_have_count(500)
    more = tab.page.get_by_text("These are the oldest 500; there are more.")
    expect(more).to_have_count(0)
    following.append("x")
    tab.page.evaluate("void document.querySelector('inbox-page').changed(null)")
    expect(more).to_have_count(1)
    tab.close()
    with site.http("approver") as http:
        http.post(
            f"/api/inquiries/{inquiry}/answer", json={"verb": "approve", "digest": http.get(f"/api/inquiries/{inquiry}").json()["digest"]}
        ).raise_for_status()


def test_a_question_that_is_answered_elsewhere_says_by_whom(browser: Browser, site: ConsoleSite) -> None:
    _, inquiry = asked(site, "elsewhere")
    tab = Tab(browser, site, f"/inbox?question={inquiry}")
    tab.page.locator("[data-verb=approve]").wait_for()
    with site.http("approver") as http:
        http.post(
            f"/api/inquiries/{inquiry}/answer", json={"verb": "approve", "digest": http.get(f"/api/inquiries/{inquiry}").json()["digest"]}
        ).raise_for_status()
    expect(tab.page.locator(".question-row.current .verdict")).to_contain_text("no longer open: approved by approver-")
    tab.close()


def test_a_picked_task_is_in_sight_also_below_questions_and_only_a_focused_question_shows_its_keys(
    browser: Browser, site: ConsoleSite
) -> None:
    deploy = {"device": "production", "skill": "deploy", "requires_approval": True}
    run = site.submit(*({"task_id": it, **deploy} for it in "abcd"), {"task_id": "prepare", "skill": "prepare"})
    tab = Tab(browser, site, f"/runs/{run}")
    expect(tab.page.locator(".card.question")).to_have_count(4)
    keys = tab.page.locator(".card.question kbd:visible")
    expect(keys).to_have_count(0)
    tab.page.locator(".card.question").first.focus()
    expect(keys).to_have_text(["A", "E", "R"])
    tab.task("prepare").click()
    expect(tab.page.locator(".card.picked .lead")).to_be_in_viewport()
    tab.close()
    with site.http() as http:
        http.post(f"/api/runs/{run}/commands", json={"command": "cancel"}).raise_for_status()


def test_someone_who_may_only_read_sees_no_answers_and_no_actions(browser: Browser, site: ConsoleSite) -> None:
    run, _ = asked(site, "read only")
    tab = Tab(browser, site, f"/runs/{run}", role="viewer")
    expect(tab.page.locator(".card.question .verdict")).to_contain_text("It takes an approver to answer")
    expect(tab.page.locator(".card.question .verbs button")).to_have_count(0)
    expect(tab.page.locator("run-actions button")).to_have_text(["Mark this entry"])
    tab.page.keyboard.press("Control+k")
    expect(tab.page.get_by_role("option", name="Mark this entry")).to_be_visible()
    expect(tab.page.get_by_role("option", name="Approve")).to_have_count(0)
    tab.close()
    with site.http() as http:
        http.post(f"/api/runs/{run}/commands", json={"command": "cancel"}).raise_for_status()


def test_a_queued_task_names_what_it_waits_for_and_does_not_count_as_work(browser: Browser, site: ConsoleSite) -> None:
    runs = [held(site, f"place {number}") for number in range(4)]
    for run in runs:
        site.until(run, "active")
    last = site.submit({"task_id": "late", "skill": "prepare"}, title="waits")
    tab = Tab(browser, site, f"/runs/{last}?task=late")
    card = tab.page.locator(".card[aria-label=Queued]")
    expect(card.locator("li").first).to_contain_text("hold of place", timeout=TIMEOUT_MS)
    expect(card.locator(f"a[href='/runs/{runs[0]}?task=hold']")).to_have_count(1)
    expect(tab.page.locator(".card.picked .status")).to_have_text("queued")
    expect(tab.page.locator("run-timeline .bar[data-status=queued]")).to_have_count(1)
    for number in range(4):
        site.release(f"place {number}")
    site.until(last, "ended")
    expect(card).to_have_count(0)
    expect(tab.page.locator(".card.picked .status")).to_have_text("succeeded")
    tab.close()


def test_a_run_is_cancelled_after_a_confirmation(browser: Browser, site: ConsoleSite) -> None:
    run = held(site, "cancelled")
    tab = Tab(browser, site, f"/runs/{run}")
    tab.page.locator("run-actions").get_by_role("button", name="Cancel").click()
    dialog = tab.page.locator("dialog[open]")
    expect(dialog.locator(".lead")).to_have_text("cancelled")
    dialog.get_by_label("Reason").fill("enough")
    dialog.get_by_role("button", name="Cancel the run").click()
    toast = tab.page.locator(".toast", has_text="The run is cancelled")
    toast.wait_for()
    expect(tab.page.locator("run-actions").get_by_role("button", name="Cancel")).to_have_count(0)
    assert site.until(run, "ended")["outcome"] == "cancelled"
    expect(tab.page.locator(".pill")).to_have_text("FAIL · cancelled")
    expect(tab.page.locator("run-dock .entry")).not_to_contain_text("effect")
    tab.until("performance.now() - document.querySelector('.toast').since > 1000")
    tab.page.get_by_role("link", name="Devices").click()
    tab.page.locator("devices-page").wait_for()
    expect(toast).to_have_count(0)
    tab.go("/runs")
    expect(tab.page.get_by_role("row", name="Cancelled").first).to_contain_text("FAIL · cancelled")
    tab.close()


def test_a_question_about_a_run_is_gone_with_its_page(browser: Browser, site: ConsoleSite) -> None:
    run = held(site, "left")
    tab = Tab(browser, site)
    tab.page.get_by_role("link", name="left", exact=True).click()
    tab.page.locator("run-actions button", has_text="Cancel").click()
    expect(tab.page.locator("dialog[open]")).to_contain_text("Cancel this run?")
    tab.page.go_back()
    tab.page.locator("runs-page tbody").wait_for()
    expect(tab.page.locator("dialog[open]")).to_have_count(0)
    tab.close()
    assert site.until(run, "active")
    site.release("left")


def test_what_failed_is_retried_in_a_new_run_that_is_shown(browser: Browser, site: ConsoleSite) -> None:
    run = site.submit({"task_id": "fail", "skill": "fail", "inputs": {"unless": "mended"}}, title="to retry")
    site.until(run, "ended")
    tab = Tab(browser, site, f"/runs/{run}")
    site.release("mended")
    tab.page.locator("run-actions").get_by_role("button", name="Retry failed").click()
    tab.page.locator("dialog[open]").get_by_role("button", name="Retry").click()
    tab.until(f"location.pathname.startsWith('/runs/') && location.pathname !== '/runs/{run}'")
    retried = tab.page.url.rpartition("/")[2].partition("?")[0]
    assert result_of(site, retried)["results"] == {"fail": "mended"}
    tab.page.get_by_role("link", name="retry of the run of today").click()
    tab.until(f"location.pathname === '/runs/{run}'")
    expect(tab.page.get_by_role("link", name="again today")).to_have_attribute("href", f"/runs/{retried}")
    tab.close()


def test_a_dependency_is_drawn_and_sent_with_a_new_task_as_one_batch(browser: Browser, site: ConsoleSite) -> None:
    run = held(site, "drawn")
    tab = Tab(browser, site, f"/runs/{run}")
    tab.page.locator(".menu summary").click()
    tab.page.locator(".menu-items button", has_text="Edit the plan").click()
    editor = tab.page.locator("plan-editor")
    editor.wait_for()
    tab.task("check").drag_to(tab.task("publish"))
    expect(editor.locator(".edits li span")).to_have_text(["publish waits for check"])
    expect(tab.page.locator("plan-view .edge[data-state=added]")).to_have_count(1)
    tab.task("publish").drag_to(tab.task("check"))
    expect(editor.locator("[role=alert]")).to_contain_text("both would wait for each other")
    editor.get_by_role("button", name="Add a task").click()
    dialog = tab.page.locator("dialog[open]")
    dialog.get_by_label("Name").fill("Tell all")
    dialog.get_by_label("Device and skill").select_option(label="production · deploy")
    dialog.get_by_label("Waits for").select_option(label="publish")
    dialog.get_by_label("version").fill("${hold}")
    dialog.get_by_role("button", name="Add to the edits").click()
    expect(editor.locator(".edits li")).to_have_count(3)
    assert tab.task("tell_all").get_attribute("data-mark") == "added"
    editor.get_by_role("button", name="Send 3 edits").click()
    tab.page.locator(".toast", has_text="The run has taken 3 edits").wait_for()
    site.release("drawn")
    assert result_of(site, run)["results"]["tell_all"] == "drawn x1"
    with site.http() as http:
        rows = http.get(f"/api/runs/{run}/view").json()["rows"]
    assert {"line:check->publish", "line:publish->tell_all"} <= set(rows)
    tab.close()


def test_a_dependency_is_removed_by_a_click_and_taken_back(browser: Browser, site: ConsoleSite) -> None:
    run = held(site, "clicked")
    tab = Tab(browser, site, f"/runs/{run}")
    tab.page.locator(".menu summary").click()
    tab.page.locator(".menu-items button", has_text="Edit the plan").click()
    editor = tab.page.locator("plan-editor")
    tab.page.locator(".hit").first.wait_for(state="attached")
    x, y = tab.page.evaluate(
        """() => {
          const line = document.querySelector('.hit[data-line="hold->check"]');
          const { x, y } = line.getPointAtLength(line.getTotalLength() / 2).matrixTransform(line.getScreenCTM());
          return [x, y];
        }"""
    )
    tab.page.mouse.click(x, y)
    expect(editor.locator(".edits li span")).to_have_text(["check no longer waits for hold"])
    expect(tab.page.locator("plan-view .edge[data-state=removed]")).to_have_count(1)
    editor.get_by_role("button", name="Take back").click()
    expect(tab.page.locator("plan-view .edge[data-state=removed]")).to_have_count(0)
    tab.close()
    site.release("clicked")
    site.until(run, "ended")


def test_buttons_keep_their_names_on_a_phone_and_texts_are_whole(browser: Browser, site: ConsoleSite) -> None:
    run, inquiry = asked(site, "phone")
    tab = Tab(browser, site, f"/inbox?question={inquiry}", width=390, height=844)
    expect(tab.page.locator("answer-form [data-verb=approve] span")).to_be_visible()
    assert tab.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    tab.go(f"/runs/{run}")
    for name in ("Table", "Pause", "Cancel", "More"):
        expect(tab.page.locator(".run-bar .button span", has_text=name)).to_be_visible()
    entry = tab.page.locator("run-dock .entry")
    expect(entry).to_contain_text("waits for a person")
    assert entry.evaluate("it => it.scrollWidth <= it.clientWidth")  # all of it is to be seen
    tab.go("/devices")
    tab.page.set_viewport_size({"width": 390, "height": 300})
    tab.page.get_by_role("button", name="production").click()
    expect(tab.page.locator(".details .page-name", has_text="production")).to_be_in_viewport()
    assert tab.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    tab.close()
    with site.http() as http:
        http.post(f"/api/runs/{run}/commands", json={"command": "cancel"}).raise_for_status()


def test_edits_that_the_run_refuses_stay_with_the_reason(browser: Browser, site: ConsoleSite) -> None:
    run = held(site, "refused")
    tab = Tab(browser, site, f"/runs/{run}")
    tab.page.locator(".menu summary").click()
    tab.page.locator(".menu-items button", has_text="Edit the plan").click()
    editor = tab.page.locator("plan-editor")
    for name in ("check", "publish"):
        tab.task(name).click()
        editor.get_by_role("button", name="Remove this task").click()
    expect(editor.locator(".edits li span")).to_have_text(["Remove check", "Remove publish"])

    def change(route: Route) -> None:
        with site.http() as http:
            edit = {"tool": "remove_task", "parameters": {"task_id": "publish"}}
            again = {"tool": "add_task", "parameters": {"task_id": "publish", "name": "hold", "device": "builder", "skill": "hold"}}
            http.post(f"/api/runs/{run}/commands", json={"command": "edit", "actions": [edit, again]}).raise_for_status()
            for _ in range(600):
                if http.get(f"/api/runs/{run}/view").json()["rows"]["task:publish"]["status"] == "RUNNING":
                    break
                tab.page.wait_for_timeout(50)
        route.continue_()

    tab.page.route("**/commands", change)
    tab.expect("409")
    editor.get_by_role("button", name="Send 2 edits").click()
    expect(editor.locator("[role=alert]")).to_have_text("The run has taken none of the edits, because of the marked one.")
    expect(editor.locator(".edits li.wrong")).to_contain_text("has started, and cannot be edited.")
    tab.close()
    site.release("refused")
    site.release()
    site.until(run, "ended")


def test_a_plan_is_checked_drawn_and_started_with_its_parameters(browser: Browser, site: ConsoleSite) -> None:
    tab = Tab(browser, site, "/submit?as=plan")
    text = tab.page.locator("#submitted")
    text.fill(json.dumps({**PLAN, "tasks": [{**PLAN["tasks"][0], "skill": "prepares"}], "dependencies": []}))
    tab.expect("422")
    tab.page.get_by_role("button", name="Check the plan").click()
    expect(tab.page.locator("submit-page .verdict")).to_contain_text("prepares")
    text.fill(json.dumps(PLAN))
    tab.page.get_by_role("button", name="Check the plan").click()
    tab.task("deploy").wait_for()
    tab.page.get_by_role("button", name="Start this plan").click()
    expect(tab.page.locator(".form-row .problem:not([hidden])")).to_have_text("This is needed.")
    tab.page.get_by_label("version").fill("7")
    tab.page.get_by_role("button", name="Start this plan").click()
    tab.until("location.pathname.startsWith('/runs/')")
    assert result_of(site, tab.page.url.rpartition("/")[2].partition("?")[0])["results"]["deploy"] == "7 x2"
    tab.close()


def test_who_has_left_the_page_while_a_run_starts_stays_where_they_are(browser: Browser, site: ConsoleSite) -> None:
    tab = Tab(browser, site, "/submit?as=plan")
    page = tab.page
    task = {"task_id": "a", "name": "a", "device": "builder", "skill": "prepare"}
    page.locator("#submitted").fill(json.dumps({"name": "left page", "tasks": [task]}))
    page.get_by_role("button", name="Check the plan").click()
    page.get_by_role("button", name="Start this plan").wait_for()
    waiting: list[Route] = []

    def wait(route: Route) -> None:
        waiting.append(route)

    page.route("**/api/runs", wait)
    page.get_by_role("button", name="Start this plan").click()
    page.get_by_role("link", name="Settings").click()
    page.locator("settings-page").wait_for()
    waiting[0].continue_()
    page.locator(".toast", has_text="The run has started.").get_by_role("link", name="Show the run").wait_for()
    assert page.url == f"{site.url}/settings"
    tab.close()
