"""Offers of loans: one link for each approved customer and product, whatever happens on the way."""

from __future__ import annotations

import asyncio
import re
import shutil
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest

from nightscreen.calling.caller import Caller
from nightscreen.calling.lookup_task import LookupTask
from nightscreen.config.settings import ContestClocks
from nightscreen.journal import open_journal
from nightscreen.journal.actor import Actor
from nightscreen.journal.cases import Reviews
from nightscreen.journal.customers import Customers
from nightscreen.journal.runs import KILLED
from nightscreen.journal.verify import verify_journal
from nightscreen.operations.loans import LoanOffers
from nightscreen.privacy.contests import answer_contest, open_contest
from nightscreen.results.changes import evidence_digest
from nightscreen.results.outcomes import linked_offers
from nightscreen.sandbox.faults import FaultPlan, Scripted
from nightscreen.schemas.contests import ContestOutcome, Review
from nightscreen.schemas.errors import InputError
from nightscreen.schemas.stops import REFUSALS
from tests.journal.conftest import by_name
from tests.operations.offers_in_a_test import PRODUCT, Lender, Offered, borrower
from tests.screening import Night, csv_rows

NUMBERS = range(1, 13)
FORMULA = {3: {"first_name": "=HYPERLINK(1)"}}
"""Whose name a spreadsheet might run."""


@pytest.fixture(scope="module")
def screened(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Night]:
    """A lender's folder after a night with approved customers and one for review."""
    folder = tmp_path_factory.mktemp("screened")
    rows = [borrower(number, **FORMULA.get(number, {})) for number in NUMBERS]
    return folder, Lender(folder).screen(rows)


@pytest.fixture
def lender(screened: tuple[Path, Night], tmp_path: Path) -> Lender:
    """A lender after that night, everything a copy, with a sandbox that has heard nothing yet."""
    folder = tmp_path / "lender"
    shutil.copytree(screened[0], folder)
    return Lender(folder)


@pytest.fixture
def night(screened: tuple[Path, Night], lender: Lender) -> Night:
    folder, night = screened
    return Night(lender.folder / night.folder.relative_to(folder), night.report)


def chosen(night: Night, decision: str = "approve") -> set[str]:
    return {row["customer_id"] for row in night.rows if row["decision"] == decision}


def states(rows: dict[str, dict[str, Any]]) -> dict[str, str]:
    return {customer: row["state"] for customer, row in rows.items()}


def test_rows_of_a_portfolio_are_offered_only_where_they_ask(tmp_path: Path) -> None:
    """Any of the three requests makes an applicant; the others get no link, whatever decided.

    Credit that nobody asked for needs an explicit word; without it nothing is left behind. Who has
    no sound contact gets no link, unless nothing is to be filled in.
    """
    lender = Lender(tmp_path)
    nobody = lender.screen([borrower(number, requested_amount="") for number in (6, 7)])
    with pytest.raises(InputError, match=r"no row of it has a request .* --unsolicited"):
        lender.offer(nobody)
    with pytest.raises(InputError, match="--unsolicited"):
        lender.quote(nobody)
    assert lender.calls("loan_start") == []
    rows = [borrower(number, requested_amount="") for number in range(1, 6)]
    rows[0]["requested_amount"] = "50,000"
    rows[1] |= {"requested_tenor_days": "30", "email": ""}
    rows[2] |= {"requested_instalment": "5000"}
    rows += [borrower(8, email="", phone=""), borrower(9, email="x@", phone="12")]
    night = lender.screen(rows, batch="asking")
    asked, without = {"C1", "C2", "C3"} & chosen(night), {"C8", "C9"}
    assert without < chosen(night)
    offered = lender.offer(night)
    found = states(offered.offers)
    assert {each for each, state in found.items() if state == "offered"} == asked
    assert {each for each, state in found.items() if state == "no_contact"} == without
    assert offered.offers["C9"]["email"] is None
    others = chosen(night) - asked - without
    assert {found[each] for each in others} <= {"no_request"}
    assert offered.report["offers"]["no_request"] == len(others)
    assert len(lender.calls("loan_start")) == len(asked)
    found = states(lender.offer(night, prefill=[]).offers)
    assert [found[each] for each in sorted(without)] == ["offered"] * 2
    on_purpose = lender.offer(nobody, unsolicited=True)
    assert set(states(on_purpose.offers).values()) == {"offered"}
    assert on_purpose.report["source"]["unsolicited"] is True


