"""Guards: what work needs approval, what it may not do, and that changes only make them stricter (findings A1, A3, A7)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asterism.engine.kernel.guards import (
    LOADING,
    DeviceGuards,
    GuardedWork,
    Guards,
    Permit,
    SkillGuard,
    inherited,
    is_listed,
    is_too_wide,
    is_within,
    lifted,
    not_guarded,
    not_lifted,
    permit,
    stricter,
    with_approval,
    with_device,
    with_report,
)


def guarding(**skills: SkillGuard) -> Guards:
    return Guards(devices={"vault": DeviceGuards(skills=skills)})


def vault(skill: str = "wipe", **more: object) -> GuardedWork:
    return GuardedWork(device="vault", skill=skill, **more)  # type: ignore[arg-type]


def test_work_that_nothing_guards_may_begin() -> None:
    assert permit(Guards(), vault()) == Permit()


def test_a_skill_that_the_fleet_guards_needs_approval_whatever_the_task_says() -> None:
    guards = guarding(wipe=SkillGuard(approval=True))
    assert permit(guards, vault(approval=False)).approval
    assert not permit(guards, vault("read")).approval


def test_a_guard_of_a_plan_holds_for_its_skill_on_every_device_but_for_tasks_as_submitted() -> None:
    guards = with_approval(Guards(), ["wipe"])
    assert permit(guards, vault()).approval
    assert permit(guards, GuardedWork(device="other", skill="wipe")).approval
    assert not permit(guards, vault(concerned_by=())).approval
    assert not permit(lifted(guards, "wipe"), vault()).approval


def test_a_guard_of_a_plan_holds_for_a_device_that_accepts_words_whatever_the_skill() -> None:
    guards = with_approval(Guards(), [], ["agent"])
    assert permit(guards, GuardedWork(device="agent")).approval
    assert permit(guards, GuardedWork(device="agent", skill="named")).approval


@pytest.mark.parametrize("path", ["/data/a/b", "/data", "/data/./a", "/data/a/../b"])
def test_a_path_within_its_folder_is_taken(path: str) -> None:
    assert is_within(path, "/data")


@pytest.mark.parametrize("path", ["/database", "/data/../etc", "data", "~/data", "", "/data/a\0b", "//data/x/../../etc"])
def test_a_path_out_of_its_folder_is_refused(path: str) -> None:
    assert not is_within(path, "/data")


@pytest.mark.parametrize("value", [-1, [1, -9.5], {"--exec": "x"}, [{"a": {"-x": None}}], ["-v"]])
def test_numbers_and_names_that_a_program_would_read_as_options_are_refused(value: object) -> None:
    """A3: an argument of a command is one text in argv, whatever its type in JSON."""
    guards = guarding(tar=SkillGuard(no_options=("more",)))
    assert "begins with -" in str(permit(guards, vault("tar", arguments={"more": value})).refusal)
    assert not permit(guards, vault("tar", arguments={"more": [1, "a-b", None, {"n": True}]})).refusal


@pytest.mark.parametrize("value", [7, [{"/etc/passwd": 1}], {"/data/a": "/etc"}, True])
def test_only_paths_lie_within_a_folder(value: object) -> None:
    """A3: a number is a relative path to a command."""
    guards = guarding(tar=SkillGuard(within={"folder": ("/data",)}))
    assert "within /data" in str(permit(guards, vault("tar", arguments={"folder": value})).refusal)
    assert not permit(guards, vault("tar", arguments={"folder": ["/data/a", None]})).refusal


def test_arguments_beyond_their_bounds_are_refused_for_everybody() -> None:
    guards = guarding(tar=SkillGuard(no_options=("*",), within={"folder": ("/data",)}))
    assert not permit(guards, vault("tar", arguments={"folder": "/data/x"})).refusal
    assert "begins with -" in str(permit(guards, vault("tar", arguments={"folder": "/data/x", "more": ["a", "--exec=sh"]})).refusal)
    assert "within /data" in str(permit(guards, vault("tar", arguments={"folder": "/etc"})).refusal)


def test_variables_folders_and_secrets_of_foreign_work_are_those_that_the_fleet_lists() -> None:
    guards = guarding(tar=SkillGuard(secrets=("KEY",), task_env=("APP_*",), task_folder=True))
    allowed = vault("tar", secrets=["KEY"], env=["APP_MODE"], folder="x", is_foreign=True)
    assert permit(guards, allowed) == Permit()
    assert 'task_env = ["TAR_OPTIONS"]' in str(permit(guards, vault("tar", env=["TAR_OPTIONS"], is_foreign=True)).refusal)
    assert 'secrets = ["OTHER"]' in str(permit(guards, vault("tar", secrets=["OTHER"], is_foreign=True)).refusal)
    assert "task_folder = true" in str(permit(Guards(), vault("tar", folder="x", is_foreign=True)).refusal)
    assert permit(Guards(), vault("tar", secrets=["OTHER"], env=["TAR_OPTIONS"], folder="x")) == Permit()


CHANGE_A_PROGRAM = """
    PATH LD_PRELOAD TAR_OPTIONS GIT_SSH_COMMAND BASH_ENV PYTHONSTARTUP NODE_OPTIONS IFS COMPILER_PATH LIBRARY_PATH CPATH C_INCLUDE_PATH
    CARGO_BUILD_RUSTC_WRAPPER CARGO_HOME RUSTUP_TOOLCHAIN GOROOT GOTOOLCHAIN GOENV GOPROXY OCAMLPARAM OCAMLRUNPARAM OCAMLPATH
    CAML_LD_LIBRARY_PATH GUILE_LOAD_PATH GHCRTS GHC_PACKAGE_PATH GHC_ENVIRONMENT TCL_LIBRARY BUNDLE_GEMFILE MIX_HOME RAKULIB
    ELECTRON_RUN_AS_NODE GTK_MODULES GIO_MODULE_DIR QT_PLUGIN_PATH SASL_PATH ANSIBLE_CONFIG MAVEN_ARGS ANT_ARGS TF_CLI_CONFIG_FILE
    PGSERVICEFILE INPUTRC HGMERGE FLASK_APP DJANGO_SETTINGS_MODULE HTTP_Proxy http_proxy Npm_Config_Registry
