"""The round of another package's check, from its quote to the erasure of who was asked about.

`test_added_check` runs it in a process in which the example is installed.
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from nightscreen.config.settings import read_settings
from nightscreen.journal import open_journal
from nightscreen.journal.customers import Customers
from nightscreen.journal.verify import verify_journal
from nightscreen.privacy.erasure import erase, look
from nightscreen.privacy.lookup_subject import lookup_subject
from nightscreen.privacy.person import Whom
from nightscreen.privacy.subject_access import gather
from tests.added.phone_world import CHECKS, POLICY, PhoneWorld, borrowers, lines, phone
from tests.desk.office import Office
from tests.killed import is_killed
from tests.left_behind import everything

if TYPE_CHECKING:
    from pathlib import Path

    from tests.screening import Night

DECISIONS = {"verified": "approve", "mismatch": "review", "not_found": "undecided"}
OPTIONS: dict[str, Any] = {"checks": CHECKS, "policy": POLICY, "batch": "phones"}


def screened(world: PhoneWorld) -> Night:
    """Screen twenty customers once."""
    return world.screen(borrowers(20), **OPTIONS)


def test_it_is_quoted_asked_paid_and_decided(tmp_path: Path) -> None:
    """Each lookup is asked once, at its price; a policy's rule reads its status."""
    world = PhoneWorld(tmp_path)
    quoted = world.screen(borrowers(20), quote_only=True, **OPTIONS)
    assert world.phones.asked == []
    assert Decimal(quoted.report["quoted"]["high"]) >= 200
    night = screened(world)
    assert sorted(world.phones.asked) == [phone(each) for each in range(1, 21)]
    part = night.report["checks"]["phone_owner"]
    assert (part["paid"], part["free"], part["distinct"]) == (18, 2, 20)
    assert Decimal(part["cost"]) == world.phones.charged == 180
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


def test_it_is_reused_and_ages(tmp_path: Path) -> None:
    """A second night asks nothing; an age of the run's own asks again what was found."""
    world = PhoneWorld(tmp_path)
    screened(world)
    second = screened(world)
    assert len(world.phones.asked) == 20
    assert set(second.column("phone_owner_source")) == {"reused"}
    world.screen(borrowers(20), **OPTIONS, freshness=["phone_owner.found=0"])
    assert len(world.phones.asked) == 38


def test_a_killed_night_is_resumed(tmp_path: Path) -> None:
    """What was answered before the kill is not asked again; every naira is accounted for."""
    world = PhoneWorld(tmp_path)
    world.write(borrowers(20))
    file = str(tmp_path / "customers.csv")
    assert is_killed(world, lambda: world.screen(input=file, **OPTIONS), at_call=25)
    with open_journal(tmp_path / "home") as journal:
        (run,) = journal.runs.newest()
    night = world.screen(run=run.run_id)
    assert night.report["state"] == "completed"
    statuses = night.column("phone_owner_status")
    assert set(statuses) == {"verified", "mismatch", "not_found"}
    with open_journal(tmp_path / "home") as journal:
        assert verify_journal(journal) == []


def test_a_changed_holder_is_reported_and_never_named(tmp_path: Path) -> None:
    """The name is compared from night to night as a digest: no file without names has it."""
    world = PhoneWorld(tmp_path)
    screened(world)
    world.phones.lines[phone(1)] = ('Adaeze "Ada" Okonkwo', "landline")
    night = world.screen(borrowers(20), **OPTIONS, freshness=["phone_owner.found=0"])
    changes = pq.read_table(night.folder / "changes.parquet").to_pylist()
    changed = {each["field"]: (each["old"], each["new"]) for each in changes}
    assert changed["phone_owner_status"] == ("verified", "mismatch")
    assert changed["phone_owner_line_type"] == ("mobile", "landline")
    assert "phone_owner_name" in changed
    for name in ("changes.parquet", "report.json", "calls.parquet", "report.html"):
        held = (night.folder / name).read_bytes()
        assert b"Okonkwo" not in held, name
    assert "Okonkwo" not in json.dumps(changes, default=str)


def test_the_desk_shows_it_and_its_subject_sees_it(tmp_path: Path) -> None:
    """A card at the desk; somebody else's name is withheld from the customer."""
    world = PhoneWorld(tmp_path)
    screened(world)
    with Office(tmp_path) as office:
        analyst = office.browser("analyst")
        own, other = analyst.get("/customers/C1").text, analyst.get("/customers/C5").text
        assert "Phone owner" in own
        assert lines(20)[phone(1)][0] in own
        assert "registered to somebody else" in other
        assert 'value="phone_owner"' in analyst.get("/new").text
    settings = read_settings(_env_file=None, base_url="http://127.0.0.1:1")
    with open_journal(tmp_path / "home") as journal:
        for customer_id, number, shown in (("C1", 1, True), ("C5", 5, False)):
            customers = Customers.of(journal)
            people = lookup_subject(journal, customers, customer_id)
            text = json.dumps(gather(journal, customers, people, settings.retention), default=str)
            assert (lines(20)[phone(number)][0] in text) == shown, customer_id
            assert "phone_owner" in text


def test_who_is_erased_is_gone(tmp_path: Path) -> None:
    """Neither the number nor its pseudonym stays in any file."""
    world = PhoneWorld(tmp_path)
    screened(world)
    with open_journal(tmp_path / "home") as journal:
        found = look(journal, Customers.of(journal), Whom(customer_id="C3"))
        pseudonyms = found.person.pseudonyms().all
        done = erase(journal, found)
        assert (done["calls"], done["answers"]) == (2, 2)
        assert verify_journal(journal) == []
    wanted = [b"8030000003", *pseudonyms, *(each.hex().encode() for each in pseudonyms)]
    for path, held in everything(tmp_path):
        assert not [needle for needle in wanted if needle in held], path