def test_each_approved_customer_gets_one_link(lender: Lender, night: Night) -> None:
    """Ready for a mail merge: who, where to, which product, reference and link.

    The CSV file has the rows of the table, phones to send to, and no name that is a formula.
    """
    approved = chosen(night)
    assert lender.quote(night)["links"] == len(approved) > 8
    assert lender.calls() == []
    found = lender.offer(night)
    assert lender.quote(night)["links"] == 0
    assert states(found.offers) == dict.fromkeys(approved, "offered")
    assert len(lender.calls("loan_start")) == len(approved)
    book = lender.sandbox.loans.loans
    for row in found.offers.values():
        loan = book[row["reference"]]
        assert row["url"] == loan.url
        assert (row["email"], row["phone"]) == (loan.email, loan.phone_number)
        assert row["product_id"] == PRODUCT
    assert len({row["url"] for row in found.offers.values()}) == len(approved)
    report = found.report
    assert (report["state"], report["offers"]["offered"]) == ("completed", len(approved))
    assert report["rows"] == {"read": len(NUMBERS), "screened": len(NUMBERS), "quarantined": 0}
    start = report["checks"]["loan_start"]
    parts = ("paid", "free", "reused", "spared", "failed", "pending", "in_doubt")
    assert start["distinct"] == sum(start[name] for name in parts) == len(approved)
    assert report["cost"]["total"] == "0.00"
    every = lender.offer(night, decisions=["approve", "review", "decline", "undecided"])
    rows = {row["customer_id"]: row for row in csv_rows(every.folder / "offers.csv")}
    assert rows.keys() == every.offers.keys() > approved
    for customer, row in rows.items():
        table = every.offers[customer]
        assert (row["url"], row["phone"]) == (table["url"], table["phone"])
        assert re.fullmatch(r"\+234\d{10}", row["phone"])
    assert rows["C3"]["customer_name"].startswith("'=HYPERLINK(1)")
    assert every.offers["C3"]["customer_name"].startswith("=HYPERLINK(1)")


def test_offering_again_makes_no_second_link(lender: Lender, night: Night, tmp_path: Path) -> None:
    """Nor from a copy of the folder or that of another night; another product is another offer."""
    first = lender.offer(night)
    asked = len(lender.calls("loan_start"))
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(night.folder, elsewhere)
    later = lender.screen([borrower(number) for number in NUMBERS], batch="another name")
    for run_dir in (night.folder, elsewhere, later.folder):
        again = lender.offer(night, run_dir=str(run_dir))
        assert set(states(again.offers).values()) == {"already_offered"}
        same = {customer: row["url"] for customer, row in again.offers.items()}
        assert same == {customer: first.offers[customer]["url"] for customer in same}
    assert len(lender.calls("loan_start")) == asked
    other = lender.offer(night, product="LP1002")
    assert set(states(other.offers).values()) == {"offered"}


def test_service_is_told_only_what_was_asked_for(lender: Lender, night: Night) -> None:
    """`meta` has what `--prefill` names and nothing else; the list has both for the letter."""
    for product, prefill, told in (
        ("LP1001", [], ("", "")),
        ("LP1002", ["email"], ("c1@mail.example.com", "")),
        ("LP1003", ["phone"], ("", "+2348030000001")),
    ):
        row = lender.offer(night, product=product, prefill=prefill).offers["C1"]
        loan = lender.sandbox.loans.loans[row["reference"]]
        assert (loan.email, loan.phone_number) == told
        assert (row["email"], row["phone"]) == ("c1@mail.example.com", "+2348030000001")


# --- whose decision counts ---


def reviewed(lender: Lender, night: Night, customer: str, decision: str) -> None:
    with open_journal(lender.folder / "home") as journal:
        batch = night.report["batch"]
        pseudonym = journal.pseudonyms.customer(batch, customer)
        known = Customers(journal).known([pseudonym])[pseudonym]
        now = journal.clock()
        review = Review(
            customer=pseudonym,
            batch=batch,
            run_id=night.report["run_id"],
            listed="review",
            decision=decision,
            reviewer="Bisi",
            note="looked at it",
            reviewed_at=now,
            until=now + 10**12,
            evidence=evidence_digest(known.state),
        )
        Reviews(journal).add([review])


