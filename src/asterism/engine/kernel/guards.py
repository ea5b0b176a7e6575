"""The guards of a run: what a person must approve, and what work may not do. Pure.

A run begins with its guards in its first event. The fleet's part comes with the profiles of its
devices; the plan's part are the skills for which a plan has asked for approval. Guards only become
stricter (``stricter``, ``with_approval``), except that an admin may lift one of the plan's part
(``lifted``). Every machine asks ``permit`` where work begins: an attempt, a step, a call of a tool,
a handler.
"""

from __future__ import annotations

import fnmatch
import functools
import hashlib
import itertools
import posixpath
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import msgspec

from asterism.engine.kernel.phrase import Text, phrase

EVERY = "*"
"""Name for every argument of a skill, in ``SkillGuard.no_options``."""
_LOADING = (
    # shells, by the manuals of bash, dash, zsh, ksh and fish
    "BASHOPTS BASH_* CDPATH ENV FPATH GLOBIGNORE HISTFILE IFS INPUTRC MAILPATH PROMPT_COMMAND PS[0-9] SHELL SHELLOPTS ZDOTDIR fish_*",
    # the loaders and C libraries, by ld.so(8), dyld(1), and the names that glibc drops for setuid programs
    "DYLD_* GCONV_PATH GETCONF_DIR GLIBC_TUNABLES HOSTALIASES LD_* LOCALDOMAIN LOCPATH MALLOC_* NIS_PATH NLSPATH PATH RESOLV_HOST_CONF",
    "RES_OPTIONS TMPDIR TZDIR",
    # compilers, linkers and what drives them, by the manuals of gcc, clang, cl, ccache, make, cmake, pkg-config, autoconf and bazel
    "*INCLUDE_PATH *LIBRARY_PATH ACLOCAL* AR AS AUTO* BAZEL* BISON_* CC CCACHE_* CCC_* CLANG* CMAKE_* COLLECT_* COMPILER_PATH",
    "CONAN_* CPATH CPP CXX DEPENDENCIES_OUTPUT DEVELOPER_DIR DISTCC_* FC GCC_* INCLUDE LD LIB LIBPATH M4* MAKE* MSBUILD* PKG_CONFIG*",
    "SDKROOT SUNPRO_* VCPKG_* YACC",
    # languages and their package managers
    "ANT_* BUNDLE_* BUNDLER_* BUN_* CABAL_* CAML* CARGO* CGO_* CLASSPATH CLJ_* COMPOSER_* CONDA_* COREPACK_* CORECLR_* COMPlus_*",
    "DENO_* DOTNET_* ELECTRON_* ELIXIR_* ERL_* GCCGO GEM_* GHC* GO[A-Z]* GRADLE_* GUILE_* HEX_* IPYTHON* JAVA_* JDK_* JULIA_*",
    "JUPYTER_* JVM_* KOTLIN_* LEIN_* LUAROCKS_* LUA_* MAVEN_* MIX_* MONO_* NODE_* NPM_* NUGET_* OCAML* OPAM* PERL* PHPRC PHP_*",
    "PIPENV_* PIP_* PNPM_* POETRY_* PYENV_* PYTEST_* PYTHON* RAKU* RBENV_* REBAR* RENV_* RUBY* RUSTC* RUSTDOC* RUSTUP_* R_* SBCL_*",
    "GROOVY_* M2_* SBT_* SCALA_* SETUPTOOLS_* STACK_* SWIFT_* SWIPL* TCL* TK_* TOX_* UV_* VIRTUAL_ENV YARN_* _JAVA_OPTIONS",
    # libraries that load modules, by their manuals
    "*LOAD_PATH *MODULE_PATH *PLUGIN_PATH ALSA_* CUDA_* DBUS_* EGL_* FONTCONFIG_* GDK_* GIO_* GI_* GSETTINGS_* GST_* GTK_* KRB5* LIBGL_*",
    "LIBVA_* MAGICK_* MESA_* NSS_* OCL_* ODBC* OMPI_* OPENSSL_* P11_* PULSE_* QML* QT_* SASL_* VK_* WINE*",
    # frameworks that load what a variable names
    "CELERY_* COVERAGE_* DJANGO_* FLASK_* GUNICORN_* HADOOP_* MPL* PLAYWRIGHT_* PUPPETEER_* SPARK_* TS_NODE_* UVICORN_*",
    # programs that start others, or read options and files from variables
    "*_ASKPASS *_OPTIONS *_OPTS *_OPTIONS_* *FLAGS ANSIBLE_* BORG_* BROWSER BUILDKIT_* CONTAINERS_* CURL_HOME CVS* DOCKER_* EDITOR",
    "FZF_* GH_* GIT_* GNUPGHOME GPG_* GREP_* GS_* HELM_* HG* HOME KUBE* LIBMYSQL_* MYSQL_* NIX_* ORACLE_* P4* PACKER_* PARALLEL* PG*",
    "AWK* BZIP* EMACS* GZIP LYNX* MAILCAPS MAILRC NEXINIT PIGZ RCLONE_* RESTIC_* RIPGREP_* SCREENRC SVN_* TF_* TNS_ADMIN UNZIP XZ_*",
    "LESS* MAN* MORE NETRC PAGER POSIX* RSYNC_* SHELLCHECK* SSH_* SSLKEYLOGFILE SUDO_* SYSTEMD_* TAPE ZSTD_*",
    "EXINIT FCEDIT GNUPLOT* MATLAB* OCTAVE* PSQL* SELECTED_EDITOR TERMCAP TERMINFO* VAGRANT_* VIM* VISUAL WGETRC XAUTHORITY XDG_* ZIP*",
    # trust and routes of a connection
    "*_PROXY AWS_* AZURE_* BOTO_* CLOUDSDK_* CURL_CA_BUNDLE GOOGLE_* GRPC_* HF_* REQUESTS_CA_BUNDLE SSL_* TORCH_*",
    "ASTERISM_*",
)
LOADING = tuple(name.upper() for names in _LOADING for name in names.split())
"""Variables that change what a program is or loads, as patterns: the list is closed. A pattern in ``task_env`` covers none of them.

Some programs read them in any case, such as ``Http_Proxy``.
"""


