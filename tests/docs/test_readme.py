"""The commands of README and quick start work; every command on any page exists."""

from __future__ import annotations

import ast
import re
import shlex
import tomllib
from pathlib import Path

import pytest

from nightscreen.sandbox.batch import make_batch
from nightscreen.sandbox.process import SandboxProcess
from tests.cli.command import nightscreen, surroundings
from tests.cli.conftest import Here
from tests.docs.blocks import blocks, commands, typed
from tests.docs.commands import walk
from tests.docs.pages import DOCS, ROOT
from tests.services import EngineServer

COMMANDS = dict(walk())
GROUPS = {" ".join(words.split()[:n]) for words in COMMANDS for n in range(1, len(words.split()))}
STARTED = ("README.md", "docs/quickstart.md")
SAMPLES = "data/samples/"
UNTIL_STOPPED = ("nightscreen sandbox", "nightscreen up", "nightscreen desk")
"""Commands that run until they are stopped: other tests cover them."""


def option_mistakes(command: str) -> list[str]:
    """Return the mistakes of a command line: an unknown command, or its unknown options."""
    words = shlex.split(command)[1:]
    path: list[str] = []
    while words and " ".join([*path, words[0]]) in COMMANDS.keys() | GROUPS:
        path.append(words.pop(0))
    found = COMMANDS.get(" ".join(path))
    if found is None:
        known = " ".join(path) in GROUPS or command.split()[1].startswith(("--", "COMMAND"))
        return [] if known else [f"no such command: {command}"]
    options = {name for each in found.params for name in each.opts} | {"--help", "-h"}
    given = [word.strip("[]").partition("=")[0] for word in words if re.match(r"\[?--", word)]
    return [name for name in given if name not in options]


def test_every_command_and_its_options_exist() -> None:
    """Also those in sentences; a misspelt one is detected."""
    wrong = {line: found for line in commands() if (found := option_mistakes(line))}
    assert not wrong, {line: commands()[line] for line in wrong}
    assert option_mistakes("nightscreen screen customers.csv --max-spent 5") == ["--max-spent"]
    assert option_mistakes("nightscreen scren customers.csv")


@pytest.mark.engine
@pytest.mark.xdist_group("docs")
def test_what_a_newcomer_types_works(
    tmp_path: Path, engine_server: EngineServer, here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each command of README and quick start succeeds against the simulator.

    What runs a flow is a process of its own; the others may start no engine.
    """
    make_batch(tmp_path / "customers.csv", rows=12, seed=1, damage_pct=0)
    lines = [line for block in blocks() if block.page in STARTED for line in typed(block)]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in (line.split()[1] for line in lines if line.startswith("make ")):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    ours = [line.replace(SAMPLES, "") for line in lines if line.startswith("nightscreen ")]
    assert any(line.startswith("nightscreen screen") for line in ours)
    with SandboxProcess() as sandbox:
        service = {"NIGHTSCREEN_BASE_URL": sandbox.url, "NIGHTSCREEN_API_KEY": sandbox.api_key}
        env = surroundings(tmp_path, **engine_server.client, **service)
        for name, value in service.items():
            monkeypatch.setenv(name, value)
        for line in dict.fromkeys(ours):
            if not line.startswith(UNTIL_STOPPED):
                words = shlex.split(line)[1:]
                is_flow = words[0] == "screen"
                ended = nightscreen(*words, cwd=tmp_path, env=env) if is_flow else here(*words)
                assert ended.status == 0, (line, ended.err)
        assert sandbox.totals()["totals"]["charges"]


def test_python_and_toml_of_every_page_can_be_read() -> None:
    """TOML blocks parse, and Python blocks compile."""
    for block in blocks():
        if block.language == "toml":
            assert tomllib.loads(block.text), block.page
        if block.language == "python":
            compile(block.text, block.page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def test_the_page_on_adding_a_check_shows_the_example() -> None:
    """Unchanged, character by character."""
    for name in ("phone_owner.py", "pyproject.toml", "policy.toml"):
        shown = (ROOT / "examples" / "phone_owner" / name).read_text("utf-8")
        assert shown in (DOCS / "add-a-check.md").read_text("utf-8"), name
