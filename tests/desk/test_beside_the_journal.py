"""What the desk keeps beside the journal: in backups, under a new key, and after an erasure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nightscreen.cli import erase
from nightscreen.desk.accounts import Accounts
from nightscreen.desk.audit import Audit, forget_at_desk
from nightscreen.files.sealed_file import unsealed
from nightscreen.journal import open_journal
from nightscreen.journal.copying import back_up, restore
from nightscreen.journal.keyset import rotate_key
from nightscreen.schemas.errors import InputError
from tests.desk.office import PASSWORD, Office
from tests.desk.test_new_file import bring

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    """A desk nobody has used yet."""
    with Office(tmp_path) as office:
        yield office


def test_backup_has_users_and_audit_and_signs_nobody_in(office: Office, tmp_path: Path) -> None:
    """A restored desk knows its users by their passwords; sessions of the old one are over."""
    browser = office.browser("analyst", name="Ada")
    office.seat.audit.write("Ada", "customer seen", customer_id="C7")
    back_up(office.journal, tmp_path / "copy", passphrase="a walk by the lagoon")
    restore(tmp_path / "copy", tmp_path / "new", passphrase="a walk by the lagoon")
    with open_journal(tmp_path / "new") as journal:
        accounts = Accounts(tmp_path / "new", journal.clock)
        assert accounts.check("Ada", PASSWORD) is not None
        assert accounts.session(browser.cookies["nightscreen-desk"]) is None
        (entry,) = Audit(accounts, journal).entries(customer_id="C7")
        assert (entry["user"], entry["customer_id"]) == ("Ada", "C7")
    assert (tmp_path / "new" / "desk.sqlite3").stat().st_mode & 0o777 == 0o600


def test_audit_and_uploads_open_under_a_new_data_key(office: Office) -> None:
    """Once the old key is retired, customers of the audit and files are still to be read."""
    office.seat.audit.write("Ada", "customer seen", customer_id="C7")
    data = b"customer_id,bvn\nK-1,22000000001\n"
    bring(office.browser("analyst"), data, "a.csv")
    rotate_key(office.journal)
    (file,) = (office.folder / "home" / "desk").glob("*.sealed")
    with open_journal(office.folder / "home") as journal:
        audit = Audit(Accounts(office.folder / "home", journal.clock), journal)
        assert [each["customer_id"] for each in audit.entries(customer_id="C7")] == ["C7"]
        with unsealed(file, journal.sealer) as clear:
            assert clear.read_bytes() == data


def test_desk_that_stays_open_over_a_rotation_goes_on(office: Office) -> None:
    """Another process rotates the key: the desk reads what is sealed since, and all can read it."""
    ada = office.browser("analyst", name="Ada")
    ada.get("/new")
    with open_journal(office.folder / "home") as other:
        rotate_key(other)
    with open_journal(office.folder / "home") as other:
        Audit(office.seat.accounts, other).write("Bola", "customer seen", customer_id="C7")
    assert [each["user"] for each in office.seat.audit.entries(customer_id="C7")] == ["Bola"]
    data = b"customer_id,bvn\nK-1,22000000001\n"
    bring(ada, data, "a.csv")
    office.seat.audit.write("Ada", "customer seen", customer_id="C8")
    (file,) = (office.folder / "home" / "desk").glob("*.sealed")
    with open_journal(office.folder / "home") as journal:
        audit = Audit(Accounts(office.folder / "home", journal.clock), journal)
        assert [each["customer_id"] for each in audit.entries(customer_id="C8")] == ["C8"]
        with unsealed(file, journal.sealer) as clear:
            assert clear.read_bytes() == data


def test_erased_customer_is_no_longer_named_in_the_audit(office: Office) -> None:
    """Who looked and when stays; neither the id nor anything it could be found by does."""
    for customer in ("C7", "C8"):
        office.seat.audit.write("Ada", "customer seen", customer_id=customer)
    assert forget_at_desk(office.journal, {"C7"}) == 1
    assert office.seat.audit.entries(customer_id="C7") == []
    erased, other = reversed(office.seat.audit.entries(action="customer seen"))
    assert (erased["user"], erased["customer_id"]) == ("Ada", "")
    assert erased["detail"] == {"customer": "erased"}
    assert other["customer_id"] == "C8"


def test_customer_whom_the_audit_alone_names_is_erased(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing else is held of them; who was never named anywhere is refused as before."""
    monkeypatch.setenv("NIGHTSCREEN_HOME", str(office.folder / "home"))
    office.seat.audit.write("Ada", "customer seen", customer_id="C7")
    with pytest.raises(InputError, match="nothing is held"):
        erase._erase_one("C8", "", "", yes=True)
    assert erase._erase_one("C7", "", "", yes=True)["desk_entries"] == 1
    assert office.seat.audit.entries(customer_id="C7") == []
