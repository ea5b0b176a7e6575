from __future__ import annotations

import re
import time

from asterism.engine.runtime.clock import SystemClock


def test_now_is_now() -> None:
    before = time.time()
    assert before <= SystemClock().now() <= time.time()


def test_ids_differ_and_are_easy_to_type() -> None:
    drawn = {SystemClock().new_id() for _ in range(100)}
    assert len(drawn) == 100
    assert all(re.fullmatch(r"\d{6}-[0-9a-f]{8}", one) for one in drawn)
