"""What tasks have printed, over real HTTP."""

from __future__ import annotations

from pathlib import Path

from asterism.engine.ports.logs import LogChunk, Stream
from tests.support.api_server import Server, plan
from tests.unit.service.test_resources import play


def printed(run: str, task: str, data: bytes, *, number: int = 1, stream: Stream = "stdout", skipped: int = 0) -> LogChunk:
    key = f"{run}:{task}.{number}"
    return LogChunk(run_id=run, key=key, task=task, number=number, stream=stream, at=1.0, data=data, skipped=skipped)


async def submitted(server: Server) -> str:
    """Submit a run and let its tasks print; return its id."""
    http = await server.client("operator")
    run = str((await http.post("/api/runs", json={"plan": plan("a", "b")})).json()["run_id"])
    output = [
        printed(run, "a", b"one\n"),
        printed(run, "b", b"other\n"),
        printed(run, "a", b"\x1b[31mtwo\x1b[0m\n", number=2, skipped=7),
        printed(run, "a", "é\n".encode(), number=2, stream="stderr"),
    ]
    await server.store.add_logs(output)
    return run


def test_the_output_of_a_task_is_read_by_attempt_and_from_its_end(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        run = await submitted(server)
        http = await server.client("viewer")

        async def texts(**query: str | int) -> list[str]:
            answer = (await http.get(f"/api/runs/{run}/logs", params=query)).raise_for_status().json()
            return [it["text"] for it in answer["chunks"]]

        assert await texts(task="a", attempt=1) == ["one\n"]
        assert await texts(task="a", tail=2) == ["é\n"]
        assert await texts(task="a", tail=1000, limit=2) == ["\x1b[31mtwo\x1b[0m\n", "é\n"]
        answer = (await http.get(f"/api/runs/{run}/logs", params={"task": "a", "attempt": 2, "below": False})).json()
        assert [(it["effect"], it["stream"], it["position"], it["size"]) for it in answer["chunks"]] == [
            (f"{run}:a.2", "stdout", 7, 13),
            (f"{run}:a.2", "stderr", 0, 3),
        ]
        assert await texts(task="a", tail=1000, after=answer["next"]) == []
        assert (await http.get(f"/api/runs/{run}/logs", params={"tail": -1})).status_code == 422

    play(tmp_path, scenario, drives=False)


def test_the_whole_output_is_downloaded_as_a_text_that_names_its_gaps(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        run = await submitted(server)
        http = await server.client("viewer")
        answer = await http.get(f"/api/runs/{run}/logs.txt", params={"task": "a"})
        assert answer.content == "one\n\n… 7 bytes left out …\n\x1b[31mtwo\x1b[0m\né\n".encode()
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"
        assert answer.headers["content-disposition"] == f"attachment; filename*=UTF-8''{run}-a.log"
        hostile = await http.get(f"/api/runs/{run}/logs.txt", params={"task": '../"\r\nX: <b>', "attempt": 2})
        assert (hostile.content, hostile.headers["content-disposition"]) == (b"", "attachment; filename*=UTF-8''%22X%3A%20%3Cb%3E-2.log")

    play(tmp_path, scenario, drives=False)
