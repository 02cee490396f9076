"""Outcomes: a lender's loan book becomes evidence of whether decisions were right."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from nightscreen.config.settings import GROUNDS
from nightscreen.journal.erasure import Erasures
from nightscreen.journal.records import Records
from nightscreen.operations.loan_book import import_outcomes
from nightscreen.policy.load import check_policy
from nightscreen.results import backtest as backtests
from nightscreen.results.backtest import backtest, past_run
from nightscreen.results.outcomes import LoanPerformance, known_outcomes, wilson
from nightscreen.schemas.errors import InputError
from nightscreen.schemas.offers import LinkState, LoanSnapshot, LoanView, Offer
from nightscreen.schemas.outcomes import BadLoan
from nightscreen.schemas.policy import Policy
from tests.results.enriched_in_a_test import enriched_row
from tests.results.loan_book_in_a_test import HEADINGS, POLICY, Book, loan, year
from tests.results.nights_in_a_test import BATCH, DAY
from tests.results.reviewing import filled, save
from tests.screening import csv_rows

BETTER = Path(__file__).with_name("looks_at_arrears.toml").read_text("utf-8")


def policy(text: str) -> Policy:
    found = check_policy(text)
    assert found.policy is not None, found.issues
    return found.policy


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> tuple[Book, list[Path]]:
    """A year of nights and of the loans that followed, to be read only."""
    book = Book(tmp_path_factory.mktemp("year"))
    return book, year(book, months=6, applicants=60)


@pytest.fixture
def book(tmp_path: Path) -> Book:
    return Book(tmp_path)


def after(book: Book, *decisions: str) -> Book:
    rows = [
        enriched_row(chr(65 + place), decision=decision, reasons=["OLD"])
        for place, decision in enumerate(decisions)
    ]
    book.night("20260301-220000-a1b2c3", rows)
    return book


def test_a_loan_is_tied_to_the_decision_that_stood_when_the_money_went_out(book: Book) -> None:
    """Not to an earlier one, nor to one that came later; policy and reasons go with it."""
    rows = {"decision": "approve", "reasons": ["OLD"]}
    book.night("20260301-220000-aaaaaa", [enriched_row("A", decision="review", reasons=["FIRST"])])
    book.night("20260302-220000-bbbbbb", [enriched_row("A", **rows)], policy="second@2")
    paid_out = book.today
    book.nights.now += 2 * DAY
    book.night("20260305-220000-cccccc", [enriched_row("A", decision="decline")], policy="third@3")
    report = book.take([loan("A", paid_out), loan("B", paid_out)])
    assert report["loans"]["decided"] == report["loans"]["never_decided"] == 1
    found = {each.customer_id: each.stood for each in known_outcomes(book.nights.journal)}
    assert found["B"] is None
    stood = found["A"]
    assert stood is not None
    assert (stood.decision, stood.reasons, stood.policy) == ("approve", ("OLD",), "second@2")
    assert (stood.run_id, stood.batch) == ("20260302-220000-bbbbbb", BATCH)


def test_a_review_that_stood_is_the_decision(book: Book) -> None:
    """While it stands, and on the evidence it was given on; a later one does not count."""
    after(book, "decline")
    save(book.nights.journal, filled("A", "20260301-220000-a1b2c3", "approve"))
    before = book.today - timedelta(days=1)
    book.take([loan("A", book.today), loan("A", before, loan_id="LN-earlier")])
    stood = [each.stood for each in known_outcomes(book.nights.journal)]
    assert [each and (each.decision, each.decided_by) for each in stood] == [
        ("approve", "review"),
        ("decline", "policy"),
    ]


def test_headings_of_loan_systems_and_bad_rows_are_taken_as_in_any_file(book: Book) -> None:
    """What cannot be tied is refused with line and reason; the rest is taken in, words and all."""
    after(book, "approve", "approve")
    day = book.today
    rows = [
        loan("A", day, status="Running", principal="₦100,000"),
        loan("22212345678", day, loan_id="L2"),
        loan("B", day, loan_id="", status="Gone fishing", days_past_due="many"),
        loan("B", day, loan_id="L4", disbursed_at="", status="Gone fishing"),
        loan("B", day, loan_id="L5", as_of=day - timedelta(days=3)),
        loan("A", day),
        loan("B", day, loan_id="L7", status="Gone fishing"),
        loan("B", day, loan_id="L8", status="Reversed", disbursed_at=""),
    ]
    report = book.take(rows)
    assert report["rows"] == {"read": 8, "screened": 3, "quarantined": 5}
    folder = book.folder / "out" / report["run_id"]
    refused = {(row["line"], row["code"]) for row in csv_rows(folder / "quarantine.csv")}
    assert refused == {
        ("3", "customer_id_is_bvn"),
        ("4", "loan_id_missing"),
        ("5", "disbursed_at_missing"),
        ("6", "as_of_before_disbursal"),
        ("7", "loan_day_repeated"),
    }
    warned = {(row["line"], row["code"]) for row in csv_rows(folder / "problems.csv")} - refused
    assert warned == {("8", "loan_status_unknown")}, "and nothing of a refused row"
    found = book.report()
    assert found["not_lent"] == 1
    assert found["total"]["lent"] == "200000.00"


def test_a_file_without_the_day_it_tells_of_is_refused_by_name(book: Book) -> None:
    """The message says how to name the column, or one day for all rows; a mapping does so."""
    after(book, "approve")
    own = {name: heading for name, heading in HEADINGS.items() if name != "as_of"}
    own["loan_id"] = "Dossier"
    path = book.write([loan("A", book.today)], own)
    journal, out = book.nights.journal, book.folder / "out"
    with pytest.raises(InputError, match=r"no loan_id column.*\[columns\] loan_id"):
        import_outcomes(journal, path, output=out)
    mapping = book.folder / "acme.toml"
    mapping.write_text('[columns]\nloan_id = "Dossier"\n', encoding="utf-8")
    with pytest.raises(InputError, match=r"no as_of column.*\[defaults\] as_of"):
        import_outcomes(journal, path, mapping=mapping, output=out)
    mapping.write_text(
        f'[columns]\nloan_id = "Dossier"\n[defaults]\nas_of = "{book.today}"\n', encoding="utf-8"
    )
    report = import_outcomes(journal, path, mapping=mapping, output=out)
    assert report["rows"]["screened"] == 1


DAYS: list[tuple[str, list[dict[str, Any]], str | None]] = [
    ("paid at maturity", [{"status": "Settled", "outstanding": 0, "on": 30}], "good"),
    ("open before maturity", [{"on": 20}], "young"),
    ("open after maturity, still in time", [{"on": 60, "days_past_due": 29}], "young"),
    ("thirty days past due", [{"on": 60, "days_past_due": 30}], "bad"),
    (
        "thirty days past due, then paid",
        [
            {"on": 61, "days_past_due": 31},
            {"status": "Paid", "outstanding": 0, "on": 80},
        ],
        "bad",
    ),
    (
        "late days told after the settled one",
        [
            {"status": "Paid", "outstanding": 0, "on": 80},
            {"on": 61, "days_past_due": 31},
        ],
        "bad",
    ),
    ("late only when the window is over", [{"on": 95, "days_past_due": 4}], "good"),
    ("written off", [{"status": "Written Off", "on": 20}], "bad"),
    ("first instalment missed", [{"on": 25, "days_past_due": 10, "paid": 0}], "bad"),
    ("instalment late, others paid", [{"on": 25, "days_past_due": 10, "paid": 5000}], "young"),
    ("reversed", [{"on": 3}, {"status": "Reversed", "on": 4}], None),
    ("declined", [{"status": "Declined", "on": 0}], None),
    ("no days told, past maturity", [{"on": 65, "days_past_due": ""}], "bad"),
    ("rescheduled", [{"status": "Rescheduled", "on": 51}], "young"),
    ("same day corrected", [{"on": 60, "days_past_due": 90}, {"on": 60}], "young"),
]


def test_what_loans_count_as(book: Book) -> None:
    """By the day they were past due, whichever day is told first; a later day replaces.

    What is bad is a setting: the same days count otherwise under another, without another import.
    """
    start = book.today
    book.nights.now += 200 * DAY
    for number in range(2):
        told = [(what, dict(days[number])) for what, days, _ in DAYS if number < len(days)]
        book.take(
            loan("A", start, loan_id=what, as_of=start + timedelta(days=cells.pop("on")), **cells)
            for what, cells in told
        )
    found = {each.loan_id: each for each in known_outcomes(book.nights.journal)}
    counted = {what: each.judge(BadLoan()) for what, each in found.items()}
    assert counted == {what: counts_as for what, _, counts_as in DAYS}
    late, rescheduled = found["open after maturity, still in time"], found["rescheduled"]
    assert late.judge(BadLoan(days_past_due=15)) == "bad"
    assert rescheduled.judge(BadLoan(restructured=True)) == "bad"


def test_a_book_that_comes_again_changes_what_differs_and_nothing_else(book: Book) -> None:
    """An import that was killed half way is done by importing again.

    A corrected customer id brings its own decision, in one file as in a later one.
    """
    after(book, "approve", "review")
    wrong = loan("A", book.today)
    right = loan("B", book.today, loan_id=wrong["loan_id"], as_of=book.today + timedelta(days=20))
    for number, takes in enumerate(([[wrong, right]], [[wrong], [wrong], [right]])):
        counts = [book.take({**each, "loan_id": f"LN-{number}"} for each in file) for file in takes]
    assert [(each["loans"]["new"], each["loans"]["changed"]) for each in counts[:2]] == [
        (1, 0),
        (0, 0),
    ]
    found = known_outcomes(book.nights.journal)
    assert [(each.customer_id, each.stood and each.stood.decision) for each in found] == [
        ("B", "review")
    ] * 2


def test_loans_followed_here_count_without_a_book(book: Book) -> None:
    """Settled is good, past due is counted from the day it was first seen, rejected is none."""
    after(book, "approve", "approve", "approve")
    journal = book.nights.journal
    offers = Records(journal, Offer)
    lives = {
        "A": ["PENDING", "RUNNING", "SETTLED"],
        "B": ["RUNNING", "PAST_DUE"],
        "C": ["REJECTED"],
    }
    for who, words in lives.items():
        offer = Offer(
            subject=journal.pseudonyms.subject("loan offer", who),
            customer=journal.pseudonyms.customers_anywhere([who]),
            batch=BATCH,
            product_id="LP1",
            number=1,
            run_id="offers",
            source_run_id="20260301-220000-a1b2c3",
            decision="approve",
            state=LinkState.OFFERED,
            at=book.nights.now,
            customer_id=who,
            reference=f"REF-{who}",
        )
        offers.add([offer])
        history = tuple(
            LoanView(
                book.nights.now + number * DAY,
                "track",
                LoanSnapshot(status=word, amount_disbursed=Decimal(50_000), paid=Decimal(0)),
            )
            for number, word in enumerate(words)
        )
        followed = {"history": history, "followed_at": book.nights.now + 40 * DAY}
        offers.put([offer.model_copy(update=followed)], book.nights.now)
    found = {each.customer_id: each for each in known_outcomes(journal)}
    assert {who: each.judge(BadLoan()) for who, each in found.items()} == {"A": "good", "B": "bad"}
    assert found["B"].stood is not None
    assert found["B"].stood.decision == "approve"
    # what was seen first stays as long as the loan is followed: it tells when the money went out
    Erasures(journal).purge(
        {**dict.fromkeys(GROUNDS, 0), "decisions": book.nights.now + 30 * DAY}, ()
    )
    for each in known_outcomes(journal):
        assert each == found[each.customer_id].model_copy(update={"stood": None})
    book.take([loan("B", book.today, loan_id="REF-B", status="Settled", outstanding=0)])
    assert book.report()["total"]["loans"] == 2


def test_a_year_shows_rates_by_reason_policy_and_month_and_what_rules_cost(
    lived: tuple[Book, list[Path]],
) -> None:
    """Counts add up to the loans of the book, and the risky reason is caught."""
    found = lived[0].report()
    total = found["total"]
    for part in ("decisions", "policies", "vintages", "decided_by"):
        assert sum(each["loans"] for each in found[part]) == total["loans"]
    assert total["loans"] == total["good"] + total["bad"] + total["young"]
    assert [each["policy"] for each in found["policies"]] == [POLICY]
    assert len(found["vintages"]) == 6
    (reason,) = found["reasons"]
    assert reason["reason"] == "PAST_DUE"
    assert reason["caught"] > 2 * reason["cost"]
    assert reason["bad_rate"]["low"] > total["bad_rate"]["value"]
    assert float(total["lost"]) == 110_000 * total["bad"]


def test_backtest_of_a_year_shows_the_better_policy_to_be_better(
    lived: tuple[Book, list[Path]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who would move paid worse than who stays; the never lent to are counted, not guessed."""
    monkeypatch.setattr(backtests, "_BLOCK_ROWS", 50)  # more portions than one
    book, folders = lived
    paid = LoanPerformance.of(book.nights.journal, BadLoan())
    runs = [past_run(folder) for folder in folders]
    found = backtest(runs, policy(BETTER), paid=paid).document()
    moved = found["outcomes"]
    assert moved["verdict"] == "better"
    assert (
        moved["approved_before"]["bad_rate"]["value"] > moved["approved_after"]["bad_rate"]["value"]
    )
    assert moved["unproven"] == moved["newly_approved"]["rows"] > 0
    lent = [row["loans"] for row in moved["cells"] if row["from"] == "decline"]
    assert sum(lent) == 0
    for cell in moved["cells"]:
        assert cell["never_lent"] == cell["rows"] - cell["loans"]
    total = book.report()["total"]
    assert sum(cell["bad"] for cell in moved["cells"]) == total["bad"]


