"""Every broken behaviour still applies to the code as it is; whether it is found costs minutes.

`python -m tests.broken` says that.
"""

from __future__ import annotations

import ast
import tomllib
from functools import cache
from pathlib import Path

from tests.broken.behaviours import BEHAVIOURS, ROOT


@cache
def named_in(file: str) -> frozenset[str]:
    tree = ast.parse((ROOT / file).read_text("utf-8"))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    named = {node.name for node in tree.body if isinstance(node, functions)}
    assigned = {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    return frozenset(named | assigned)


def test_a_broken_behaviour_applies_to_the_code_as_it_is() -> None:
    """Each edit finds its text once, changes it, and leaves a file that can be read."""
    for broken in BEHAVIOURS:
        texts: dict[str, str] = {}
        for edit in broken.edits:
            text = texts.get(edit.file) or (ROOT / edit.file).read_text("utf-8")
            texts[edit.file] = edit.applied_to(text)
        for file, text in texts.items():
            match Path(file).suffix:
                case ".py":
                    ast.parse(text)
                case ".toml":
                    tomllib.loads(text)


def test_the_tests_of_a_broken_behaviour_exist() -> None:
    """Each is a file of tests, or names a test in one; its promise is a sentence."""
    for broken in BEHAVIOURS:
        assert broken.tests, broken.name
        assert broken.promise.endswith("."), broken.name
        for test in broken.tests:
            file, _, name = test.partition("::")
            assert (ROOT / file).is_file(), test
            assert not name or name.partition("[")[0] in named_in(file), test
