"""The page on adding a check shows the example as it is."""

from __future__ import annotations

import pytest

from tests.docs.pages import DOCS, ROOT


@pytest.mark.parametrize("name", ["phone_owner.py", "pyproject.toml", "policy.toml"])
def test_its_code_is_the_examples(name: str) -> None:
    """To the letter."""
    shown = (ROOT / "examples" / "phone_owner" / name).read_text("utf-8")
    assert shown in (DOCS / "add-a-check.md").read_text("utf-8")
