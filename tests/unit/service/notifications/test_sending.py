"""Messages over real HTTP to a server of this test, by Apprise and as signed webhooks."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from asterism.engine.ports.notices import Channel
from asterism.errors import InvalidInput
from asterism.service.notifications.message import NoticeMessage
from asterism.service.notifications.sending import check_channel, send
from tests.support.post_server import PostServer, post_server

KEY = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
MESSAGE = NoticeMessage(id="7-ops", kind="failed", run="r1", title="A run has failed: nightly", text="asterism show r1", at=100.0)


@pytest.fixture
def place() -> Iterator[PostServer]:
    with post_server() as it:
        yield it


def secret(name: str) -> str:
    if name != "KEY":
        raise InvalidInput(f"secret {name} is not set")
    return KEY


def sent(channel: Channel, now: float = 1_000_000_000.0) -> str:
    return asyncio.run(send(channel, MESSAGE, secret, now))


def test_a_message_goes_to_a_service_by_apprise(place: PostServer) -> None:
    pytest.importorskip("apprise")
    assert sent(Channel(name="ops", url=f"json://127.0.0.1:{place.port}/hook")) == ""
    ((path, _, body),) = place.received
    content = json.loads(body)
    assert path == "/hook"
    assert (content["title"], content["message"]) == ("A run has failed: nightly", "asterism show r1")


def test_a_webhook_is_signed_and_its_id_is_that_of_the_message(place: PostServer) -> None:
    webhooks = pytest.importorskip("standardwebhooks")
    channel = Channel(name="ops", url=f"http://127.0.0.1:{place.port}/hook", signing_key="${secret.KEY}")
    import time  # noqa: PLC0415 - the library compares the stamp with the clock

    assert sent(channel, time.time()) == ""
    ((_, headers, body),) = place.received
    webhooks.Webhook(KEY).verify(body.decode(), headers)
    assert headers["webhook-id"] == "7-ops"
    assert json.loads(body) == {
        "id": "7-ops",
        "kind": "failed",
        "run": "r1",
        "title": "A run has failed: nightly",
        "text": "asterism show r1",
        "at": 100.0,
    }
    with pytest.raises(webhooks.WebhookVerificationError):
        webhooks.Webhook(KEY).verify(body.decode().replace("r1", "r2"), headers)


@pytest.mark.parametrize(("status", "problem"), [(500, "it answered with status 500"), (302, "it answered with status 302")])
def test_a_webhook_that_refuses_or_redirects_is_an_error(place: PostServer, status: int, problem: str) -> None:
    pytest.importorskip("standardwebhooks")
    place.status = status
    assert sent(Channel(name="ops", url=f"http://127.0.0.1:{place.port}/hook", signing_key=KEY)) == problem
    assert len(place.received) == 1


def test_the_body_of_an_answer_is_not_read(place: PostServer) -> None:
    pytest.importorskip("standardwebhooks")
    place.length = 1 << 40
    assert sent(Channel(name="ops", url=f"http://127.0.0.1:{place.port}/hook", signing_key=KEY)) == ""


def test_an_error_of_a_library_ends_no_server() -> None:
    pytest.importorskip("standardwebhooks")
    assert "it cannot be sent" in sent(Channel(name="ops", url="http://127.0.0.1:99999/", signing_key=KEY))


def test_an_error_says_nothing_of_the_url(place: PostServer) -> None:
    pytest.importorskip("apprise")
    place.server.server_close()
    for channel in (
        Channel(name="ops", url="json://user:hidden-word@127.0.0.1:1/hook"),
        Channel(name="ops", url="http://127.0.0.1:1/hidden-word", signing_key=KEY),
    ):
        problem = sent(channel)
        assert "cannot be reached" in problem
        assert "hidden-word" not in problem


@pytest.mark.parametrize(
    ("channel", "problem"),
    [
        (Channel(name="ops", url="nonsense"), "Apprise knows no such URL"),
        (Channel(name="ops", url="nosuch://x"), "Apprise knows no such URL (nosuch)"),
        (Channel(name="ops", url="json://${secret.OTHER}"), "secret OTHER is not set"),
        (Channel(name="ops", url="ftp://x", signing_key=KEY), "a webhook's URL begins with https:// or http://"),
        (Channel(name="ops", url="https://x", signing_key="whsec_%%%"), "signing_key is no key"),
        (Channel(name="ops", url="https://x:port/", signing_key=KEY), "its URL is invalid"),
        (Channel(name="ops", url="https://x/\n", signing_key=KEY), "its URL is invalid"),
        (Channel(name="ops", url="https://[::1/", signing_key=KEY), "its URL is invalid"),
        (Channel(name="ops", url="https:///hook", signing_key=KEY), "its URL is invalid"),
    ],
)
def test_a_channel_that_cannot_be_used_is_refused(channel: Channel, problem: str) -> None:
    pytest.importorskip("apprise")
    with pytest.raises(InvalidInput) as refused:
        check_channel(channel, secret)
    assert problem in str(refused.value)
    assert problem in sent(channel)


RECIPES = (Path(__file__).parents[4] / "docs/guides/notifications.md").read_text(encoding="utf-8")
VALUES = {
    "MAIL_PASSWORD": "p%40ss",
    "SLACK_URL": "https://hooks.slack.com/services/T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ",
    "TEAMS_URL": "https://prod-15.uksouth.logic.azure.com:443/workflows/3XXX5/triggers/manual/paths/invoke?api-version=2016-06-01&sig=iX",
    "NIGHT_SHIFT_URL": "ntfys://ntfy.sh/night-8x2k",
    "NTFY_TOPIC": "asterism-8x2k",
    "WEBHOOK_KEY": KEY,
}


@pytest.mark.parametrize("recipe", re.findall(r"```toml\n(.*?)```", RECIPES, re.DOTALL))
def test_each_recipe_is_a_channel_that_can_be_used(recipe: str) -> None:
    pytest.importorskip("apprise")
    (channel,) = msgspec.convert(tomllib.loads(recipe)["notify"], list[Channel])
    check_channel(channel, VALUES.__getitem__)


def test_a_service_that_answers_for_ever_keeps_no_process_from_its_end() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        program = f"""
            import asyncio
            from asterism.service.notifications import sending
            from asterism.service.notifications.message import NoticeMessage
            from asterism.engine.ports.notices import Channel
            sending.SENDING_S = 0.2
            channel = Channel(name="c", url="json://127.0.0.1:{silent.getsockname()[1]}/?rto=3600&cto=3600")
            message = NoticeMessage(id="1", kind="failed", title="t", text="x", link="", at=0.0)
            print(asyncio.run(sending.send(channel, message, str, 0.0)))
        """
        done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=False, timeout=120)
    assert (done.stdout, done.returncode) == ("no answer within 0 s\n", 0), done.stderr