def test_reviewers_decision_counts(lender: Lender, night: Night) -> None:
    """Approved by a reviewer is approved; declined by one is not offered, whatever the policy.

    Whoever contests, in any batch, is offered nothing until it is answered; nor does an old folder
    offer to somebody who is on the blacklist since.
    """
    (waiting,) = chosen(night, "review")
    refused, contesting = sorted(chosen(night) - {"C1"})[:2]
    reviewed(lender, night, waiting, "approve")
    reviewed(lender, night, refused, "decline")
    with open_journal(lender.folder / "home") as journal:
        clocks = ContestClocks()
        contest = open_contest(journal, Actor("Ada"), clocks, contesting, said="It is not me.")
    listed = [borrower(number) for number in NUMBERS]
    listed[0] = borrower(1, bvn="22999000001")
    assert "C1" in chosen(night) - chosen(lender.screen(listed))
    found = lender.offer(night).offers
    assert (found[waiting]["state"], found[waiting]["decided_by"]) == ("offered", "review")
    assert [found[each]["state"] for each in (refused, "C1")] == ["superseded"] * 2
    assert found[contesting]["state"] == "contested"
    assert len(lender.calls("loan_start")) == len(chosen(night)) - 2
    with open_journal(lender.folder / "home") as journal:
        outcome = ContestOutcome.WITHDRAWN
        answer_contest(journal, Actor("Bisi"), contest.key, answer="Withdrawn.", outcome=outcome)
    assert lender.offer(night).offers[contesting]["state"] == "offered"


# --- runs that cannot be offered from ---


UNSOUND = (
    ("report.json", '"completed"', '"stopped"', "was stopped .* --run"),
    ("report.json", '"publishable"', '"held": ["too many"], "publishable"', "is held"),
    ("report.json", '"completed"', '"test_mode"', "test mode"),
    ("report.json", None, None, "no folder of a finished run"),
    ("manifest.json", None, None, "is not finished"),
    ("manifest.json", '"enriched/', '"gone/', "were purged"),
    ("enriched/part-00000.parquet", "PAR1", "PAR2", "not as the run has left it"),
)
"""Files of a run, words put in place of others (of none: the file is gone), and what is said."""


def test_unsound_run_is_refused_before_anything_is_asked(lender: Lender, night: Night) -> None:
    """One line says what is the matter; the service hears nothing, no folder is left."""
    before = set((lender.folder / "out").iterdir())
    for file, old, new, said in UNSOUND:
        path, sound = night.folder / file, (night.folder / file).read_bytes()
        if old is None or new is None:
            path.unlink()
        else:
            assert old.encode() in sound
            path.write_bytes(sound.replace(old.encode(), new.encode()))
        with pytest.raises(InputError, match=said):
            pytest.fail(f"{file} with {new} was taken: {lender.offer(night).folder}")
        path.write_bytes(sound)
    assert lender.calls("loan_products") == []
    assert set((lender.folder / "out").iterdir()) == before


def test_key_that_is_no_distributors_is_told_in_one_line(lender: Lender, night: Night) -> None:
    """One notice, stopped; the same run goes on once the key may, for the same product."""
    lender.is_distributor(now=False)
    found = lender.offer(night)
    assert (found.report["state"], found.report["stop_reason"]) == ("stopped", "auth")
    assert found.report["notices"] == [REFUSALS["distributor"]]
    assert len(lender.calls("loan_start")) == 1  # of the others the service hears nothing
    lender.is_distributor(now=True)
    with pytest.raises(InputError, match="is not the input of run"):
        lender.offer(run=found.report["run_id"], product="LP1002")
    resumed = lender.offer(run=found.report["run_id"])
    assert resumed.folder == found.folder
    assert resumed.report["offers"]["offered"] == len(chosen(night))


# --- what goes wrong on the way ---


def fault(lender: Lender, name: str, at_call: int = 1, calls: int = 1) -> None:
    script = [Scripted(name, at_call, calls, "loan_start")]
    lender.sandbox.faults = FaultPlan(0, script=script)


def test_lost_answer_is_named_and_never_asked_again_by_machine(
    lender: Lender, night: Night
) -> None:
    """The customer is in doubt in every later run, until somebody asks on purpose."""
    fault(lender, "http_502_after_charge")
    found = lender.offer(night)
    (doubted,) = [c for c, row in found.offers.items() if row["state"] == "in_doubt"]
    assert found.report["offers"]["in_doubt"] == 1
    assert "1 links are in doubt" in found.report["notices"][0]
    made = len(lender.calls("loan_start"))
    assert made == len(chosen(night))
    lender.sandbox.faults = FaultPlan(0)
    assert lender.offer(night).offers[doubted]["state"] == "in_doubt"
    assert len(lender.calls("loan_start")) == made
    row = lender.offer(night, again=True).offers[doubted]
    assert (row["state"], row["number"]) == ("offered", 2)
    assert len(lender.calls("loan_start")) == made + 1
    assert lender.offer(night, again=True).offers[doubted]["state"] == "already_offered"
    assert len(lender.calls("loan_start")) == made + 1


