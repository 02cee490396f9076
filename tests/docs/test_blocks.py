"""Every other block of README and docs: Python runs, TOML and SQL are read by what reads them."""

from __future__ import annotations

import ast
import inspect
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from nightscreen.client.api import Client
from nightscreen.client.response_parser import parse_answer
from nightscreen.client.response_rules import load_response_rules
from nightscreen.client.wire import lookup_request
from nightscreen.config.settings import read_settings
from nightscreen.policy.declarations import read_declarations
from nightscreen.policy.load import check_policy
from nightscreen.reading.mapping_file import read_mapping
from nightscreen.sandbox.process import SandboxProcess
from nightscreen.schemas.checks import IdentityKind, Lookup, Operation
from tests.docs.blocks import Block, blocks, others
from tests.docs.pages import ROOT
from tests.screening import CONSENT, World, customer

if TYPE_CHECKING:
    from collections.abc import Iterator

BLOCKS = list(blocks())
LANGUAGES = {"sh", "console", "python", "toml", "sql", "text", ""}
RUN_ELSEWHERE = {
    "docs/add-a-check.md": "tests/added/test_added_check.py",
    "docs/analyse.md": "tests/docs/test_analyse.py",
    "docs/transactions.md": "tests/steps/test_pulling_guide.py",
}
"""Python and TOML that tests of their own read, with what they need."""
SOMEBODY, LISTED = "ada@example.ng", "listed@magic.example"
"""A person of the pages, and whom the simulator has on its blacklist in their place."""
WRONG_ADDRESS = '[[rules]]\nname = "wrong address'
"""The rule above which the page says that a new one is placed."""
OF_A_SERVER = "it needs a Prefect server and worker: tests/flows/test_deployments.py"
NOT_RUN = {
    "make": "the checks themselves, or the demo; that there is such a target is tested here",
    "prefect": OF_A_SERVER,
    'python -c "import os; from prefect': OF_A_SERVER,
    "read -rs": "it waits for a key to be typed",
    "editor": "it opens an editor",
    "pip install ./examples": "tests/added/test_added_check.py installs it where nobody else looks",
    "xdg-open": "it opens a browser: tests/portal/test_browser.py goes the same way",
    "python -m nightscreen.sandbox": "it runs until it is stopped; the next lines run against one",
    "rm -r .nightscreen": "nothing is to be removed here",
    ". .venv": "the tests run in the environment that it enters",
}
"""Lines that are not run here, by how they begin, and why."""


def _of(language: str) -> list[Block]:
    apart = RUN_ELSEWHERE if language in ("python", "toml") else {}
    return [each for each in BLOCKS if each.language == language and each.page not in apart]


def _name(block: Block) -> str:
    return f"{block.page}:{block.line}"


@pytest.fixture(scope="module")
def sandbox() -> Iterator[SandboxProcess]:
    """The service."""
    with SandboxProcess() as sandbox:
        yield sandbox


def test_every_block_is_in_a_language_that_is_tried() -> None:
    """A new language wants a test of its own."""
    assert {each.language for each in BLOCKS} <= LANGUAGES


@pytest.mark.parametrize("block", _of("toml"), ids=_name)
def test_toml_is_read_by_what_reads_it(block: Block, tmp_path: Path) -> None:
    """A policy by the check of policies, a mapping by intake, manners by the client, and so on."""
    document = tomllib.loads(block.text)
    path = tmp_path / "block.toml"
    path.write_text(block.text, encoding="utf-8")
    if "columns" in document:
        assert read_mapping(path).columns
    elif "lawful_basis" in document:
        assert read_declarations(read_settings(declarations_file=path)).policy_decides_alone
    elif "effect" in document["rules"][0]:
        assert check_policy(block.text).issues == ()
    else:
        manners = (ROOT / "data" / "manners.toml").read_text(encoding="utf-8")
        path.write_text(manners.replace(WRONG_ADDRESS, block.text + WRONG_ADDRESS), "utf-8")
        assert load_response_rules(path)


@pytest.mark.parametrize("block", _of("sql"), ids=_name)
def test_sql_runs_on_a_run(block: Block, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it stands, in the folder where the results lie."""
    reference = {"consent_reference": "CNS-0000004"}
    world.screen([customer(number, **CONSENT) | reference for number in range(1, 5)])
    monkeypatch.chdir(world.folder)
    found = duckdb.sql(block.text)
    assert found is not None
    assert found.fetchall()


@pytest.mark.parametrize("block", _of("python"), ids=_name)
async def test_python_runs(block: Block, sandbox: SandboxProcess) -> None:
    """With the names that its page takes for known."""
    shown: list[tuple[Any, ...]] = []
    named: dict[str, Any] = {
        "print": lambda *values: shown.append(values),
        "run_something": lambda **_: None,
        "Client": Client,
        "Lookup": Lookup,
        "lookup_request": lookup_request,
        "parse_answer": parse_answer,
        "IdentityKind": IdentityKind,
        "Operation": Operation,
        "base_url": sandbox.url,
        "api_key": sandbox.api_key,
    }
    text = block.text.replace(SOMEBODY, LISTED)
    code = compile(text, block.page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    ended = eval(code, named)  # noqa: S307 - our own page
    if inspect.isawaitable(ended):
        await ended
    assert len(shown) == block.text.count("print(")


def _not_run(line: str) -> str | None:
    return next((why for start, why in NOT_RUN.items() if line.startswith(start)), None)


RUN = [(line, where) for line, where in others() if _not_run(line) is None]


@pytest.mark.parametrize(("line", "where"), RUN, ids=[where for _, where in RUN])
def test_a_shell_line_runs(line: str, where: str, tmp_path: Path, sandbox: SandboxProcess) -> None:
    """In the environment that pages take for entered, with the simulator's address for theirs."""
    if shutil.which(line.split(maxsplit=1)[0]) is None and line.startswith("curl"):
        pytest.skip("there is no curl on this machine")
    shutil.copy(ROOT / ".env.example", tmp_path)
    typed = re.sub(r"http://127\.0\.0\.1:(8800|8900)\b", sandbox.url, line)
    entered = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-euc", typed],
        cwd=tmp_path,
        env={**os.environ, "PATH": entered},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    if line.startswith("curl") and "CODE" not in line and "…" not in line:
        assert '"status":"error"' not in done.stdout


def test_make_has_every_target_that_is_named() -> None:
    """In README, CONTRIBUTING and docs."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = [line.split()[1] for line, _ in others() if line.startswith("make ")]
    assert named
    for target in named:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_every_exception_is_still_needed() -> None:
    """A line that is gone leaves no exception behind, and the tests named exist."""
    lines = [line for line, _ in others()]
    for start, why in NOT_RUN.items():
        assert any(line.startswith(start) for line in lines), start
        for name in re.findall(r"tests/[\w/.]+\w", why):
            assert (ROOT / name).exists(), name
    assert all((ROOT / name).exists() for name in RUN_ELSEWHERE.values())
