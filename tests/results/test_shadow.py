"""A second policy tried beside the one in force, and a policy that nobody approved."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nightscreen.journal import open_journal
from nightscreen.journal.actor import Actor
from nightscreen.policy.versions import decide_version, propose
from nightscreen.privacy.erasure import erase, find_person_data
from nightscreen.privacy.person import ErasureTarget
from nightscreen.schemas.contests import PolicyState
from nightscreen.schemas.errors import PolicyError
from tests.screening import CONSENT, World, customer

STRICT = """
name = "strict"
version = "2"

[[rules]]
code = "BIG"
effect = "decline"
when = "exposure >= 500"
team = "Too much is owed."
customer = "You owe too much for now."

[[rules]]
code = "FINE"
effect = "approve"
when = "karma_status = 'clear'"
team = "Nothing speaks against it."
customer = "Approved."
"""
ROWS = [{**customer(number, **CONSENT), "exposure": str(100 * number)} for number in range(1, 21)]


@pytest.fixture
def strict(tmp_path: Path) -> Path:
    """Return the file of a second policy."""
    path = tmp_path / "strict.toml"
    path.write_text(STRICT)
    return path


def test_an_erased_customer_leaves_the_file_of_a_second_policy(world: World, strict: Path) -> None:
    """The other lines stay as they are."""
    world.settings["shadow"] = strict
    night = world.screen(ROWS)
    path = night.folder / "shadow.csv"
    before = path.read_text("utf-8").splitlines()
    gone = before[1].partition(",")[0]
    with open_journal(world.folder / "home") as journal:
        erase(journal, find_person_data(journal, ErasureTarget(customer_id=gone.strip('"'))))
    after = path.read_text("utf-8").splitlines()
    assert after == [line for line in before if not line.startswith(f"{gone},")]


def test_a_mistake_in_the_second_policy_is_told_before_anything_is_spent(
    world: World, strict: Path
) -> None:
    """It is a policy like any other."""
    strict.write_text(STRICT.replace("exposure >=", "exposur >="))
    with pytest.raises(PolicyError, match=re.escape("strict.toml, line")):
        world.screen(ROWS[:2], shadow=str(strict))
    assert not world.calls()


def _approve(world: World, text: str) -> None:
    with open_journal(world.folder / "home", clock=world.clock) as journal:
        made = propose(journal, text, by="Ada Eze", note="")
        decide_version(journal, Actor("Ngozi Bello"), made.key, PolicyState.APPROVED)


def test_an_unapproved_policy_is_reported_and_refused_where_a_setting_says_so(
    world: World, strict: Path
) -> None:
    """An approval is of these very rules: other rules under the name are not approved."""
    night = world.screen(ROWS[:2], policy=str(strict))
    assert night.report["provenance"]["policy_approval"] is None
    assert "Nobody has approved the policy strict@" in (night.folder / "report.html").read_text()
    world.settings = {"require_approved_policy": True}
    with pytest.raises(PolicyError, match="policy propose FILE --by NAME"):
        world.screen(ROWS[:2], policy=str(strict))
    _approve(world, strict.read_text())
    approved = world.screen(ROWS[:2], policy=str(strict))
    found = approved.report["provenance"]["policy_approval"]
    assert (found["written_by"], found["approved_by"]) == ("Ada Eze", "Ngozi Bello")
    assert "approved by Ngozi Bello" in (approved.folder / "report.html").read_text()
    strict.write_text(STRICT.replace("500", "600"))
    with pytest.raises(PolicyError):
        world.screen(ROWS[:2], policy=str(strict))