@pytest.mark.parametrize(
    ("said", "problem", "refused"),
    [
        ("Customer of this product was not found", "rejected", [0]),
        ("Loan product not found", "no_product", [1, 2]),
    ],
)
def test_refused_start_is_failed_and_may_be_offered_again(
    lender: Lender, night: Night, said: str, problem: str, refused: list[int]
) -> None:
    """Neither a text about one customer nor a later answer ends a run: others have links."""
    numbers = count()
    answer = httpx.Response(400, json={"status": "error", "message": said})
    lender.instead = lambda _asked: answer if next(numbers) in refused else None
    found = lender.offer(night)
    assert found.report["state"] == "completed"
    failed = {who: row for who, row in found.offers.items() if row["state"] == "failed"}
    assert found.report["offers"]["failed"] == len(failed) == len(refused)
    assert {(row["problem"], row["url"]) for row in failed.values()} == {(problem, None)}
    assert found.report["offers"]["offered"] == len(chosen(night)) - len(refused)
    again = lender.offer(night).offers
    assert {again[who]["state"] for who in failed} == {"offered"}


def test_product_that_the_service_does_not_have_ends_the_run_after_one_call(
    lender: Lender, night: Night
) -> None:
    """It is a mistake in what was typed: nobody else is asked, and no run is left."""
    with pytest.raises(InputError, match="has no product LP9999"):
        lender.offer(night, product="LP9999")
    assert len(lender.calls("loan_start")) == 1
    with open_journal(lender.folder / "home") as journal:
        assert journal.runs.newest(flow="offer_loans") == []


def test_test_mode_offers_nothing(lender: Lender, night: Night) -> None:
    """Links of the test mode lead nowhere: they are no offers, and nothing is published."""
    lender.sandbox.faults = FaultPlan(0, rates={"all": {"mock_response": 1.0}})
    found = lender.offer(night)
    assert found.report["state"] == "test_mode"
    assert found.offers.keys() == chosen(night)
    assert set(states(found.offers).values()) <= {"pending", "failed"}
    assert {row["url"] for row in found.offers.values()} == {None}
    assert not (found.folder / "manifest.json").exists()


def die(lender: Lender, night: Night, how: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Let a run die before its links are sent, while they are out, or before it saves them."""

    async def sent_by_nobody(caller: Caller, task: LookupTask) -> LookupTask:
        if how == "sent":
            run = caller.run
            by_name(run.journal, run.run_id, [task.ask()], run.caps)
        return task

    with monkeypatch.context() as patch:
        patch.setattr(LoanOffers, "save_result", lambda *_: None)
        if how != "answered":
            patch.setattr("nightscreen.calling.caller.Caller.make_call", sent_by_nobody)
        return lender.dies(LoanOffers, lender.asked(night, {}), "report")


@pytest.mark.parametrize(
    ("how", "word"),
    [("written", "offered"), ("sent", "in_doubt"), ("answered", "already_offered")],
)
def test_what_a_dead_run_left_is_learnt(
    lender: Lender, night: Night, how: str, word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never sent: offered now. Sent: in doubt. Answered: the link is in the journal."""
    die(lender, night, how, monkeypatch)
    with open_journal(lender.folder / "home") as journal:
        assert journal.runs.newest()[0].state == KILLED
    found = lender.offer(night)
    is_lost = word == "in_doubt"
    assert {row["state"] for row in found.offers.values()} == {word}
    assert all((row["url"] is None) is is_lost for row in found.offers.values())
    assert len(lender.sandbox.loans.loans) == (0 if is_lost else len(chosen(night)))


def test_two_runs_at_once_make_one_link_each(lender: Lender, night: Night) -> None:
    """Begun together on one journal, each customer is offered by one of them.

    Neither contacts and names nor references and links lie in the clear at HOME; report and calls
    have none either.
    """

    async def both() -> list[Offered]:
        asked = lender.asked(night, {})
        return list(await asyncio.gather(*(lender.ran(LoanOffers, asked) for _ in range(2))))

    done = asyncio.run(both())
    made = [row for each in done for row in each.offers.values() if row["state"] == "offered"]
    assert sorted(row["customer_id"] for row in made) == sorted(chosen(night))
    assert len(lender.calls("loan_start")) == len(chosen(night))
    personal = ("email", "phone", "customer_name", "reference", "url")
    secrets = [row[name].encode() for row in made for name in personal]
    home = lender.folder / "home"
    files = [path for path in home.rglob("*") if path.is_file()]
    plain = ("report.json", "manifest.json", "calls.parquet")
    for path in (*files, *(each.folder / name for each in done for name in plain)):
        content = path.read_bytes()
        assert not [each for each in secrets if each in content], path
    with open_journal(home) as journal:
        assert verify_journal(journal) == []
        assert len(linked_offers(journal)) == len(made)
