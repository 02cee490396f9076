"""The audit's chain: what is changed, removed or moved is named; erasure keeps it true."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from nightscreen.cli import erase
from nightscreen.cli.main import app
from nightscreen.desk.accounts import Accounts
from nightscreen.desk.audit import Audit, forget_at_desk, write_by_command
from nightscreen.files.person import user_name
from nightscreen.journal import open_journal
from nightscreen.journal.audit_chain import broken_audit, forget_audit
from nightscreen.journal.copying import back_up, restore
from nightscreen.journal.desk_file import DESK_FILE
from nightscreen.journal.keyset import rotate_key
from nightscreen.schemas.clock import DAY_MICROS
from nightscreen.schemas.errors import JournalKeyError
from tests.desk.office import Office

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    """A desk whose audit has six entries: customers C1 to C6, seen by Ada."""
    with Office(tmp_path) as office:
        for number in range(1, 7):
            office.seat.audit.write("Ada", "customer seen", customer_id=f"C{number}", run_id="R")
        yield office


def change(office: Office, *statements: str) -> None:
    """Change the desk's file behind the desk's back."""
    with closing(sqlite3.connect(office.folder / "home" / DESK_FILE)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


_CHANGED = "entry 3 of the desk's audit was changed or moved"


@pytest.mark.parametrize(
    ("statements", "found"),
    [
        (["UPDATE audit SET user = 'Bem' WHERE id = 3"], [_CHANGED]),
        (["UPDATE audit SET action = 'signed in' WHERE id = 3"], [_CHANGED]),
        (["UPDATE audit SET at = at + 1 WHERE id = 3"], [_CHANGED]),
        (["UPDATE audit SET detail = '{\"x\": 1}' WHERE id = 3"], [_CHANGED]),
        (["UPDATE audit SET mark = x'00' WHERE id = 3"], [_CHANGED]),
        (["UPDATE audit SET mark = NULL, before = NULL WHERE id = 3"], [_CHANGED]),
        (
            ["UPDATE audit SET customer = (SELECT customer FROM audit WHERE id = 1) WHERE id = 3"],
            ["entry 3 of the desk's audit: its customer was changed"],
        ),
        (
            ["UPDATE audit SET sealed = (SELECT sealed FROM audit WHERE id = 1) WHERE id = 3"],
            ["entry 3 of the desk's audit: its customer was changed"],
        ),
        (
            ["UPDATE audit SET customer = NULL, sealed = NULL, salt = NULL WHERE id = 3"],
            ["entry 3 of the desk's audit: its customer was changed"],
        ),
        (["DELETE FROM audit WHERE id = 3"], ["entry 3 of the desk's audit is missing"]),
        (["DELETE FROM audit WHERE id < 3"], ["entries 1 to 2 of the desk's audit are missing"]),
        (["DELETE FROM audit WHERE id > 4"], ["entries 5 to 6 of the desk's audit are missing"]),
        (["DELETE FROM audit"], ["entries 1 to 6 of the desk's audit are missing"]),
        (
            [
                "UPDATE audit SET id = 99 WHERE id = 3",
                "UPDATE audit SET id = 3 WHERE id = 4",
                "UPDATE audit SET id = 4 WHERE id = 99",
            ],
            [_CHANGED, "entry 4 of the desk's audit was changed or moved"],
        ),
        (
            [
                "CREATE TABLE x AS SELECT * FROM audit WHERE id = 6",
                "UPDATE x SET id = 7",
                "INSERT INTO audit SELECT * FROM x",
            ],
            ["entry 7 of the desk's audit was changed or moved"],
        ),
        (
            ["DELETE FROM audit WHERE id = 6", "UPDATE audit_ends SET last = 5"],
            ["where the desk's audit begins and ends was changed or removed"],
        ),
        (
            ["DELETE FROM audit_ends"],
            ["where the desk's audit begins and ends was changed or removed"],
        ),
    ],
)
def test_what_was_changed_is_noticed_and_named(
    office: Office, statements: list[str], found: list[str]
) -> None:
    """One changed, removed or moved line is found, also after the desk has gone on writing."""
    assert broken_audit(office.journal) == []
    change(office, *statements)
    assert broken_audit(office.journal) == found
    office.seat.audit.write("Ada", "signed in")
    assert broken_audit(office.journal) == found


def test_verify_exits_with_1_and_names_the_line(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`nightscreen journal verify` holds the audit too; sound, it exits with 0."""
    monkeypatch.setenv("NIGHTSCREEN_HOME", str(office.folder / "home"))
    assert CliRunner().invoke(app, ["journal", "verify"]).exit_code == 0
    change(office, "UPDATE audit SET user = 'Bem' WHERE id = 5")
    broken = CliRunner().invoke(app, ["journal", "verify", "--json"])
    assert broken.exit_code == 1
    assert "entry 5 of the desk's audit was changed" in broken.stdout