def verdict_on(book: Book, rows: list[dict[str, Any]], ends: list[str], strict: str) -> Any:  # noqa: ANN401 - a document
    """Return what the loans that ended so say of a policy, had it decided about these rows."""
    folder = book.night("20260301-220000-a1b2c3", rows)
    start = book.today
    book.nights.now += 200 * DAY
    book.take(
        loan(row["customer_id"], start, status=word, outstanding=0)
        for row, word in zip(rows, ends, strict=False)
    )
    paid = LoanPerformance.of(book.nights.journal, BadLoan())
    return backtest([past_run(folder)], policy(strict), paid=paid).document()["outcomes"]


def test_a_policy_that_moves_reviewed_customers_is_judged_by_those_who_stay_reviewed(
    book: Book,
) -> None:
    """Loans after a review say whether it declines the right ones of those: here the wrong ones."""
    history = {"ecosystem_status": "found", "decision": "review"}
    rows = [
        enriched_row(f"R{number}", ecosystem_past_due_loans=number % 2, **history)
        for number in range(60)
    ]
    strict = BETTER.replace('effect = "approve"', 'effect = "review"')
    found = verdict_on(book, rows, ["Written Off", "Settled"] * 30, strict)
    moves = {(each["from"], each["to"]) for each in found["cells"]}
    assert moves == {("review", "review"), ("review", "decline")}
    assert found["verdict"] == "worse"


def test_too_few_loans_tell_nothing(book: Book) -> None:
    """One bad loan among those who would move is no proof."""
    rows = [enriched_row(each, decision="approve") for each in "ABC"]
    strict = BETTER.replace("ecosystem_past_due_loans > 0", "customer_id = 'A'")
    found = verdict_on(book, rows, ["Written Off", "Settled"], strict)
    assert found["verdict"] == "cannot_tell"
    assert found["no_longer_approved"]["bad"] == 1


def test_small_numbers_have_wide_intervals() -> None:
    """Wilson's interval: none of three is no zero; nothing known is nothing said."""
    assert wilson(0, 0) is None
    low, high = wilson(0, 3) or (1, 0)
    assert low == 0
    assert high == pytest.approx(0.5615, abs=1e-3)
    low, high = wilson(30, 100) or (1, 0)
    assert low == pytest.approx(0.2189, abs=1e-3)
    assert high == pytest.approx(0.3958, abs=1e-3)
