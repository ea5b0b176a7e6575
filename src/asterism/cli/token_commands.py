"""Commands on the tokens of a server: token create, token list, token revoke."""

from __future__ import annotations

import asyncio
import json as json_text
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from asterism.app.bootstrap import open_store
from asterism.app.settings import database_path
from asterism.cli.exit_codes import FAILED, FINISHED
from asterism.cli.options import Database, Json
from asterism.cli.output import complain, local_time, put
from asterism.cli.run_access import reading
from asterism.engine.ports.tokens import Role, TokenRow
from asterism.engine.runtime.clock import DAY_S, SystemClock
from asterism.errors import InvalidInput
from asterism.service.tokens import named_token, new_token, shown
from asterism.views.text.styled_line import MOMENT
from asterism.views.words import plain


def create(
    name: Annotated[str, Parameter(name="NAME", help="Who or what uses the token; the journals name it.")],
    /,
    *,
    role: Annotated[
        list[Role],
        Parameter(
            help="viewer reads; sender only sends events; operator also submits, commands and edits; approver reads and answers; "
            "admin does all. May be repeated."
        ),
    ],
    days: Annotated[float | None, Parameter(help="Days until it expires [default: never].")] = None,
    tenant: Annotated[str, Parameter(help="Reach only the runs of this tenant [default: the runs without one].")] = "",
    database: Database = None,
    json: Json = False,
) -> int:
    """Create a token for a server of this database, and print it: this once, because only its hash is stored."""
    if days is not None and not days > 0:
        raise InvalidInput(f"--days {days:g} is not a number above 0")
    token, row = new_token(name, role, SystemClock().now(), tenant=tenant, lasts_s=(days or 0.0) * DAY_S)
    asyncio.run(_add(row, database))
    put(json_text.dumps({"token": token, **shown(row)}) if json else token)
    return FINISHED


async def _add(row: TokenRow, database: Path | None) -> None:
    async with open_store(database_path(database), create=True) as store:
        await store.add_token(row)


def list_tokens(*, database: Database = None, json: Json = False) -> int:
    """List the tokens, without their secrets."""
    return asyncio.run(_list(database, as_json=json))


async def _list(database: Path | None, *, as_json: bool) -> int:
    async with reading(database) as store:
        rows = await store.tokens()
    if as_json:
        put(json_text.dumps([shown(row) for row in rows], indent=2))
    for row in rows if not as_json else ():
        of = f"  tenant {plain(row.tenant)}" if row.tenant else ""
        put(f"{row.token_id}  {plain(row.name)}  {','.join(row.roles)}{of}  {_validity(row)}")
    if not rows and not as_json:
        put("no tokens")
    return FINISHED


def _validity(row: TokenRow) -> str:
    if row.revoked_at:
        return f"revoked {local_time(row.revoked_at, MOMENT)}"
    if not row.expires_at:
        return "never expires"
    return f"{'expires' if row.usable(SystemClock().now()) else 'expired'} {local_time(row.expires_at, MOMENT)}"


def revoke(
    named: Annotated[str, Parameter(name="TOKEN", help="Name or id of a token.")],
    /,
    *,
    database: Database = None,
) -> int:
    """Revoke a token, with the logins that were made with it."""
    return asyncio.run(_revoke(named, database))


async def _revoke(named: str, database: Path | None) -> int:
    async with reading(database) as store:
        row = await named_token(store, named)
        if not await store.revoke_token(row.token_id, SystemClock().now()):
            complain(f"token {plain(row.name)} ({row.token_id}) could not be used any more: {_validity(row)}")
            return FAILED
    put(f"token {plain(row.name)} ({row.token_id}) is revoked")
    return FINISHED
