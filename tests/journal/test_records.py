"""Records: one sealed table for every kind, known to all that keeps the journal; who made them."""

from __future__ import annotations

from pathlib import Path

import pytest

from nightscreen.config.settings import GROUNDS
from nightscreen.journal import Journal
from nightscreen.journal.audit import named_by_account, same_person
from nightscreen.journal.copying import back_up
from nightscreen.journal.erasure import Erasures
from nightscreen.journal.keyset import encode_key, rotate_key
from nightscreen.journal.opening import open_journal
from nightscreen.journal.records import Records
from nightscreen.journal.schema import KINDS, ErasedPseudonyms, records
from nightscreen.journal.verify import verify_journal
from nightscreen.schemas.approvals import Approval
from nightscreen.schemas.cases import Share
from nightscreen.schemas.contests import (
    Confirmation,
    Contest,
    Hold,
    PolicyVersion,
    SentNotice,
    Signature,
)
from nightscreen.schemas.records import JournalRecord
from nightscreen.schemas.uploads import Upload
from nightscreen.schemas.users import User
from nightscreen.schemas.wallet import WalletGap
from tests.journal.conftest import Place

CUSTOMER = b"c" * 16
OTHER = b"d" * 16


def contest(key: str = "1", customer: bytes = CUSTOMER) -> Contest:
    return Contest(
        key=key,
        customer=customer,
        batch="borrowers",
        run_id="run-1",
        at=1000,
        customer_id="CUST-1",
        said="I paid in May.",
        opened_by="Ada",
        due_at=2000,
    )


def test_a_record_comes_back_as_it_was_written_and_is_written_once(journal: Journal) -> None:
    """Kinds are kept apart, a key is taken once, and nothing personal lies there in clear."""
    store = Records(journal, Contest)
    assert store.add([contest(), contest(), contest("2", OTHER)]) == 2
    assert store.add([contest()]) == 0
    assert store.find("1") == contest()
    assert Records(journal, SentNotice).find("1") is None
    assert store.of_customers([OTHER]) == [contest("2", OTHER)]
    assert store.all(state="answered") == []
    with journal.database.writing() as connection:
        rows = connection.execute(records.select()).all()
    assert all(b"CUST-1" not in bytes(row.sealed) for row in rows)


def test_records_are_rotated_verified_copied_and_erased(place: Place, tmp_path: Path) -> None:
    """A new key opens them, damage is found, a backup has them, an erasure takes one person's."""
    place.is_damaged, journal = True, place.open()
    store = Records(journal, Contest)
    store.add([contest(), contest("2", OTHER)])
    back_up(journal, tmp_path / "copy")
    rotate_key(journal)
    assert verify_journal(journal) == []
    Erasures(journal).erase(ErasedPseudonyms(customers=[CUSTOMER]))
    assert store.all() == [contest("2", OTHER)]
    with journal.database.writing() as connection:
        connection.execute(records.update().values(sealed=b"x" * 80))
    (told,) = verify_journal(journal)
    assert told.startswith("1 sealed values of the table records")
    with open_journal(tmp_path / "copy", data_key=encode_key(journal.lender_key).decode()) as copy:
        assert len(Records(copy, Contest).all()) == 2


def test_every_kind_is_listed_and_says_how_long_it_is_kept() -> None:
    """A kind that is not listed, or lacks a ground with a period of its own choice, is noticed."""
    assert set(KINDS) == set(JournalRecord.__subclasses__())
    assert len({model.kind for model in KINDS}) == len(KINDS)
    for model in KINDS:
        assert model.ground.value in GROUNDS


def test_every_kind_is_shown_to_the_customer_or_is_about_none() -> None:
    """A kind has a name and a view in subject access."""
    shown = {model.kind for model in KINDS if model.section}
    assert all(model.unshown <= model.model_fields.keys() for model in KINDS)
    assert len({model.section for model in KINDS if model.section}) == len(shown)
    about_no_customer = {
        *(Confirmation, PolicyVersion, Signature, WalletGap),
        *(User, Approval, Upload, Share, Hold),
    }
    assert {model for model in KINDS if not model.section} == about_no_customer


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Ada Eze", "ADA  eze", True),
        ("Ada Eze (account root)", "Ada Eze", True),
        ("Ada Eze (account bem)", "Bem", True),
        ("Ada Eze (account root)", "Ngozi (account root)", False),
        ("Ada Eze", "Bem", False),
        ("Ada", "", False),
    ],
)
def test_a_person_is_known_by_name_and_by_the_account_of_a_command(
    one: str, other: str, *, same: bool
) -> None:
    """One account serves several named people; a name alone may be that account's."""
    assert same_person(one, other) is same
    assert same_person(other, one) is same


def test_a_command_is_recorded_under_the_machines_account(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is named stands before it; nobody named leaves the account alone."""
    monkeypatch.setattr("getpass.getuser", lambda: "bem")
    assert named_by_account(" Ada  Eze ") == "Ada Eze (account bem)"
    assert named_by_account("Bem") == named_by_account(" ") == "bem"
