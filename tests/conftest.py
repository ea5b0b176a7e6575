"""Settings for all tests."""

from __future__ import annotations

import faulthandler
import os
import signal
from typing import Any

import pytest
from hypothesis import settings

# Tests must not use the models and keys of a developer.
for name in [name for name in os.environ if name.startswith("ASTERISM_")]:
    del os.environ[name]
os.environ["ASTERISM_DATABASE"] = ":memory:"  # what a test runs outside of a database of its own

# Tests start hundreds of processes, which share the compiled bytecode.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# In the background (a shell's `&`, nohup, CI) these signals are ignored, also in every process that a test starts.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# A deadline would measure the machine, not the code.
settings.register_profile("house", deadline=None, print_blob=True)
settings.load_profile("house")

# -- what hangs in spite of its timeout ------------------------------------------------------------
#
# A timeout raises an exception in the test, once. A clean-up that hangs (of `asyncio.run`, of a fixture) would last for ever:
# pytest-timeout stops its timer at the first failure. So a clean-up has half of the timeout; then the process is ended, and
# its stacks are printed. xdist names the test, and replaces the worker.

STDERR = pytest.StashKey[int]()
CLEAN_UP_S = pytest.StashKey[float]()
EXIT_S = 60.0


def pytest_configure(config: pytest.Config) -> None:
    config.stash[STDERR] = os.dup(2)  # while tests run, 2 is captured


def _end_after(limit_s: float, config: pytest.Config) -> None:
    faulthandler.dump_traceback_later(limit_s, exit=True, file=config.stash[STDERR])


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> None:
    item.stash[CLEAN_UP_S] = settings.timeout / 2
    _end_after(settings.timeout + item.stash[CLEAN_UP_S], item.config)


@pytest.hookimpl(trylast=True)
def pytest_exception_interact(node: pytest.Item | pytest.Collector) -> None:
    if clean_up_s := node.stash.get(CLEAN_UP_S, None):
        _end_after(clean_up_s, node.config)


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_cancel_timer(item: pytest.Item) -> None:
    faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(trylast=True)  # pytest first removes the directories of earlier sessions, which may take minutes
def pytest_sessionfinish(session: pytest.Session) -> None:
    if not hasattr(session.config, "workerinput"):  # xdist ends its workers itself, when the last one is ready
        _end_after(EXIT_S, session.config)  # a thread may still run
