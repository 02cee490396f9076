"""One person of whom every flow holds something: shown what it is, and erased everywhere."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from nightscreen.config.settings import Retention
from nightscreen.files.outputs import CASHFLOW_FILE
from nightscreen.journal import open_journal
from nightscreen.journal.consents import Consents
from nightscreen.journal.customers import Sightings
from nightscreen.journal.records import Records
from nightscreen.journal.verify import verify_journal
from nightscreen.operations.loan_book import import_outcomes
from nightscreen.operations.pulled_records import PullStore
from nightscreen.privacy.erasure import ErasureTarget, erase, find_person_data
from nightscreen.privacy.lookup_subject import lookup_subject
from nightscreen.privacy.purging import due, purge
from nightscreen.privacy.subject_access import access_page, gather
from nightscreen.sandbox.people import bvn_details
from nightscreen.schemas.clock import DAY_MICROS, system_clock
from nightscreen.schemas.offers import Offer
from tests.operations.bvn_in_a_test import BvnWorld, asked
from tests.operations.offers_in_a_test import Lender, borrower
from tests.operations.pulls_in_a_test import LIST
from tests.operations.pulls_in_a_test import Lender as Puller
from tests.screening import CONSENT

GONE, STAYS = "GONE-77812", "STAYS-1"
BVN = asked(1)["bvn"]
BOOK = """Loan ID,Customer ID,Disbursed On,Principal,Maturity,As At,Status
LN-G,GONE-77812,2026-03-01,5000,2026-04-01,2026-03-02,Active
LN-G,GONE-77812,2026-03-01,5000,2026-04-01,2026-03-02,Active
LN-S,STAYS-1,2026-03-01,5000,2026-04-01,2026-03-02,Active
"""
"""The second row is refused: it says the same loan and day again."""


@pytest.fixture(scope="module")
def lent(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A lender's folder after all that can be done with two customers, and a copy of it."""
    folder = tmp_path_factory.mktemp("every") / "lent"
    folder.mkdir()
    people = list(enumerate((GONE, STAYS), start=1))
    lender, world, puller = Lender(folder), BvnWorld(folder), Puller(folder)
    rows = [asked(number, customer_id=who) for number, who in people]
    world.request(rows)
    world.confirm({row["customer_id"]: world.otp(row) or "" for row in rows})
    lender.offer(lender.screen([borrower(n, customer_id=who, **CONSENT) for n, who in people]))
    lender.on_day(6)
    lender.track()
    puller.consent((GONE, STAYS), LIST, "bank_account:list", "profile:view")
    puller.pull()
    puller.pull_accounts()
    puller.sandbox.day = 3
    puller.pull()
    (folder / "book.csv").write_text(BOOK)
    with open_journal(folder / "home") as journal:
        import_outcomes(journal, folder / "book.csv", output=folder / "out")
    return folder, shutil.copytree(folder, folder.with_name("saved"))


@pytest.fixture
def folder(lent: tuple[Path, Path]) -> Path:
    """That folder, put back where it was."""
    shutil.rmtree(lent[0])
    return shutil.copytree(lent[1], lent[0])


def tables(folder: Path) -> dict[str, list[dict[str, Any]]]:
    out = folder / "out"
    return {
        str(path.relative_to(out)): pq.ParquetFile(path).read().to_pylist()
        for path in sorted(out.rglob("*.parquet"))
    }


def rows_of(folder: Path, customer: str) -> dict[str, list[dict[str, Any]]]:
    found = {
        name: [row for row in rows if row.get("customer_id") == customer]
        for name, rows in tables(folder).items()
    }
    return {name: rows for name, rows in found.items() if rows}