def test_erasure_keeps_the_chain_and_leaves_no_way_to_the_customer(office: Office) -> None:
    """The lines stay and verify; neither id nor pseudonym, nor anything made of them, does."""
    pseudonym = office.seat.audit.entries(customer_id="C3")[0]["pseudonym"]
    assert forget_at_desk(office.journal, {"C3"}) == 1
    assert broken_audit(office.journal) == []
    assert [each["number"] for each in office.seat.audit.entries()] == [6, 5, 4, 3, 2, 1]
    held = b"".join(each.read_bytes() for each in (office.folder / "home").glob(f"{DESK_FILE}*"))
    assert bytes.fromhex(pseudonym) not in held
    change(office, "UPDATE audit SET user = 'Bem' WHERE id = 3")
    assert broken_audit(office.journal) == [_CHANGED]


def test_what_commands_do_and_show_stands_in_the_audit(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under whose account on the machine they ran; an erasure stands there without whom."""
    monkeypatch.setenv("NIGHTSCREEN_HOME", str(office.folder / "home"))
    erase._erase_one("C3", "", "", yes=True)
    (entry,) = office.seat.audit.entries(action="customer erased")
    assert (entry["user"], entry["customer_id"]) == (user_name(), "")
    assert entry["detail"]["by_command"] is True
    write_by_command(office.journal, "customer seen", customer_id="C9")
    (seen,) = office.seat.audit.entries(customer_id="C9")
    assert (seen["user"], seen["action"]) == (user_name(), "customer seen")
    assert broken_audit(office.journal) == []


def test_chain_goes_on_after_purge_rotation_and_restore(office: Office, tmp_path: Path) -> None:
    """Old entries go from its beginning alone; a new data key and a backup leave it true."""
    office.clock.forward(days=10)
    office.seat.audit.write("Ada", "customer seen", customer_id="C7")
    assert forget_audit(office.journal, office.clock() - DAY_MICROS) == 6
    assert broken_audit(office.journal) == []
    rotate_key(office.journal)
    office.seat.audit.write("Ada", "signed out")
    with pytest.raises(JournalKeyError, match="was rotated"):
        back_up(office.journal, tmp_path / "copy", passphrase="a walk by the lagoon")
    with open_journal(office.folder / "home") as journal:
        back_up(journal, tmp_path / "copy", passphrase="a walk by the lagoon")
    restore(tmp_path / "copy", tmp_path / "new", passphrase="a walk by the lagoon")
    with open_journal(tmp_path / "new") as journal:
        audit = Audit(Accounts(tmp_path / "new", journal.clock), journal)
        assert [each["number"] for each in audit.entries()] == [8, 7]
        assert broken_audit(journal) == []
    change(office, "DELETE FROM audit WHERE id = 7")
    assert broken_audit(office.journal) == ["entry 7 of the desk's audit is missing"]


def test_marks_that_were_taken_away_are_noticed(office: Office) -> None:
    """Whoever can write the file cannot take the proof away in silence."""
    with closing(sqlite3.connect(office.folder / "home" / DESK_FILE)) as connection, connection:
        connection.execute("ALTER TABLE audit DROP COLUMN mark")
        connection.execute("UPDATE audit SET user = 'Bem' WHERE id = 1")
    assert broken_audit(office.journal) == ["the marks of the desk's audit were removed"]
