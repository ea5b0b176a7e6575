"""Requests made from the OpenAPI that the server states: each answer is one that it documents."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.fuzz.api import Served, ask_all, operations_of, search

SLICE_S = 60.0


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with Served(tmp_path) as found:
        yield found


def test_every_answer_is_one_that_the_openapi_documents(served: Served) -> None:
    operations = operations_of(served)
    assert len(operations) > 30
    document = httpx2.get(f"{served.url}/api/openapi.json", headers=served.headers).text
    named = set(re.findall(r'"#/components/schemas/(\w+)"', document))
    assert named <= json.loads(document)["components"]["schemas"].keys()
    ask_all(served, operations)


@pytest.mark.slow
def test_a_minute_of_requests_finds_no_other_answer() -> None:
    assert search(SLICE_S, 1) >= 1
