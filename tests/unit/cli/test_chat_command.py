"""The command chat with an agent of a server, over real HTTP."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from asterism.cli import main
from tests.support.api_server import Server
from tests.unit.service.test_conversations import PIN, Order, talking

Chats = Callable[..., Awaitable[tuple[int, str]]]


@pytest.fixture
def chats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Chats:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ASTERISM_DATABASE", str(tmp_path / "none.db"))

    tokens: dict[str, str] = {}

    async def chat(server: Server, *lines: str, name: str = "ada", agent: str = "Order", options: tuple[str, ...] = ()) -> tuple[int, str]:
        """Chat with an agent; return the exit code, and what is printed."""
        tokens[name] = tokens.get(name) or await server.token("operator,approver", name=name)
        monkeypatch.setenv("ASTERISM_TOKEN", tokens[name])
        (tmp_path / "typed").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        with (tmp_path / "typed").open(encoding="utf-8") as typed:
            monkeypatch.setattr(sys, "stdin", typed)
            code = await asyncio.to_thread(main, ["chat", agent, "--server", server.url, *options])
        assert not (tmp_path / "none.db").exists()
        shown = capfd.readouterr()
        return code, shown.out + shown.err

    return chat


def test_a_conversation_of_a_server_is_left_open_found_again_and_completed(tmp_path: Path, chats: Chats) -> None:
    async def scenario(server: Server) -> None:
        code, shown = await chats(server, "/fields", "hello", "Soup", "/fields")
        assert (code, shown.splitlines()[0]) == (3, f"{Order.description}. Type /help for commands.")
        assert "(no conversation is open)\nWhat would you like?\n  [WAITING_FOR_INPUT]\n" in shown
        assert shown.endswith("dish: Soup\n")
        code, shown = await chats(server, "/pause", "/resume", PIN, "/history", "yes")
        assert "Your PIN?\n  [WAITING_FOR_INPUT]" in shown
        assert "[PAUSED]" in shown
        assert "ada@approver: Soup" in shown
        assert shown.endswith("Soup is on the way.\n  [COMPLETED]\n")
        assert (code, PIN in shown) == (0, False)
        code, shown = await chats(server, "next", "/cancel", "/pause")
        assert "Your PIN?" not in shown, "the first conversation has ended; this is another"
        assert (code, shown.splitlines()[-2:]) == (130, ["  [CANCELLED]", "(no conversation is open)"])

    talking(tmp_path, scenario)


def test_the_conversation_of_another_token_is_not_continued(tmp_path: Path, chats: Chats) -> None:
    async def scenario(server: Server) -> None:
        assert (await chats(server, "hello"))[0] == 3
        code, shown = await chats(server, "/history", name="bob")
        assert (code, shown.splitlines()[-1]) == (0, "(no conversation is open)")

    talking(tmp_path, scenario)


def test_an_agent_that_the_server_lacks_and_options_of_this_computer_are_refused(tmp_path: Path, chats: Chats) -> None:
    async def scenario(server: Server) -> None:
        code, shown = await chats(server, agent="Lunch")
        assert (code, shown) == (2, f"asterism: the server {server.url} has no agent 'Lunch'; it has Order\n")
        assert "did you mean Order?" in (await chats(server, agent="Ordr"))[1]
        code, shown = await chats(server, options=("--user", "ann"))
        assert (code, "--user does not work with a server" in shown) == (2, True)

    talking(tmp_path, scenario)
