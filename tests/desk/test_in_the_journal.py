"""What the desk keeps: for two desks, beside a run, and under a new key."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import event

from nightscreen.desk.context import WRITE_WAIT_S
from nightscreen.files.sealed_file import unsealed
from nightscreen.journal import open_journal
from nightscreen.journal.audit import Audit, AuditQuery
from nightscreen.journal.keyset import encode_key, rotate_key
from nightscreen.journal.records import Records
from nightscreen.journal.verify import verify_journal
from nightscreen.schemas.cases import OpenCase
from nightscreen.schemas.errors import InputError
from tests.desk.office import PASSWORD, Office
from tests.desk.test_new_file import bring


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def two_desks(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Office, Office]]:
    """Give two desks over one journal, on PostgreSQL as on two machines with a HOME each."""
    if request.param == "sqlite":
        folders, changes = (tmp_path, tmp_path), {}
    else:
        folders = (tmp_path / "one", tmp_path / "two")
        url = str(request.getfixturevalue("schema_url"))
        changes = {"journal_url": url, "data_key": encode_key(b"k" * 32)}
    with Office(folders[0], changes=changes) as one, Office(folders[1], changes=changes) as two:
        yield one, two


def test_two_desks_over_one_journal_are_one_desk(two_desks: tuple[Office, Office]) -> None:
    one, two = two_desks
    ada = one.browser("administrator", "analyst", name="Ada")
    there = two.browser()
    there.cookies |= ada.cookies
    assert there.get("/users").status_code == 200
    key = one.journal.pseudonyms.customer("borrowers", "C1")
    about = {"key": key.hex(), "customer": key, "batch": "borrowers", "customer_id": "C1"}
    said = {"decision": "review", "reasons": (), "policy": "p@1", "purpose": "portfolio"}
    case = OpenCase(at=one.clock(), statuses={}, place=1, **about, **said)
    Records(one.journal, OpenCase).add([case])
    two.context.cases.take("borrowers", "C1", "Ada")
    with pytest.raises(InputError):
        one.context.cases.take("borrowers", "C1", "Bem")
    ada.post("/users", do="add", name="Bem", role="analyst")
    assert "Bem" in there.get("/users").text
    for desk in (one, two, one, two, one):
        desk.browser().post("/sign-in", name="ada", password="wrong one")
    assert two.browser().post("/sign-in", name="ada", password=PASSWORD).status_code == 429
    for desk in (one, two, one):
        desk.context.audit.write("Ada", "customer seen", customer_id="C1")
    assert one.actions() == two.actions()
    assert verify_journal(one.journal) == []
    assert ada.post("/sign-out", page="/").status_code == 303
    assert there.get("/users").status_code == 303


def test_looking_writes_nothing_but_the_audit(office: Office) -> None:
    """However often and however long somebody looks: the journal's one writer is the run's."""
    ada = office.browser("auditor", name="Ada")
    writes: list[str] = []

    def note(*given: object) -> None:
        if given[2] == "BEGIN IMMEDIATE":
            writes.append(str(given[2]))

    event.listen(office.journal.database.engine, "before_cursor_execute", note)
    for address, number in (("/", 0), ("/runs", 0), ("/audit", 0), ("/money", 0), ("/contests", 1)):
        office.clock.forward(minutes=2)
        ada.get(address)
        assert len(writes) == number, address


def test_write_waits_for_a_busy_journal_a_second_and_says_so(tmp_path: Path) -> None:
    with Office(tmp_path, busy_timeout_s=WRITE_WAIT_S) as office:
        admin = office.browser("administrator", name="Ada")
        office.clock.forward(minutes=2)
        admin.get("/users")
        office.clock.forward(minutes=2)
        fields = {"do": "add", "name": "Bem", "role": "analyst"}
        with closing(sqlite3.connect(tmp_path / "home" / "journal.sqlite")) as other:
            other.execute("BEGIN IMMEDIATE")
            assert admin.get("/users").status_code == 200
            began = time.monotonic()
            answer = admin.ask("POST", "/users", data=fields)
            assert time.monotonic() - began < 10 * WRITE_WAIT_S
        assert answer.status_code == 503
        assert "The journal is busy, and nothing was saved." in answer.text
        assert [each.name for each in office.context.accounts.users()] == ["Ada"]


def test_desk_that_stays_open_over_a_rotation_goes_on(office: Office) -> None:
    """Another process rotates the key: the desk reads what is sealed since, and all can read it."""
    ada = office.browser("analyst", name="Ada")
    ada.get("/new")
    with open_journal(office.folder / "home") as other:
        rotate_key(other)
    with open_journal(office.folder / "home") as other:
        Audit(other).write("Bola", "customer seen", customer_id="C7")
    assert [each["user"] for each in office.context.audit.find(AuditQuery(customer_id="C7"))] == [
        "Bola"
    ]
    data = b"customer_id,bvn\nK-1,22000000001\n"
    bring(ada, data, "a.csv")
    office.context.audit.write("Ada", "customer seen", customer_id="C8")
    (file,) = (office.folder / "home" / "desk").glob("*.sealed")
    with open_journal(office.folder / "home") as journal:
        audit = Audit(journal)
        assert [each["customer_id"] for each in audit.find(AuditQuery(customer_id="C8"))] == ["C8"]
        with unsealed(file, journal.sealer) as clear:
            assert clear.read_bytes() == data
