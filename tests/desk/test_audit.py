"""The audit's chain: what is changed, removed or moved is named; erasure keeps it true."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nightscreen.journal import open_journal
from nightscreen.journal.audit import Audit, AuditQuery
from nightscreen.journal.copying import back_up, restore
from nightscreen.journal.keyset import rotate_key
from nightscreen.journal.verify import verify_journal
from nightscreen.privacy.erasure import ErasureTarget, erase, find_person_data
from nightscreen.schemas.clock import DAY_MICROS
from nightscreen.schemas.errors import JournalKeyError
from tests.desk.office import Office


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def office(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Office]:
    """A desk on each database whose audit has six entries: C1 to C6, seen by Ada."""
    url = "" if request.param == "sqlite" else str(request.getfixturevalue("schema_url"))
    with Office(tmp_path, changes={"journal_url": url}) as office:
        for number in range(1, 7):
            office.context.audit.write("Ada", "customer seen", customer_id=f"C{number}", run_id="R")
        yield office


def change(office: Office, *statements: str) -> None:
    """Change the journal behind the desk's back."""
    with office.journal.database.writing() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


_KEEP = "CREATE TABLE kept_{0} AS SELECT * FROM {0}"
_PUT_BACK = "DELETE FROM {0};INSERT INTO {0} SELECT * FROM kept_{0}"
_FROM_ENTRY_1 = "UPDATE audit SET {0} = (SELECT {0} FROM audit WHERE number = 1) WHERE number = 3"
_CUT_AND_SIGNED = (
    "DELETE FROM audit WHERE number = 6;"
    "UPDATE meta SET value = (SELECT value FROM meta WHERE name = 'link_keys') WHERE name = 'audit'"
)
_CHANGE_PLACES = (
    "UPDATE audit SET number = number - 7 WHERE number IN (3, 4);"
    "UPDATE audit SET number = -number WHERE number < 0"
)
_COPY_6_TO_7 = (
    "CREATE TABLE x AS SELECT * FROM audit WHERE number = 6;UPDATE x SET number = 7;"
    "INSERT INTO audit SELECT * FROM x;DROP TABLE x"
)
_CHANGED = "entry 3 of the desk's audit was changed or moved"
_ITS_CUSTOMER = "entry 3 of the desk's audit: its customer was changed"
_ENDS = "where the desk's audit begins and ends was changed or removed"
TAMPERED: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("UPDATE audit SET \"user\" = 'Bem' WHERE number = 3", (_CHANGED,)),
    ("UPDATE audit SET action = 'signed in' WHERE number = 3", (_CHANGED,)),
    ("UPDATE audit SET at = at + 1 WHERE number = 3", (_CHANGED,)),
    ("UPDATE audit SET detail = '{\"x\": 1}' WHERE number = 3", (_CHANGED,)),
    (_FROM_ENTRY_1.format("mark"), (_CHANGED, _CHANGED.replace("3", "4"))),
    (_FROM_ENTRY_1.format("customer"), (_ITS_CUSTOMER,)),
    (_FROM_ENTRY_1.format("sealed"), (_ITS_CUSTOMER,)),
    ("UPDATE audit SET customer = NULL, sealed = NULL WHERE number = 3", (_CHANGED,)),
    ("UPDATE audit SET customer = NULL WHERE number = 3", (_ITS_CUSTOMER,)),
    ("DELETE FROM audit WHERE number = 3", ("entry 3 of the desk's audit is missing",)),
    ("DELETE FROM audit WHERE number < 3", ("entries 1 to 2 of the desk's audit are missing",)),
    ("DELETE FROM audit WHERE number > 4", ("entries 5 to 6 of the desk's audit are missing",)),
    ("DELETE FROM audit", ("entries 1 to 6 of the desk's audit are missing",)),
    (
        _CHANGE_PLACES,
        tuple(_CHANGED.replace("3", str(number)) for number in (3, 4, 5)),
    ),
    (
        _COPY_6_TO_7,
        (_CHANGED.replace("3", "7"),),
    ),
    (_CUT_AND_SIGNED, (_ENDS,)),
    ("DELETE FROM meta WHERE name = 'audit'", (_ENDS,)),
)
"""What somebody does to the journal behind the desk's back, and what is said of it."""


def test_what_was_changed_is_noticed_and_named(office: Office) -> None:
    """One changed, removed or moved line is found, also after the desk has gone on writing."""
    change(office, *(_KEEP.format(each) for each in ("audit", "meta")))
    for statements, found in TAMPERED:
        assert verify_journal(office.journal) == []
        change(office, *statements.split(";"))
        assert verify_journal(office.journal) == [*found], statements
        office.context.audit.write("Ada", "signed in")
        assert verify_journal(office.journal) == [*found], statements
        for each in ("audit", "meta"):
            change(office, *_PUT_BACK.format(each).split(";"))


def test_erasure_keeps_the_chain_and_leaves_no_way_to_the_customer(office: Office) -> None:
    """Who looked and when stays, and verifies; neither id nor pseudonym, nor their digests do."""
    journal, find = office.journal, office.context.audit.find
    pseudonym = find(AuditQuery(customer_id="C3"))[0]["pseudonym"]
    person = find_person_data(journal, ErasureTarget(customer_id="C3"))
    assert person.held.entries == 1
    erase(journal, person)
    assert verify_journal(journal) == []
    assert find(AuditQuery(customer_id="C3")) == []
    seen = find(AuditQuery(action="customer seen"))
    assert [each["number"] for each in seen] == [6, 5, 4, 3, 2, 1]
    assert {each["user"] for each in seen} == {"Ada"}
    assert [each["customer_id"] for each in seen] == ["C6", "C5", "C4", "", "C2", "C1"]
    assert seen[3]["detail"]["customer"] == "erased"
    for file in (office.folder / "home").glob("journal.sqlite*"):
        assert not file.is_file() or bytes.fromhex(pseudonym) not in file.read_bytes()
    change(office, "UPDATE audit SET \"user\" = 'Bem' WHERE number = 3")
    assert verify_journal(journal) == [_CHANGED]


def test_chain_goes_on_after_purge_rotation_and_restore(office: Office, tmp_path: Path) -> None:
    """Old entries go from its beginning alone; a new data key and a backup leave it true."""
    office.clock.forward(days=10)
    office.context.audit.write("Ada", "customer seen", customer_id="C7")
    assert office.context.audit.drop_before(office.clock() - DAY_MICROS) == 6
    assert verify_journal(office.journal) == []
    rotate_key(office.journal)
    office.context.audit.write("Ada", "signed out")
    with pytest.raises(JournalKeyError, match="was rotated"):
        back_up(office.journal, tmp_path / "copy", passphrase="a walk by the lagoon")
    url = office.settings.journal_url
    with open_journal(office.folder / "home", url=url) as journal:
        back_up(journal, tmp_path / "copy", passphrase="a walk by the lagoon")
    restore(tmp_path / "copy", tmp_path / "new", passphrase="a walk by the lagoon")
    with open_journal(tmp_path / "new") as journal:
        assert [each["number"] for each in Audit(journal).find()] == [8, 7]
        assert verify_journal(journal) == []
    change(office, "DELETE FROM audit WHERE number = 7")
    assert verify_journal(office.journal) == ["entry 7 of the desk's audit is missing"]