"""


@pytest.mark.parametrize("name", CHANGE_A_PROGRAM.split())
def test_a_pattern_covers_no_variable_that_changes_what_a_program_loads(name: str) -> None:
    assert not is_listed(name, ("*",))
    assert is_listed(name, (name,))


@pytest.mark.parametrize(("listed", "wide"), [("*", True), ("A*", True), ("[A-Z]*", True), ("AB*", False), ("A", False), ("APP_?", False)])
def test_a_pattern_of_variables_begins_with_two_letters(listed: str, *, wide: bool) -> None:
    assert is_too_wide(listed) == wide


values = st.recursive(
    st.none() | st.sampled_from(["", "-", "-x", "/data/x", "/etc", "..", 0, -1, True]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["", "-x", "/data/x"]), inner, max_size=2),
    max_leaves=6,
)


@given(st.lists(values, max_size=4))
def test_a_list_is_refused_if_one_of_its_items_is(items: list[object]) -> None:
    """Whatever stands before an item, an empty text or null among it, hides nothing."""
    for guard in (SkillGuard(no_options=("paths",)), SkillGuard(within={"paths": ("/data",)})):
        alone = [permit(guarding(tar=guard), vault("tar", arguments={"paths": item})).refusal for item in items]
        assert bool(permit(guarding(tar=guard), vault("tar", arguments={"paths": items})).refusal) == any(alone)


@given(st.lists(st.sampled_from(["", "APP_X", "OTHER", "K", "PATH"]), max_size=4))
def test_variables_and_secrets_are_refused_if_one_of_them_is(given_names: list[str]) -> None:
    guards = guarding(tar=SkillGuard(secrets=("K",), task_env=("APP_*",)))
    assert bool(permit(guards, vault("tar", secrets=given_names, is_foreign=True)).refusal) == any(name != "K" for name in given_names)
    assert bool(permit(guards, vault("tar", env=given_names, is_foreign=True)).refusal) == any(name != "APP_X" for name in given_names)


@pytest.mark.parametrize("value", ["", ["", "/etc"], {"": "/etc"}])
def test_an_empty_text_is_no_path_within_a_folder(value: object) -> None:
    guards = guarding(tar=SkillGuard(within={"folder": ("/data",)}))
    assert "within /data" in str(permit(guards, vault("tar", arguments={"folder": value})).refusal)


names = st.sampled_from(["wipe", "read", "tar"])
guard = st.builds(
    SkillGuard,
    approval=st.booleans(),
    no_options=st.sampled_from([(), ("a",), ("*",)]),
    within=st.sampled_from([{}, {"a": ("/data",)}]),
    secrets=st.sampled_from([(), ("K",), ("K", "L")]),
    task_env=st.sampled_from([(), ("APP_*",)]),
    task_folder=st.booleans(),
)
device = st.builds(DeviceGuards, every=guard, skills=st.dictionaries(names, guard))
work = st.builds(
    GuardedWork,
    device=st.just("vault"),
    skill=names,
    arguments=st.dictionaries(st.sampled_from(["a", "b"]), st.sampled_from(["/data/x", "-x", "y"])),
    secrets=st.sampled_from([(), ("K",), ("L",)]),
    env=st.sampled_from([(), ("APP_X",)]),
    folder=st.sampled_from(["", "f"]),
    is_foreign=st.booleans(),
)


@given(device, device, work)
def test_a_device_that_reports_other_guards_allows_nothing_that_it_did_not_allow_before(
    first: DeviceGuards, then: DeviceGuards, work: GuardedWork
) -> None:
    begun = Guards(devices={"vault": first})
    now = permit(with_device(begun, "vault", then), work)
    for alone in (permit(begun, work), permit(Guards(devices={"vault": then}), work)):
        assert now.approval >= alone.approval
        assert bool(now.refusal) >= bool(alone.refusal)
    assert stricter(stricter(first, then), then) == stricter(first, then)


def test_a_guard_that_an_admin_has_lifted_holds_again_when_lifts_are_void() -> None:
    """A1: the name may be that of a skill, or of a device that accepts natural language."""
    guards = with_approval(Guards(), ["wipe"], ["vault"])
    there = not_lifted(lifted(lifted(guards, "wipe"), "vault"))
    assert not there.lifted
    assert permit(there, GuardedWork(device="elsewhere", skill="wipe")).approval
    assert permit(there, GuardedWork(device="vault")).approval
    assert not_lifted(guards) == guards


def test_the_list_of_loading_variables_has_no_name_twice() -> None:
    assert len(set(LOADING)) == len(LOADING)


def reporting(guards: Guards, *reports: str) -> Guards:
    for report in reports:
        guards = with_report(guards, "vault", report.split())
    return guards


WIPING = with_approval(guarding(wipe=SkillGuard(no_options=("x",))), ["wipe"])


def test_a_skill_that_a_device_reports_later_is_guarded_as_any_that_it_had() -> None:
    """A1: a device that renames a tool lifts no guard."""
    guards = reporting(WIPING, "wipe read", "read", "read erase")
    permitted = permit(guards, vault("erase", arguments={"x": "-f"}))
    assert (str(permitted.refusal), permitted.approval) == ("x '-f' begins with -, and could be an option", True)
    assert guards.of_plan == ("wipe", "erase")
    assert permit(guards, GuardedWork(device="vault", skill="wipe")).approval
    assert permit(guards, GuardedWork(device="vault", skill="read")) == Permit()
    assert permit(guards, GuardedWork(device="other", skill="erase")) == Permit()


def test_a_guard_that_a_plan_sets_later_holds_for_the_new_names_that_a_device_has_reported_before() -> None:
    """A1."""
    guards = with_approval(reporting(Guards(), "wipe", "erase"), ["wipe"])
    assert permit(guards, GuardedWork(device="vault", skill="erase")).approval


def test_a_device_that_takes_back_an_old_name_after_a_flag_on_the_new_one_lifts_no_guard() -> None:
    guards = reporting(with_approval(reporting(Guards(), "wipe", "erase"), ["erase"]), "wipe")
    assert permit(guards, GuardedWork(device="vault", skill="wipe")).approval


def test_a_device_that_comes_back_without_new_names_is_guarded_as_before() -> None:
    guards = reporting(with_approval(Guards(), ["wipe"]), "wipe read", "", "read wipe")
    assert [permit(guards, GuardedWork(device="vault", skill=it)).approval for it in ("wipe", "read")] == [True, False]


def test_a_device_whose_skills_were_not_known_begins_with_those_that_it_reports_first() -> None:
    assert reporting(WIPING, "", "wipe read").of_plan == ("wipe",)


def test_a_lift_is_one_of_a_name_and_not_of_those_that_a_device_reports_later() -> None:
    """A4: "nothing else lifts one"; an admin lifts the new name by itself."""
    guards = reporting(lifted(reporting(with_approval(Guards(), ["wipe"]), "wipe"), "wipe"), "erase")
    erase = GuardedWork(device="vault", skill="erase")
    assert permit(guards, erase).approval
    assert not not_guarded(guards, "erase")
    assert not permit(lifted(guards, "erase"), erase).approval
    assert permit(not_lifted(lifted(guards, "erase")), erase).approval


def test_what_stood_when_work_was_written_also_stood_for_a_later_name() -> None:
    guards = reporting(with_approval(Guards(), ["wipe"]), "wipe", "erase")
    asked = [permit(guards, GuardedWork(device="vault", skill="erase", concerned_by=it)).approval for it in ((), ("wipe",), ("read",))]
    assert asked == [False, True, False]


def test_a_follow_up_run_knows_the_later_names() -> None:
    assert inherited(reporting(with_approval(Guards(), ["wipe"]), "wipe", "erase")).is_of_plan("vault", "erase")
