"""Explaining one decision end to end, and handing over what is held of one person alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightscreen.config.settings import Retention
from nightscreen.policy.load import load_policy
from nightscreen.privacy.explaining import explain, masked
from nightscreen.privacy.lookup_subject import Subject, lookup_subject
from nightscreen.privacy.subject_access import WITHHELD, access_page, gather, own_row
from nightscreen.results.decision_list import write_decisions
from nightscreen.schemas.calls import CallResult, CallState, Caps, ReserveRequest
from nightscreen.schemas.contests import Review
from nightscreen.schemas.errors import InputError
from tests.begun import begin_run
from tests.journal.conftest import by_name
from tests.results.enriched_in_a_test import enriched_row, listed
from tests.results.nights_in_a_test import BATCH, SECOND, Nights

STRANGER = "BELLO HASSAN"
DECLINED = enriched_row(
    "0007",
    decision="decline",
    reasons=["KARMA_DEFAULT"],
    consent_reference="CNS-7",
    bank_account_status="mismatch",
    bank_account_bvn_match=False,
    bank_account_name=STRANGER,
    name_match="none",
    name_explained=f"nothing agrees with {STRANGER}",
    **listed("7000"),
)
SECRETS = ("22212345678", "0123456789", "AMAKA", "Amaka", "HASSAN")


@pytest.fixture
def nights(tmp_path: Path) -> Iterator[Nights]:
    """A journal after a night on which 0007 was asked about and declined."""
    found, policy = Nights(tmp_path), load_policy()
    begin(found, "run-1")
    bank = {"account_name": STRANGER, "account_number": "0123456789", "bvn": "22000000099"}
    karma = {
        "karma_identity": "22212345678",
        "amount_in_contention": "7000",
        "reporting_entity": {"name": "Harbour Finance", "email": "desk@harbour.example"},
    }
    pseudonyms = found.journal.pseudonyms
    ask(found, "bank_account", pseudonyms.subject("nuban", "058-0123456789"), "found", bank)
    ask(found, "karma", pseudonyms.subject("bvn", "22212345678"), "listed", karma)
    history = {"bvn": "22212345678", "first_name": "Amaka", "last_name": "Obi", "loans": 3}
    bvn = pseudonyms.subject("bvn", "22212345678")
    ask(found, "ecosystem", bvn, "found", history, consent="CNS-OTHER")
    found.night("run-1", {**DECLINED, "policy": policy.label}, enriched_row("B"))
    folder = found.folder("run-1")
    part = folder.path / "enriched" / "part-00000.parquet"
    write_decisions(folder, [part], run_id="run-1", reasons={}, scratch=folder.path.parent)
    found.reviews.keep_policy(policy.label, policy.model_dump_json())
    yield found
    found.journal.close()


def begin(nights: Nights, run_id: str) -> None:
    begin_run(nights.journal, run_id, batch=BATCH, folder=str(nights.folder(run_id).path))


def ask(
    nights: Nights,
    check: str,
    subject: bytes,
    outcome: str,
    body: dict[str, Any],
    *,
    consent: str | None = None,
) -> None:
    wish = ReserveRequest(check, "bvn", subject, 10 * SECOND, consent, 1)
    granted = by_name(nights.journal, "run-1", [wish], Caps())
    settled = CallResult(
        call_id=granted[0].call_id,
        ask=wish,
        state=CallState.ANSWERED,
        settled_at=nights.now,
        outcome=outcome,
        cost_micro=10_000_000,
        sent_at=nights.now,
        final=True,
        body=json.dumps({"status": "success", "data": body}).encode(),
    )
    nights.journal.calls.settle("run-1", [settled])


def declined(nights: Nights) -> Subject:
    return lookup_subject(nights.journal, "0007")[0]


def explained(nights: Nights) -> dict[str, Any]:
    return explain(nights.journal, declined(nights))


def test_a_declined_customer_is_explained_end_to_end(nights: Nights) -> None:
    """Decision, the rule in force in its own words, evidence with age and source, lookups, cost.

    Neither BVN, account nor any name is in it. A customer nobody screened is told so.
    """
    found = explained(nights)
    assert (found["decision"], found["run_id"], found["policy"]) == (
        "decline",
        "run-1",
        load_policy().label,
    )
    (reason,) = found["reasons"]
    assert (reason["code"], reason["decisive"]) == ("KARMA_DEFAULT", True)
    (rule,) = reason["rules"]
    assert "{" not in rule["when"]
    assert rule["team"].startswith("Blacklisted by BVN for a loan default of 5,000 naira")
    assert rule["action"].startswith("Lend no more")
    karma = next(each for each in found["evidence"] if each["check"] == "karma")
    assert (karma["status"], karma["source"]) == ("listed", "asked")
    assert karma["age_days"] == 1.0
    assert karma["fields"]["karma_listings"][0]["reporting_entity_name"] == "Harbour Finance"
    lookups = {each["check"]: each for each in found["lookups"]}
    assert lookups["karma"]["outcome"] == "listed"
    assert {each["lawful_basis"] for each in lookups.values()} == {"undeclared"}
    assert lookups["ecosystem"]["consent_reference"] == "CNS-OTHER"
    assert lookups["karma"]["purpose"] == "portfolio"
    assert found["cost"] == "30.00"
    assert [each["kind"] for each in found["changes"]] == ["new"]
    text = json.dumps(found, default=str)
    assert "0007" in text
    assert not any(secret in text for secret in SECRETS)
    with pytest.raises(InputError, match="leading zeros"):
        lookup_subject(nights.journal, "7")
    with pytest.raises(InputError):
        lookup_subject(nights.journal, "0007", batch="elsewhere")


def test_reviews_stand_in_the_explanation(nights: Nights) -> None:
    """An override with its reviewer, end, and whether it still stands."""
    given_review = Review(
        customer=declined(nights).pseudonym,
        batch=BATCH,
        run_id="run-1",
        listed="decline",
        decision="approve",
        reviewer="Ngozi Eze",
        note="Paid.",
        reviewed_at=nights.now,
        until=nights.now + SECOND,
        evidence=b"other",
    )
    nights.reviews.add([given_review])
    review = explained(nights)["reviews"][0]
    assert (review["reviewer"], review["overrides"], review["stands"]) == (
        "Ngozi Eze",
        True,
        False,
    )


def test_a_run_of_long_ago_is_explained_as_far_as_it_is_known(nights: Nights) -> None:
    """A check that was not installed yet is as one that was not asked for.

    After retention removed the outputs, the last answered state is still told.
    """
    (part,) = nights.folder("run-1").path.rglob("part-*.parquet")
    table = pq.read_table(part)
    later = [name for name in table.column_names if name.startswith("selfie_")]
    pq.write_table(table.drop_columns(later), part)
    found = explained(nights)
    assert later
    assert "selfie" not in {
        *found["missing_checks"],
        *(each["check"] for each in found["evidence"]),
    }
    assert found["reasons"][0]["rules"]
    part.unlink()
    found = explained(nights)
    assert found["decision"] is None
    assert found["last_answered"]["checks"]["karma"]["run_id"] == "run-1"


def test_all_that_is_held_is_handed_over_and_nothing_of_others(nights: Nights) -> None:
    """Rows, lists, lookups, answers, states and changes, each with its end; the page is escaped.

    The name on a stranger's account, a stranger's consent and a clerk's address are withheld.
    """
    found = gather(nights.journal, lookup_subject(nights.journal, "0007"), Retention())
    assert found["rows"][0]["row"]["bvn"] == "22212345678"
    assert found["lists"][0]["row"]["decision"] == "decline"
    assert len(found["lookups"]) == len(found["answers"]) == 3
    assert found["batches"][0]["last_answered"]["checks"]["karma"]
    assert found["changes"][0]["changes"][0]["kind"] == "new"
    dated = [*found["rows"], *found["lists"], *found["lookups"], *found["answers"]]
    assert all(each["kept_until"] for each in dated)
    said = {each["check"]: each["said"] for each in found["answers"]}
    assert said["ecosystem"]["first_name"] == "Amaka"
    text = json.dumps(found, default=str)
    for secret in ("HASSAN", "22000000099", "CNS-OTHER", "desk@harbour.example"):
        assert secret not in text
    row = found["rows"][0]["row"]
    assert said["bank_account"]["account_name"] == row["bank_account_name"] == WITHHELD
    assert row["name_explained"] == WITHHELD
    row["first_name"] = "<script>alert(1)</script>"
    page = access_page(found)
    assert "<script>" not in page
    assert "Answers of the service" in page
    assert "22212345678" in page


def test_columns_about_others_are_withheld() -> None:
    """What names another person by its heading; an account that agrees is the customer's own."""
    for column in ("guarantor_phone", "Next of Kin", "loan_officer"):
        assert own_row({column: "Bisi", "branch": "Ikeja"}) == {column: WITHHELD, "branch": "Ikeja"}
    assert own_row(enriched_row("A"))["bank_account_name"] == "OBI AMAKA"


@given(st.text())
def test_a_masked_name_shows_initials_only(name: str) -> None:
    """Of each word at most one letter is left."""
    shown = masked(name)
    assert shown == "(held)" or all(len(word) == 2 for word in shown.split(" "))
