"""The document and the files of the console over real HTTP: they need no token, hold no data, and run nothing inline."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from urllib.parse import urljoin

from asterism.console.assets import LIVE, POLICY, STYLE, WORKER, assets
from asterism.service.api.pages import ADDRESSES
from tests.support.api_server import ASKS, Server
from tests.unit.service.test_resources import play


def test_every_page_address_returns_the_same_document_without_a_token(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        nobody, admin = await server.client(None), await server.client("admin")
        run_id = (await admin.post("/api/runs", json={"plan": ASKS, "title": "Confidential"})).json()["run_id"]
        for address in ADDRESSES:
            answer = await nobody.get(address.format(run_id=run_id), params={"at": "3"})
            assert (answer.status_code, answer.text) == (200, assets().document), address
            assert answer.headers["content-type"] == "text/html; charset=utf-8"
            assert answer.headers["content-security-policy"] == POLICY
            assert (answer.headers["cache-control"], answer.headers["referrer-policy"]) == ("no-cache", "no-referrer")
        for path in ("/login.js", "/run", "/runs/a/b", "/consoles/x", "/console/x/live/main.js", "/inbox/1"):
            assert (await nobody.get(path)).status_code == 401, path
        assert (await nobody.post("/")).status_code == 401
        assert (await nobody.get("/", headers={"Host": "evil.example"})).status_code == 421

    play(tmp_path, scenario, drives=False)


def test_the_document_has_no_inline_script_or_style_and_names_only_files_that_exist(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        nobody = await server.client(None)
        document = (await nobody.get("/")).text
        assert re.search(r"\son\w+=|<style|style=|javascript:|https?:", document) is None
        assert re.findall(r"<script[^>]*>([^<]*)</script>", document) == [""]
        named = re.findall(r'(?:src|href)="(/[^"]*)"', document)
        for path in named:
            assert (await nobody.get(path)).status_code == 200, path
        base = f"/console/{assets().version}/"
        assert [path.removeprefix(base) for path in named if path.startswith("/")] == [STYLE, LIVE]
        for script, text in ((name, asset.data.decode()) for name, asset in assets().files.items() if name.endswith(".js")):
            for address in re.findall(r"""(?:\bfrom |\bimport\()'([^']*)'""", text):
                assert (await nobody.get(urljoin(base + script, address))).status_code == 200, (script, address)

    play(tmp_path, scenario, drives=False)


def test_a_file_is_stored_for_ever_and_another_version_has_none(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        nobody = await server.client(None)
        base = f"/console/{assets().version}"
        for name, media_type in ((LIVE, "text/javascript"), (WORKER, "text/javascript"), (STYLE, "text/css")):
            plain = await nobody.get(f"{base}/{name}", headers={"Accept-Encoding": "identity"})
            assert (plain.status_code, plain.content) == (200, assets().files[name].data)
            assert plain.headers["content-type"] == f"{media_type}; charset=utf-8"
            assert plain.headers["cache-control"] == "public, max-age=31536000, immutable"
            assert plain.headers["content-security-policy"] == POLICY  # a worker has the policy of its own script
            packed = await nobody.get(f"{base}/{name}", headers={"Accept-Encoding": "gzip"})
            assert (packed.headers["content-encoding"], packed.content) == ("gzip", plain.content)
            assert int(packed.headers["content-length"]) == len(gzip.compress(plain.content, mtime=0))
        for path in (f"{base}/missing.js", f"{base}/../export.py", f"{base}/%2e%2e/export.py", f"/console/0123456789abcdef/{STYLE}"):
            assert (await nobody.get(path)).status_code in (401, 404), path

    play(tmp_path, scenario, drives=False)
