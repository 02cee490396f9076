"""The generated pages are up to date, and every column, status and setting is explained."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nightscreen.config.settings import setting_names
from nightscreen.policy.load import load_policy
from tests.docs.columns import CHECKED, columns_page, schemas
from tests.docs.commands import EXAMPLE, walk
from tests.docs.pages import DOCS, meanings
from tests.docs.settings import sections, settings_page
from tests.docs.words import GROUPS, answered_words, reasons_page
from tests.docs.write import PAGES

COMMANDS = list(walk())


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_a_generated_page_is_what_the_code_says(path: Path) -> None:
    """If not: python -m tests.docs.write."""
    assert path.read_text(encoding="utf-8") == PAGES[path](), "run: python -m tests.docs.write"


def test_every_column_and_word_is_explained_and_nothing_else() -> None:
    """Columns, stops, states, statuses, failure reasons, kinds; no removed name is left."""
    for group in schemas():
        declared = CHECKED if group == "enriched" else {}
        assert {*meanings()[group], *declared} == set(schemas()[group][1].names), group
        assert declared.keys().isdisjoint(meanings()[group]), group
    for group in GROUPS:
        assert list(meanings()[group]) == list(GROUPS[group]), group
    assert {name.split()[1] for name in meanings()["answers"]} == answered_words()


def test_every_setting_and_reason_is_on_its_page() -> None:
    """Settings by their full names, each section with a text."""
    page = settings_page()
    assert all(f"| `{name}` |" in page for name in setting_names())
    assert all(len(words) > 20 for words, _ in sections())
    reasons = reasons_page()
    assert all(f"| `{rule.code}` | {rule.effect} |" in reasons for rule in load_policy().rules)
    assert "floating" not in columns_page()


def test_the_guide_to_policies_lists_every_rule_of_the_default_policy() -> None:
    """A row for each code and effect, in their order; further effects of a code are under it."""
    guide = (DOCS / "policy.md").read_text(encoding="utf-8")
    table = guide.partition("## The default policy")[2].partition("\n\nA listing")[0]
    listed: dict[str, list[str]] = {}
    for code, effect in re.findall(r"^\| (?:`(\w+)`)? ?\| (\w+) \|", table, re.MULTILINE):
        listed.setdefault(code or list(listed)[-1], []).append(effect)
    rules: dict[str, list[str]] = {}
    for rule in load_policy().rules:
        rules.setdefault(rule.code, []).append(rule.effect.value)
    assert list(listed.items()) == list(rules.items())


def test_every_command_explains_itself() -> None:
    """A sentence, an example, and a text for every argument and option."""
    for words, command in COMMANDS:
        help_, epilog = getattr(command, "help", ""), getattr(command, "epilog", "")
        assert help_, (words, command)
        assert epilog, (words, command)
        assert epilog.startswith(f"{EXAMPLE}nightscreen {words}"), (words, command)
        for each in getattr(command, "params", []):
            assert each.name == "help" or each.help, each.name