class SkillGuard(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The guard of one skill on one device.

    Attributes:
        approval: True if a person must approve each attempt.
        no_options: names of arguments in which no text or number may begin with ``-``, or ``*`` for all.
        within: names of arguments, each with the folders in all of which its paths must lie.
        secrets: names of the secrets that may reach it from a plan that is foreign: one that came
            over the network or from a model.
        task_env: names of the variables that a foreign task may set, or patterns such as ``APP_*``.
        task_folder: True if a foreign task may choose its working folder.
    """

    approval: bool = False
    no_options: tuple[str, ...] = ()
    within: dict[str, tuple[str, ...]] = {}
    secrets: tuple[str, ...] = ()
    task_env: tuple[str, ...] = ()
    task_folder: bool = False


class DeviceGuards(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The guards of one device.

    Attributes:
        every: the guard of each skill without one of its own.
        skills: the guards of skills by name, each complete.
    """

    every: SkillGuard = SkillGuard()
    skills: dict[str, SkillGuard] = {}

    def of(self, skill: str) -> SkillGuard:
        """Return the guard of a skill."""
        return self.skills.get(skill, self.every)


_UNGUARDED = DeviceGuards()


class ReportedSkills(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The names of the skills that a device has reported within a tree of runs.

    Attributes:
        first: those with which it began.
        later: those that it has reported since. Each may be another name of any of its skills, and so may a name that it
            has dropped since, should it come back.
    """

    first: tuple[str, ...] = ()
    later: tuple[str, ...] = ()


class Guards(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The guards of a run.

    Attributes:
        devices: the fleet's part, by device id.
        reported: names of skills by device, from the beginning of the root of this tree of runs on.
        plan_skills: skills that a plan has guarded, on every device.
        plan_devices: devices that accept natural language and that a plan has guarded.
        lifted: skills and devices whose guard an admin has lifted: the flag of a task asks for no approval
            of theirs either.
        concerning: the skills and devices of the plan's part that concern the tasks of the submission:
            those that stood when what has started this run was written.
        approve_plan, approve_edits: True if a person must approve the plan of each planner, or its edits; those
            of constellations below it included.
        is_approved: True if a person has approved the work that has started this run, or one above it, for one attempt.
        is_foreign: True if all that the submission wrote came over the network or from a model.
        started_by: the device and the skill of the task that has started this run, or its worker in a loop: their guard bounds
            the fields of a conversation. Empty in a root, and where a fleet has no guards.
        submitter: who submitted the root of a tree of runs; empty in the root, whose first entry says
            it.
        submitters: who else counts as that: who added the schedule of the run, and who commanded it.
        submitter_may_approve: False if none of them may approve.
    """

    devices: dict[str, DeviceGuards] = {}
    reported: dict[str, ReportedSkills] = {}
    plan_skills: tuple[str, ...] = ()
    plan_devices: tuple[str, ...] = ()
    lifted: tuple[str, ...] = ()
    concerning: tuple[str, ...] = ()
    approve_plan: bool = False
    approve_edits: bool = False
    is_approved: bool = False
    is_foreign: bool = False
    started_by: tuple[str, ...] = ()
    submitter: str = ""
    submitters: tuple[str, ...] = ()
    submitter_may_approve: bool = True

    def of(self, device: str, skill: str) -> SkillGuard:
        """Return the fleet's guard of a skill on a device; of one that it has reported later, the strictest of all its skills."""
        there = self.devices.get(device, _UNGUARDED)
        return functools.reduce(_both, there.skills.values(), there.every) if self._is_later(device, skill) else there.of(skill)

    @property
    def of_plan(self) -> tuple[str, ...]:
        """Return the skills and devices that a plan has guarded: they concern what is written now."""
        later = [skill for device, it in self.reported.items() for skill in it.later if self.is_of_plan(device, skill)]
        return union(self.plan_skills, (*later, *self.plan_devices))

    def is_of_plan(self, device: str, skill: str, stood: Collection[str] | None = None) -> bool:
        """Return True if a plan has guarded a skill on a device, by a guard among those that ``stood`` if given.

        A skill that the device has reported later is guarded as any of its skills. A lift is one of a name: it does not
        hold for later names.
        """
        if device in self.plan_devices and (stood is None or device in stood):
            return True
        names: tuple[str, ...] = (skill,)
        guarded = self.plan_skills
        if not guarded and not self.lifted:
            return False
        if self._is_later(device, skill) and skill not in self.lifted:
            there = self.reported[device]
            names, guarded = (*there.first, *there.later), (*self.plan_skills, *self.lifted)
        return any(name in guarded and (stood is None or name in stood) for name in names)

    def _is_later(self, device: str, skill: str) -> bool:
        return device in self.reported and skill in self.reported[device].later


class GuardedWork(msgspec.Struct, frozen=True, kw_only=True):
    """Work that is about to begin.

    Attributes:
        device, skill: where it runs and what; ``skill`` is empty on a device without skills.
        arguments: its arguments; references to secrets stand in them as references.
        secrets: names of the secrets that it refers to.
        env: names of the variables that its task sets.
        folder: the working folder that its task chooses; empty for none.
        is_foreign: True if it came over the network or from a model.
        concerned_by: the guards of a plan that stood when it was written or last changed; none that was
            set later concerns it. None if each of them does.
        approval: True if the work itself asks for approval.
    """

    device: str = ""
    skill: str = ""
    arguments: Mapping[str, Any] = {}
    secrets: Collection[str] = ()
    env: Collection[str] = ()
    folder: str = ""
    is_foreign: bool = False
    concerned_by: Collection[str] | None = None
    approval: bool = False


class Permit(msgspec.Struct, frozen=True):
    """What the guards say about work.

    Attributes:
        refusal: why it may not begin, with what the fleet file would have to allow; empty if it may.
        approval: True if a person must approve it.
    """

    refusal: Text = ""
    approval: bool = False


def permit(guards: Guards, work: GuardedWork) -> Permit:
    """Return what the guards of a run say about work that is about to begin."""
    guard = guards.of(work.device, work.skill)
    of_plan = guards.is_of_plan(work.device, work.skill, work.concerned_by)
    of_task = work.approval and work.skill not in guards.lifted and work.device not in guards.lifted
    return Permit(refusal=refusal_of(guard, work), approval=of_task or guard.approval or of_plan)


def refusal_of(guard: SkillGuard, work: GuardedWork) -> Text:
    """Return why the fleet's guard of its skill does not let work begin; empty if it does."""
    return out_of_bounds(guard, work.arguments) or (_not_listed(guard, work) if work.is_foreign else "")


def out_of_bounds(guard: SkillGuard, arguments: Mapping[str, Any]) -> Text:
    """Return why arguments are out of bounds; empty if they are not."""
    for name in arguments if EVERY in guard.no_options else guard.no_options:
        for text in program_texts(arguments.get(name)):
            if text.startswith("-"):
                return phrase("guards.option", name=name, text=f"{text!r:.80}")
    for name, folders in guard.within.items():
        for text, folder in itertools.product(program_texts(arguments.get(name)), folders):
            if not is_within(text, folder):
                return phrase("guards.outside", name=name, text=f"{text!r:.80}", folder=folder)
    return ""


def program_texts(value: Any) -> Iterator[str]:
    """Yield the texts, names and numbers of a JSON value, as a program would get them; each can be a path or an option."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield name
            yield from program_texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from program_texts(item)
    elif value is not None:
        yield value if isinstance(value, str) else str(value)


def _not_listed(guard: SkillGuard, work: GuardedWork) -> Text:
    for name in work.secrets:
        if name not in guard.secrets:
            return phrase("guards.secret", name=name, device=work.device, skill=work.skill)
    for name in work.env:
        if not is_listed(name, guard.task_env):
            return phrase("guards.variable", name=name, device=work.device, skill=work.skill)
    if work.folder and not guard.task_folder:
        return phrase("guards.folder", device=work.device, skill=work.skill)
    return ""


def is_listed(name: str, listed: Collection[str]) -> bool:
    """Return True if a variable is among listed names and patterns; a pattern covers no name of ``LOADING``."""
    if name in listed:
        return True
    return any(fnmatch.fnmatchcase(name, it) for it in listed) and not any(fnmatch.fnmatchcase(name.upper(), it) for it in LOADING)


def is_too_wide(listed: str) -> bool:
    """Return True if a pattern in ``task_env`` has less than two characters before its first wildcard."""
    beginning = re.split(r"[*?[]", listed, maxsplit=1)[0]
    return beginning != listed and len(beginning) < 2  # noqa: PLR2004 - the two characters


def is_within(path: str, folder: str) -> bool:
    """Return True if a path is absolute and lies within a folder; links are not followed."""
    inside = posixpath.normpath(path)
    return path.startswith("/") and "\0" not in path and (inside == folder or inside.startswith(folder.rstrip("/") + "/"))


def digest_of(shown: Any) -> str:
    """Return the digest of what a question shows, by which an approval names it."""
    return hashlib.sha256(msgspec.json.encode(shown, order="deterministic")).hexdigest()


# -- changes: each makes guards stricter, but for a lift -------------------------------------------


def stricter(one: DeviceGuards, other: DeviceGuards) -> DeviceGuards:
    """Return the guards of a device that hold where both hold."""
    every = _both(one.every, other.every)
    skills = {name: _both(one.of(name), other.of(name)) for name in (*one.skills, *other.skills)}
    return DeviceGuards(every=every, skills={name: guard for name, guard in skills.items() if guard != every})


def _both(one: SkillGuard, other: SkillGuard) -> SkillGuard:
    return SkillGuard(
        approval=one.approval or other.approval,
        no_options=union(one.no_options, other.no_options),
        within=_within(one, other),
        secrets=tuple(it for it in one.secrets if it in other.secrets),
        task_env=tuple(it for it in one.task_env if it in other.task_env),
        task_folder=one.task_folder and other.task_folder,
    )


def joined(own: SkillGuard, device: SkillGuard) -> SkillGuard:
    """Return the guard of a skill whose device has a guard, too: what either bounds is bounded, what either lists is listed."""
    return SkillGuard(
        approval=own.approval,
        no_options=union(own.no_options, device.no_options),
        within=_within(own, device),
        secrets=union(own.secrets, device.secrets),
        task_env=union(own.task_env, device.task_env),
        task_folder=own.task_folder or device.task_folder,
    )


def _within(one: SkillGuard, other: SkillGuard) -> dict[str, tuple[str, ...]]:
    names = sorted({*one.within, *other.within})
    return {name: union(one.within.get(name, ()), other.within.get(name, ())) for name in names}


def union(one: tuple[Any, ...], other: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the items of both, each once."""
    return tuple(dict.fromkeys((*one, *other)))


def with_device(guards: Guards, device: str, found: DeviceGuards, *, is_new: bool = False) -> Guards:
    """Return the guards after a device has reported others: unless it is new, what is stricter of old and new holds."""
    if not is_new or device in guards.devices:
        found = stricter(guards.devices.get(device, DeviceGuards()), found)
    return msgspec.structs.replace(guards, devices={**guards.devices, device: found})


def with_report(guards: Guards, device: str, skills: Collection[str]) -> Guards:
    """Return the guards after a device has reported the names of all its skills."""
    there = guards.reported.get(device, ReportedSkills())
    if not (there.first or there.later):
        there = ReportedSkills(first=tuple(skills))
    elif later := union(there.later, tuple(name for name in skills if name not in there.first)):
        dropped = tuple(name for name in there.first if name not in skills)
        there = ReportedSkills(first=tuple(name for name in there.first if name in skills), later=union(later, dropped))
    return msgspec.structs.replace(guards, reported={**guards.reported, device: there})


def with_approval(guards: Guards, skills: Collection[str], devices: Collection[str] = ()) -> Guards:
    """Return the guards after a plan has asked for approval of skills, and of devices that accept natural language."""
    return msgspec.structs.replace(
        guards,
        plan_skills=union(guards.plan_skills, tuple(skills)),
        plan_devices=union(guards.plan_devices, tuple(devices)),
        lifted=tuple(it for it in guards.lifted if it not in skills and it not in devices),
    )


def not_lifted(guards: Guards) -> Guards:
    """Return the guards with those of a plan that were lifted: a name may be that of a skill or of a device.

    They concern what the submission wrote, too.
    """
    concerning = union(guards.concerning, guards.lifted)
    return with_approval(msgspec.structs.replace(guards, concerning=concerning), guards.lifted, guards.lifted)


def inherited(guards: Guards) -> Guards:
    """Return what the next run of a session inherits: the plan's part, which concerns all that it submits."""
    return Guards(
        reported=guards.reported,
        plan_skills=guards.plan_skills,
        plan_devices=guards.plan_devices,
        lifted=guards.lifted,
        concerning=union(guards.of_plan, guards.lifted),
    )


def not_guarded(guards: Guards, name: str) -> Text:
    """Return why there is no guard of a plan with this name to lift; empty if there is one."""
    return "" if name in guards.of_plan else phrase("guards.none_to_lift", name=name, guarded=guards.of_plan)


def lifted(guards: Guards, name: str) -> Guards:
    """Return the guards without a skill or a device that a plan had guarded."""
    return msgspec.structs.replace(
        guards,
        plan_skills=tuple(it for it in guards.plan_skills if it != name),
        plan_devices=tuple(it for it in guards.plan_devices if it != name),
        lifted=union(guards.lifted, (name,)),
    )
