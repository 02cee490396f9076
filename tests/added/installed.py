"""The round of another package's check, from its quote to the erasure of who was asked about.

`test_added_check` runs it in a process in which the example is installed.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from nightscreen.config.settings import read_settings
from nightscreen.journal import open_journal
from nightscreen.journal.verify import verify_journal
from nightscreen.privacy.erasure import ErasureTarget, erase, find_person_data
from nightscreen.privacy.lookup_subject import lookup_subject
from nightscreen.privacy.subject_access import gather
from tests.added.phone_world import CHECKS, POLICY, PhoneWorld, borrowers, lines, phone
from tests.desk.office import Office
from tests.left_behind import everything

if TYPE_CHECKING:
    from tests.screening import Night

FOLDER = Path(os.environ["LENDER"])
DECISIONS = {"verified": "approve", "mismatch": "review", "not_found": "undecided"}
OPTIONS: dict[str, Any] = {"checks": CHECKS, "policy": POLICY, "batch": "phones"}


@dataclass(frozen=True)
class Round:
    """Three nights of twenty customers with a phone each; before the third one line moved.

    Attributes:
        asked: how many phones had been asked about at the end of each night.
    """

    world: PhoneWorld
    quoted: dict[str, Any]
    first: Night
    second: Night
    third: Night
    asked: list[int]


@pytest.fixture(scope="module")
def made() -> Round:
    """Make the round once, in the folder that `test_added_check` names."""
    world, asked = PhoneWorld(FOLDER), list[int]()
    quoted = world.screen(borrowers(20), quote_only=True, **OPTIONS).report
    assert world.phones.asked == []

    def screened(**more: Any) -> Night:  # noqa: ANN401 - parameters of a run
        night = world.screen(borrowers(20), **OPTIONS, **more)
        asked.append(len(world.phones.asked))
        return night

    first, second = screened(), screened()
    world.phones.lines[phone(1)] = ('Adaeze "Ada" Okonkwo', "landline")
    third = screened(freshness=["phone_owner.found=0"])
    return Round(world, quoted, first, second, third, asked)


def test_it_is_quoted_asked_paid_and_decided(made: Round) -> None:
    """Each lookup is asked once, at its price; a policy's rule reads its status."""
    assert Decimal(made.quoted["quoted"]["high"]) >= 200
    night, asked = made.first, made.world.phones.asked[: made.asked[0]]
    assert sorted(asked) == [phone(each) for each in range(1, 21)]
    part = night.report["checks"]["phone_owner"]
    assert (part["paid"], part["free"], part["distinct"]) == (18, 2, 20)
    assert Decimal(part["cost"]) == 180
    for row in night.rows:
        number = int(row["customer_id"][1:])
        status = "mismatch" if number % 5 == 0 else "verified" if number % 7 else "not_found"
        assert row["phone_owner_status"] == status
        assert (row["phone_owner_line_type"] == "mobile") == (status != "not_found")
        assert ("PHONE_NOT_THEIRS" in row["reasons"]) == (status == "mismatch")
        assert row["decision"] == DECISIONS[status]
    assert part["answers"] == {"verified": 14, "mismatch": 4, "not_found": 2}
    page = (night.folder / "report.html").read_text("utf-8")
    assert "Phone owner" in page


def test_it_is_reused_and_ages(made: Round) -> None:
    """A second night asks nothing; an age of the run's own asks again what was found."""
    assert made.asked == [20, 20, 38]
    assert set(made.second.column("phone_owner_source")) == {"reused"}


def test_a_changed_holder_is_reported_and_never_named(made: Round) -> None:
    """The name is compared from night to night as a digest: no file without names has it."""
    night = made.third
    changes = pq.read_table(night.folder / "changes.parquet").to_pylist()
    changed = {each["field"]: (each["old"], each["new"]) for each in changes}
    assert changed["phone_owner_status"] == ("verified", "mismatch")
    assert changed["phone_owner_line_type"] == ("mobile", "landline")
    assert "phone_owner_name" in changed
    for name in ("changes.parquet", "report.json", "calls.parquet", "report.html"):
        held = (night.folder / name).read_bytes()
        assert b"Okonkwo" not in held, name
    assert "Okonkwo" not in json.dumps(changes, default=str)


@pytest.mark.usefixtures("made")
def test_the_desk_shows_it_and_its_subject_sees_it() -> None:
    """A card at the desk; somebody else's name is withheld from the customer."""
    with Office(FOLDER) as office:
        analyst = office.browser("analyst")
        own, other = analyst.get("/customers/C2").text, analyst.get("/customers/C5").text
        assert "Phone owner" in own
        assert lines(20)[phone(2)][0] in own
        assert "registered to somebody else" in other
        assert 'value="phone_owner"' in analyst.get("/new").text
    settings = read_settings(_env_file=None, base_url="http://127.0.0.1:1")
    with open_journal(FOLDER / "home") as journal:
        for customer_id, number, shown in (("C2", 2, True), ("C5", 5, False)):
            people = lookup_subject(journal, customer_id)
            text = json.dumps(gather(journal, people, settings.retention), default=str)
            assert (lines(20)[phone(number)][0] in text) == shown, customer_id
            assert "phone_owner" in text


@pytest.mark.usefixtures("made")
def test_who_is_erased_is_gone() -> None:
    """Neither the number nor its pseudonym stays in any file."""
    with open_journal(FOLDER / "home") as journal:
        found = find_person_data(journal, ErasureTarget(customer_id="C3"))
        pseudonyms = found.pseudonyms().all
        done = erase(journal, found)
        assert (done["calls"], done["answers"]) == (3, 3)
        assert verify_journal(journal) == []
    wanted = [b"8030000003", *pseudonyms, *(each.hex().encode() for each in pseudonyms)]
    for path, held in everything(FOLDER):
        assert not [needle for needle in wanted if needle in held], path
