"""The commands on tokens."""

from __future__ import annotations

import json
from pathlib import Path

from tests.end_to_end.desk import Desk


def test_a_token_is_shown_once_listed_and_revoked(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    token = desk.do("token", "create", "ada", "--role", "operator", "--days", "30").stdout.strip()
    assert token.startswith("ast_")
    more = json.loads(desk.do("token", "create", "ci", "--role", "viewer", "--tenant", "north", "--json").stdout)
    listed = desk.do("token", "list").stdout
    assert [line.split()[1:3] for line in listed.splitlines()] == [["ada", "operator"], ["ci", "viewer"]]
    assert token.rpartition("_")[2] not in listed + desk.do("token", "list", "--json").stdout
    assert desk.do("token", "revoke", more["id"]).stdout == f"token ci ({more['id']}) is revoked\n"
    assert "could not be used any more: revoked" in desk.do("token", "revoke", "ci", code=1).stderr
    assert "no token 'bob'" in desk.do("token", "revoke", "bob", code=2).stderr
    assert "exists already" in desk.do("token", "create", "ada", "--role", "viewer", code=2).stderr
