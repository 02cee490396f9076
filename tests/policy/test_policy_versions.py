"""Policies proposed by one person, approved by another, and the runs that decide by them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Final

import pytest

from nightscreen.config.settings import GROUNDS
from nightscreen.journal import Journal, open_journal
from nightscreen.journal.actor import Actor
from nightscreen.journal.erasure import Erasures
from nightscreen.policy.load import load_policy, parse, read_text, rewritten
from nightscreen.policy.versions import (
    decide_version,
    propose,
    read_policy,
    version_in_force,
    versions,
)
from nightscreen.schemas.contests import PolicyState
from nightscreen.schemas.errors import InputError, NotAllowedError, PolicyError
from tests.screening import CONSENT, World, customer

APPROVED: Final = PolicyState.APPROVED
REFUSED: Final = PolicyState.REFUSED
ROWS = [{**customer(number, **CONSENT), "exposure": "1000"} for number in range(1, 13)]
DAY = 86_400_000_000
SMALL = """
name = "small"
version = '1' # the first
thresholds = {most = 1_000, "version" = 2.50} # naira

[[rules]]
code = "BIG"
effect = "decline"
when = "exposure >= {most} * {version}"
team = "Owes {most} naira or more, and says most = 1_000."
customer = "You owe too much for now."

[[rules]]
code = "FINE"
effect = "approve"
when = "karma_status = 'clear'"
team = "Nothing speaks against it."
customer = "Approved."
"""


def changed(text: str, version: str, /, **thresholds: int) -> str:
    return rewritten(text, version, {name: Decimal(value) for name, value in thresholds.items()})


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with open_journal(tmp_path / "home") as journal:
        yield journal


def test_an_approved_version_is_in_force_for_runs_that_begin_after(tmp_path: Path) -> None:
    """Proposed it changes nothing; approved it decides, signed off, unless a file is named.

    A file is approved by its rules: a report says so, or that nobody did; a setting then refuses
    it, as it refuses other rules under an approved name. One run is never decided by two policies:
    a resumed run keeps the one that it began with.
    """
    world = World(tmp_path)
    own = tmp_path / "own.toml"
    own.write_text(SMALL)
    with open_journal(tmp_path / "home") as journal:
        made = propose(journal, SMALL, by="Ada", note="smaller")
    before = world.screen(ROWS, batch="b", max_spend="60")
    assert before.report["state"] == "stopped"
    assert before.report["provenance"]["policy"] == load_policy().label
    unapproved = world.screen(ROWS[:2], batch="b", policy=str(own))
    assert unapproved.report["provenance"]["policy"] == made.policy
    for night, shown in ((before, "default@"), (unapproved, "small@")):
        assert night.report["provenance"]["policy_approval"] is None
        said = f"Nobody has approved the policy {shown}"
        assert said in (night.folder / "report.html").read_text()
    world.settings = {"require_approved_policy": True}
    with pytest.raises(PolicyError, match="policy propose FILE --by NAME"):
        world.screen(ROWS[:2], policy=str(own))
    with open_journal(tmp_path / "home") as journal:
        decide_version(journal, Actor("Bem"), made.key, APPROVED)
    for named in ({}, {"policy": str(own)}):
        after = world.screen(ROWS[:2], batch="b", **named)
        signed = after.report["provenance"]["policy_approval"]
        assert (signed["written_by"], signed["approved_by"]) == ("Ada", "Bem")
        assert "approved by Bem" in (after.folder / "report.html").read_text()
        manifest = json.loads((after.folder / "manifest.json").read_text())
        assert manifest["policy"]["version"] == "1"
        assert manifest["policy"]["label"] == made.policy
        assert set(after.column("policy")) == {made.policy}
    own.write_text(SMALL.replace("1_000", "1_001"))
    with pytest.raises(PolicyError):
        world.screen(ROWS[:2], policy=str(own))
    world.settings = {}
    resumed = world.screen(ROWS, run=before.report["run_id"], max_spend="5000")
    assert resumed.report["state"] == "completed"
    assert resumed.report["provenance"]["policy"] == load_policy().label


def test_a_mistake_in_a_second_policy_is_told_before_anything_is_spent(tmp_path: Path) -> None:
    world, own = World(tmp_path), tmp_path / "own.toml"
    own.write_text(SMALL.replace("exposure >=", "exposur >="))
    with pytest.raises(PolicyError, match=r"own\.toml, line"):
        world.screen(ROWS[:2], shadow=str(own))
    assert not world.calls()


def test_nobody_approves_their_own_proposal(journal: Journal) -> None:
    """However they write their name; to take it back they may."""
    made = propose(journal, SMALL, by="Ada  Eze", note="smaller")
    with pytest.raises(NotAllowedError):
        decide_version(journal, Actor("ada eze"), made.key, APPROVED)
    assert version_in_force(journal, journal.clock()) is None
    assert decide_version(journal, Actor("Ada Eze"), made.key, REFUSED).state == REFUSED
    with pytest.raises(InputError, match="does not wait any more"):
        decide_version(journal, Actor("Bem"), made.key, APPROVED)


def test_a_proposal_is_approved_only_over_the_policy_it_was_made_for(journal: Journal) -> None:
    """Of two that replace the same policy one is approved, also by two people at once."""
    made = [
        propose(journal, changed(SMALL, version, most=most), by="Ada", note="try")
        for version, most in (("2", 2000), ("3", 3000))
    ]
    outcomes: list[str] = []

    def approve(key: str) -> None:
        try:
            outcomes.append(decide_version(journal, Actor("Bem"), key, APPROVED).state)
        except InputError as error:
            outcomes.append("proposed anew" if "in force by now" in str(error) else str(error))

    threads = [threading.Thread(target=approve, args=[each.key]) for each in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["approved", "proposed anew"]


@pytest.mark.parametrize(
    ("text", "seen", "words"),
    [
        (SMALL.replace("karma_status", "karma_statos"), "", "karma_status"),
        (changed(read_text(None), "2", stacking_loans=4), "", "another version"),
        (SMALL, "default@000000000000", "put in force meanwhile"),
        ("name = ", "", "no TOML"),
    ],
)
def test_what_cannot_be_put_in_force_cannot_be_proposed(
    journal: Journal, text: str, seen: str, words: str
) -> None:
    """A mistake, nothing changed, a version used twice, a form filled in over another policy."""
    with pytest.raises((InputError, PolicyError), match=words):
        propose(journal, text, by="Ada", note="because", seen=seen)
    assert versions(journal) == []


def test_the_policy_in_force_outlives_every_period(journal: Journal) -> None:
    """A purge takes refused proposals; what runs decide by stays, however old it is."""
    refused = propose(journal, changed(SMALL, "0", most=1), by="Ada", note="no")
    decide_version(journal, Actor("Bem"), refused.key, REFUSED)
    made = propose(journal, SMALL, by="Ada", note="as the committee wants it")
    approved = decide_version(journal, Actor("Bem"), made.key, APPROVED, reason="minutes of May")
    never = dict.fromkeys(GROUNDS, journal.clock() + DAY)
    Erasures(journal).purge(never)
    assert versions(journal) == [approved]


def test_thresholds_are_replaced_where_they_stand() -> None:
    """Comments, order and every other word stay; what only looks like the threshold does too."""
    text = changed(SMALL, "2", most=1500, version=3)
    assert text == SMALL.replace("'1'", '"2"', 1).replace("{most = 1_000", "{most = 1500").replace(
        "2.50", "3"
    )
    assert changed(SMALL, "1", most=1000) == SMALL
    default = changed(read_text(None), "3", listing_naira=7500)
    assert "listing_naira = 7500       # least amount" in default
    before, after = parse(read_text(None)).document, parse(default).document
    assert after == {
        **before,
        "version": "3",
        "thresholds": {**before["thresholds"], "listing_naira": 7500},
    }
    assert read_policy(default).thresholds["listing_naira"] == 7500
