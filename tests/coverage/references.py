"""Names of things in the table of coverage, and finding out whether they are still there.

`package.module` and `package.module:name.part` are imported. The others say what they are first:
`setting:`, `rule:`, `switch:`, `route:`, `command:`, `column:`, `magic:`, `file:`.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from pydantic import BaseModel

from nightscreen.client.response_rules import load_response_rules
from nightscreen.sandbox import aggregator, loans, test_identifiers, validation
from nightscreen.sandbox.behaviour_flags import described
from nightscreen.schemas.enriched import enriched_schema
from nightscreen.schemas.settings import PREFIX, setting_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

ROOT = Path(__file__).parent.parent.parent
TESTS = ROOT / "tests"


@cache
def routes() -> dict[str, str]:
    """Return each route of the sandbox's service, and the name of its operation there."""
    tables = (
        validation.ROUTES,
        aggregator.AUTH_ROUTES,
        aggregator.DATA_ROUTES,
        loans.ROUTES,
    )
    return {
        f"{method} {path.replace(':path', '')}": operation.name
        for table in tables
        for path, operations in table.items()
        for method, operation in operations.items()
    }


@cache
def rules() -> tuple[str, ...]:
    """Return the names of the rules of `data/manners.toml`."""
    return tuple(rule.name for rule in load_response_rules().rules)


@cache
def switches() -> tuple[str, ...]:
    """Return the names of the sandbox's manners."""
    return tuple(name for name, _, _ in described())


@cache
def columns() -> tuple[str, ...]:
    """Return the names of the columns that a run adds."""
    return tuple(enriched_schema([]).names)


@cache
def magic_words() -> tuple[str, ...]:
    """Return the words that choose a person or a customer of the sandbox."""
    people = tuple(row.word for row in test_identifiers.TABLE)
    return people + tuple(row.word for row in test_identifiers.CUSTOMERS)


@cache
def commands() -> frozenset[str]:
    """Return every command, groups and their parts parted by a blank."""
    main = importlib.import_module("nightscreen.cli.main")
    return frozenset(_commands(typer.main.get_command(main.app), ()))


def _commands(command: object, before: tuple[str, ...]) -> Iterable[str]:
    parts = getattr(command, "commands", None)
    if parts is None:
        yield " ".join(before)
        return
    for name, part in parts.items():
        yield from _commands(part, (*before, name))


@cache
def tests_of(path: str) -> frozenset[str]:
    """Return the names of the test functions of a file below `tests/`."""
    file = TESTS / path
    if not file.is_file():
        return frozenset()
    tree = ast.parse(file.read_text("utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(
        each.name
        for each in ast.walk(tree)
        if isinstance(each, kinds) and each.name.startswith("test_")
    )


def test_is_there(node: str) -> bool:
    """Return whether a test, `folder/test_file.py::test_name`, is there."""
    path, _, name = node.partition("::")
    return name in tests_of(path)


test_is_there.__test__ = False  # type: ignore[attr-defined]  # no test, in spite of its name


def is_there(reference: str) -> bool:
    """Return whether what a reference names is still there."""
    kind, colon, name = reference.partition(":")
    if not colon or "." in kind:
        return _is_importable(reference)
    if kind == "file":
        return (ROOT / name).is_file()
    return name in _known(kind)


@cache
def _known(kind: str) -> frozenset[str]:
    """Return every name of a kind; none where there is no such kind."""
    lists: dict[str, Callable[[], Iterable[str]]] = {
        "setting": lambda: (each.removeprefix(PREFIX) for each in setting_names()),
        "magic": magic_words,
        "rule": rules,
        "switch": switches,
        "route": routes,
        "command": commands,
        "column": columns,
    }
    return frozenset(lists[kind]()) if kind in lists else frozenset()


def _is_importable(reference: str) -> bool:
    """Import a module, and follow the names in it."""
    module, _, names = reference.partition(":")
    try:
        found: object = importlib.import_module(module)
    except ModuleNotFoundError:
        return False
    for name in filter(None, names.split(".")):
        if hasattr(found, name):
            found = getattr(found, name)
        elif name in field_names(found):
            found = None
        else:
            return False
    return True


def field_names(kind: object) -> frozenset[str]:
    """Return the fields of a record, a model or a dataclass."""
    if not isinstance(kind, type):
        return frozenset()
    if issubclass(kind, BaseModel):
        return frozenset(kind.model_fields)
    if dataclasses.is_dataclass(kind):
        return frozenset(each.name for each in dataclasses.fields(kind))
    return frozenset()


def shown(reference: str) -> str:
    """Write a reference for the page."""
    kind, colon, name = reference.partition(":")
    words = {
        "setting": "setting",
        "rule": "rule",
        "switch": "sandbox switch",
        "route": "sandbox",
        "command": "command",
        "column": "column",
        "magic": "magic row",
        "file": "",
    }
    if not colon or "." in kind or kind not in words:
        return f"`{reference}`"
    written = f"{PREFIX}{name}" if kind == "setting" else name
    return f"{words[kind]} `{written}`".strip()