@pytest.mark.parametrize(
    "whom", [ErasureTarget(customer_id=GONE), ErasureTarget(bvn=BVN)], ids=["id", "bvn"]
)
def test_nothing_is_left_of_one_and_everything_of_the_other(
    folder: Path, whom: ErasureTarget
) -> None:
    """Neither in the journal nor in any file, in clear or by pseudonym; the money stays."""
    gone, stays = rows_of(folder, GONE), rows_of(folder, STAYS)
    assert min(len(gone), len(stays)) > 8
    with open_journal(folder / "home") as journal:
        pseudonym = journal.pseudonyms.customers_anywhere([GONE])
        (offer,) = Records(journal, Offer).of_customers([pseudonym])
        spent = journal.money.today()
        erase(journal, find_person_data(journal, whom))
        assert verify_journal(journal) == []
        assert journal.money.today() == spent
        assert not Consents(journal).history(GONE)
        assert len(Consents(journal).history(STAYS)) == 1
        assert PullStore(journal).pulls.of_customers([pseudonym]) == []
    values = {
        str(row[name])
        for rows in gone.values()
        for row in rows
        for name in ("bvn", "email", "phone", "reference", "url", "account_number", "otp_link")
        if row.get(name) and len(str(row[name])) > 6
    }
    assert len(values) > 6
    secrets = [GONE.encode(), b"LN-G", *(each.encode() for each in values)]
    for trace in (pseudonym, offer.subject, offer.loan or b""):
        secrets += [trace, trace.hex().encode()]
    for path in (each for each in folder.rglob("*") if each.is_file()):
        if path.parent != folder:  # what lies there are the lender's own files
            content = path.read_bytes()
            assert not [each for each in secrets if each in content], path
    said = str(tables(folder)).encode()
    assert not [each for each in secrets if each in said]
    assert rows_of(folder, STAYS) == stays


def test_a_person_is_shown_what_every_flow_holds(folder: Path) -> None:
    """Requests, records, offers, loans, consents and what was pulled; tokens of nobody."""
    with open_journal(folder / "home") as journal:
        (grant,) = Consents(journal).history(GONE)
        held = gather(journal, lookup_subject(journal, GONE), Retention())
        nothing_kept = dict.fromkeys(Retention.model_fields, 0)
        old = due(journal, Retention.model_construct(None, **nothing_kept)).outdated
    parts = ("rows", "bvn_requests", "loan_offers", "loan_outcomes", "consents", "pulls")
    for part in (*parts, "transactions", "accounts", "profiles", "cash_flow", "answers"):
        assert held[part], part
    text = json.dumps(held)
    assert grant.tokens is not None
    assert grant.tokens.access_token not in text
    assert grant.tokens.refresh_token not in text
    assert STAYS not in text
    said = {answer["check"]: answer["said"] for answer in held["answers"]}
    assert said["bvn_finish"]["first_name"] == bvn_details(BVN)["first_name"]
    (offer,) = held["loan_offers"]
    assert offer["history"]
    assert offer["url"] in access_page(held)
    typed = [row for name, rows in rows_of(folder, GONE).items() for row in rows if "trans" in name]
    assert len(held["transactions"]) == len(typed)
    assert CASHFLOW_FILE in {path.name for each in old for path in each.files}


def test_a_bvn_that_somebody_had_before_reaches_nothing_they_consented_to(folder: Path) -> None:
    """Pulls name a customer by the id alone; who has another BVN by now is somebody else."""
    with open_journal(folder / "home") as journal:
        gone = Consents(journal).customer(GONE)
        seen = [(journal.pseudonyms.subject("bvn", "22287654321"), gone, None)]
        Sightings(journal).keep("bvn", "borrowers", seen, at=DAY_MICROS)
        erase(journal, find_person_data(journal, ErasureTarget(bvn="22287654321")))
        assert len(Consents(journal).history(GONE)) == 1
    assert {row["customer_id"] for row in Puller(folder).typed()} == {GONE, STAYS}


def test_purge_keeps_what_a_live_consent_rests_on(folder: Path) -> None:
    """Replaced versions and typed files go by age; live records, and live grants, stay."""
    puller = Puller(folder)
    live = sum(stored.ended_at is None for stored, _ in puller.kept(STAYS))
    ended = sum(stored.ended_at is not None for stored, _ in puller.kept(STAYS))
    assert ended
    puller.clock = lambda: system_clock() + 3000 * DAY_MICROS
    with puller.opened() as journal:
        Consents(journal).revoke(GONE, "customer asked")
        purge(journal, due(journal, Retention()))
    assert len(puller.kept(STAYS)) == live
    assert puller.typed() == []
    puller.clock = lambda: system_clock() + 6000 * DAY_MICROS
    with puller.opened() as journal:
        purge(journal, due(journal, Retention()))
        assert Consents(journal).history(GONE) == []
        assert len(Consents(journal).history(STAYS)) == 1
    assert puller.kept(GONE) == []
