"""`nightscreen desk` as a user starts it: what it prints, that it answers, that it stops."""

from __future__ import annotations

import asyncio
import socket
import subprocess
from typing import TYPE_CHECKING

import httpx
import pytest
import uvicorn

from nightscreen.portal.middleware import BODY_S
from nightscreen.portal.server import UploadProtocol
from tests.cli.command import COMMAND, nightscreen, surroundings

if TYPE_CHECKING:
    from pathlib import Path

    from starlette.types import Receive, Scope, Send


def test_desk_prints_the_first_link_and_users_are_added_by_command(tmp_path: Path) -> None:
    """The link on stdout opens the form; a user added meanwhile stands in list and audit."""
    env = surroundings(tmp_path, NIGHTSCREEN_HOME=str(tmp_path / "home"))
    with (tmp_path / "log").open("wb") as log:
        child = subprocess.Popen(
            [COMMAND, "desk", "--port", "0"],
            cwd=tmp_path,
            env=env,
            stdout=subprocess.PIPE,
            stderr=log,
        )
    try:
        assert child.stdout is not None
        says = child.stdout.readline().decode().strip()
        assert says.startswith("desk listening on http://127.0.0.1:"), says
        first = child.stdout.readline().decode().strip().removeprefix("first user: ")
        assert httpx.get(first).status_code == 200
        answer = httpx.get(first.partition("/first")[0] + "/")
        assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in")
        added = nightscreen(
            *("desk", "user", "add", "ada", "--role", "analyst", "--json"), cwd=tmp_path, env=env
        )
        assert added.status == 0, added.err
        assert "/first?token=" in added.document["link"]
        audit = nightscreen("desk", "audit", "--json", cwd=tmp_path, env=env)
        assert [each["action"] for each in audit.document["entries"]] == ["user added"]
    finally:
        child.terminate()
        status = child.wait(20)
        if child.stdout is not None:
            child.stdout.close()
    assert status == 0


async def test_slow_upload_is_taken_and_a_drip_without_end_is_cut_off() -> None:
    """A file has longer than a form to arrive, but not for ever."""
    taken: list[int] = []

    class Hasty(UploadProtocol):
        within_s = 0.2

    class Endless(Hasty):
        body_within_s = 0.4

    async def answer(_scope: Scope, receive: Receive, send: Send) -> None:
        size, message = 0, await receive()
        while message.get("more_body"):
            size += len(message["body"])
            message = await receive()
        if message["type"] == "http.request":
            taken.append(size + len(message["body"]))
            await send({"type": "http.response.start", "status": 204, "headers": []})
            await send({"type": "http.response.body", "body": b""})

    head = b"POST /new HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\n\r\na"
    for protocol, rest, comes in ((Hasty, b"bc", True), (Endless, b"", False)):
        config = uvicorn.Config(answer, http=protocol, ws="none", lifespan="off", log_config=None)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            server = uvicorn.Server(config)
            serving = asyncio.ensure_future(server.serve(sockets=[listener]))
            reader, writer = await asyncio.open_connection(*listener.getsockname())
            writer.write(head)
            await writer.drain()
            await asyncio.sleep(0.5)
            writer.write(rest)
            assert (b"204" in await reader.readline()) is comes
            writer.close()
            server.should_exit = True
            await serving
    assert taken == [3]
    assert UploadProtocol.body_within_s == BODY_S
    assert UploadProtocol.within_s < BODY_S


@pytest.mark.long
def test_desk_that_others_reach_warns(tmp_path: Path) -> None:
    """Without a proxy that brings https, passwords would cross the network in clear."""
    with socket.create_server(("0.0.0.0", 0)) as taken:  # noqa: S104 - so that it ends at once
        port = str(taken.getsockname()[1])
        done = nightscreen(
            *("desk", "--host", "0.0.0.0", "--port", port),  # noqa: S104 - the address in question
            cwd=tmp_path,
            env=surroundings(tmp_path, NIGHTSCREEN_HOME=str(tmp_path / "home")),
        )
    assert done.status == 2
    assert "the desk does not serve https" in done.err
