"""`nightscreen desk` as a user starts it: what it prints, that it answers, that it stops."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import httpx

from tests.cli.command import COMMAND, nightscreen, surroundings

if TYPE_CHECKING:
    from pathlib import Path


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
