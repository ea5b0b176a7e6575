"""The types that the JavaScript of the console states in JSDoc, checked by ``tsc``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.npm.packages import npm_package
from tests.unit.console.test_javascript import node

CONFIG = Path(__file__).with_name("jsconfig.json")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_types_of_the_modules_fit() -> None:
    done = node(str(npm_package("typescript") / "bin" / "tsc"), "--project", str(CONFIG))
    assert done.returncode == 0, done.stdout + done.stderr
