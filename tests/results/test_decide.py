"""Decisions: the default policy by cases, missing evidence, and that nothing but the row counts."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from functools import cache
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightscreen.policy.load import load_policy
from nightscreen.policy.vocabulary import words
from nightscreen.results.decide import decide
from nightscreen.schemas.errors import PolicyError
from nightscreen.schemas.policy import Policy, PolicyRule
from tests.how_many import examples
from tests.policy.policy_rows import NO_HISTORY, STATUSES, enriched
from tests.results.enriched_in_a_test import listed


def rule(code: str, effect: str, when: str) -> PolicyRule:
    return PolicyRule.model_validate(
        {"code": code, "effect": effect, "when": when, "team": "t", "customer": "c"}
    )


def policy(*rules: PolicyRule, carried: tuple[str, ...] = ()) -> Policy:
    return Policy(name="test", version="1", rules=rules, carried=carried)


CLEAR = rule("CLEAR", "approve", "karma_status = 'clear' and bank_account_status = 'verified'")


def said(
    rows: pa.Table, by: Policy | None = None, *, purpose: str | None = None
) -> list[tuple[str, list[str]]]:
    """Return decision and reasons of each row, by the default policy where none is given."""
    found = decide(rows, by or load_policy(), purpose=purpose)
    return list(zip(found["decision"].to_pylist(), found["reasons"].to_pylist(), strict=True))


def in_words(decided: tuple[str, list[str]]) -> str:
    return " ".join((decided[0], *decided[1]))


THIN = {**NO_HISTORY, "ecosystem_status": "not_found"}
REFUSED = {**NO_HISTORY, "ecosystem_status": "refused"}


def past_due(loans: int | None, amount: str | int | None, **more: Any) -> dict[str, Any]:  # noqa: ANN401 - any cell
    """Return the columns of a customer with loans past due elsewhere."""
    owed = None if amount is None else Decimal(amount)
    found = {"ecosystem_past_due_loans": loans, "ecosystem_past_due_loan_amount_due": owed}
    return {**found, **more}


CASES: dict[str, tuple[dict[str, Any], str]] = {
    "nothing against": ({}, "approve APPROVE"),
    "in default": (listed(5000), "decline KARMA_DEFAULT"),
    "a fraud": (listed(5000, karma_type="Fraud"), "decline KARMA_FRAUD"),
    "a victim": (listed(90_000, karma_type="Identity theft"), "review KARMA_IDENTITY"),
    "others": (listed(90_000, karma_type="Others"), "review KARMA_OTHER"),
    "a new word": (listed(90_000, karma_type="Suspected fraud"), "review KARMA_OTHER"),
    "no word": (listed(90_000, karma_type=None), "review KARMA_OTHER"),
    "listed long ago": (listed(90_000, since=date(2021, 3, 1)), "review KARMA_WEAK"),
    "listed just within the years": (
        listed(90_000, since=date(2021, 3, 2)),
        "decline KARMA_DEFAULT",
    ),
    "listed since nobody knows": (listed(90_000, since=None), "review KARMA_WEAK"),
    "listed for little": (listed(4999), "review KARMA_WEAK"),
    "listed without an amount": (listed(None), "review KARMA_WEAK"),
    "listed by phone": (listed(50_000, kind="phone"), "review KARMA_WEAK"),
    "past due": (past_due(1, 5000), "decline PAST_DUE"),
    "past due for little": (past_due(1, "4999.99"), "approve APPROVE PAST_DUE"),
    "past due for an unknown amount": (past_due(2, None), "review PAST_DUE"),
    "past due for little of the exposure": (
        past_due(1, 9_999, exposure=Decimal(100_000)),
        "review PAST_DUE",
    ),
    "past due, exposure unknown": (past_due(1, 5_000, exposure=None), "decline PAST_DUE"),
    "stacking": ({"ecosystem_running_loans": 3}, "approve APPROVE STACKING"),
    "several lenders by the account": ({"tx_lenders": 3}, "approve APPROVE REPAYS_SEVERAL"),
    "two lenders by the account": ({"tx_lenders": 2}, "approve APPROVE"),
    "unaffordable, nothing requested": ({"tx_affordable": None}, "approve APPROVE"),
    "two loans": ({"ecosystem_running_loans": 2}, "approve APPROVE"),
    "a victim with somebody's loans past due": (
        {**listed(90_000, kind="phone", karma_type="Identity theft"), **past_due(1, 90_000)},
        "review KARMA_IDENTITY KARMA_WEAK PAST_DUE",
    ),
    "unknown loans": ({"ecosystem_running_loans": None}, "approve APPROVE HISTORY_INCOMPLETE"),
    "another's account": ({"bank_account_status": "mismatch"}, "review ACCOUNT_NOT_OWN"),
    "no such account": ({"bank_account_status": "not_found"}, "review ACCOUNT_NOT_FOUND"),
    "account unconfirmed": ({"bank_account_status": "unconfirmed"}, "review ACCOUNT_UNCONFIRMED"),
    "another name": ({"ecosystem_name_match": "none"}, "review IDENTITY_CONFLICT"),
    "another birthday": ({"ecosystem_dob_match": False}, "review IDENTITY_CONFLICT"),
    "no birthday": ({"ecosystem_dob_match": None}, "approve APPROVE"),
    "thin file": (THIN, "approve APPROVE THIN_FILE"),
    "thin, large": ({**THIN, "exposure": Decimal(100_000)}, "approve APPROVE THIN_FILE"),
    "thin, unknown": ({**THIN, "exposure": None}, "approve APPROVE THIN_FILE"),
    "unknown exposure": ({"exposure": None}, "approve APPROVE"),
    "no consent": (REFUSED, "approve APPROVE NO_CONSENT"),
    "ecosystem off": ({**NO_HISTORY, "ecosystem_status": "off"}, "approve APPROVE"),
    "no bvn": ({**NO_HISTORY, "ecosystem_status": "ineligible"}, "approve APPROVE"),
    "karma not possible": (
        {"karma_status": "ineligible", "karma_listings": None},
        "review DETAILS_MISSING",
    ),
    "everything at once": (
        {
            **listed(20_000),
            **past_due(1, 9000, bank_account_status="mismatch", ecosystem_running_loans=5),
        },
        "decline KARMA_DEFAULT PAST_DUE ACCOUNT_NOT_OWN STACKING",
    ),
}
"""Rows, and the decision and reasons of each, decisive reasons first."""


def test_the_default_policy_by_cases() -> None:
    found = said(enriched([row for row, _ in CASES.values()]), purpose="portfolio")
    assert dict(zip(CASES, map(in_words, found), strict=True)) == {
        name: expected for name, (_, expected) in CASES.items()
    }


APPLICANTS: list[tuple[dict[str, Any], str]] = [
    (REFUSED, "review NO_CONSENT"),
    ({"ecosystem_running_loans": 3}, "review STACKING"),
    ({"tx_affordable": False}, "review UNAFFORDABLE"),
    ({"tx_affordable": True, "tx_lenders": 2}, "approve APPROVE"),
    ({"tx_lenders": 3}, "review REPAYS_SEVERAL"),
    ({**THIN, "exposure": Decimal(99_999)}, "approve APPROVE THIN_FILE"),
    ({**THIN, "exposure": Decimal(100_000)}, "review THIN_FILE"),
    ({**THIN, "exposure": None}, "review THIN_FILE"),
    (past_due(1, 1), "review PAST_DUE"),
    ({"ecosystem_running_loans": None}, "review HISTORY_INCOMPLETE"),
    ({"ecosystem_past_due_loans": None}, "review HISTORY_INCOMPLETE"),
]


def test_an_applicant_is_asked_for_what_a_borrower_is_not() -> None:
    """The purpose of the run is there for conditions to name."""
    found = said(enriched([row for row, _ in APPLICANTS]), purpose="origination")
    assert [*map(in_words, found)] == [expected for _, expected in APPLICANTS]


KINDS_OF_LISTING = {
    ("decline", "KARMA_DEFAULT"): (
        *("Loan Default", "LOAN_DEFAULT", "default", " Chronic defaulter ", "Loan-Defaulter"),
    ),
    ("decline", "KARMA_FRAUD"): ("FRAUD", "loan fraud", "Fraudster"),
    ("review", "KARMA_IDENTITY"): (
        *("Identity fraud", "IDENTITY THEFT", "Impersonation", "Fraud victim", "False identity"),
    ),
    ("review", "KARMA_OTHER"): ("Not a default", "No fraud", "", "Écart", "default?"),
}


def test_a_kind_of_listing_is_known_in_any_writing_and_else_reviewed() -> None:
    kinds = {word: kind for kind, written in KINDS_OF_LISTING.items() for word in written}
    found = said(enriched([listed(90_000, karma_type=word) for word in kinds]), purpose="portfolio")
    assert {
        word: (decision, *reasons) for word, (decision, reasons) in zip(kinds, found, strict=True)
    } == kinds


RANK = {"approve": 0, "undecided": 1, "review": 2, "decline": 3}
harmless = st.fixed_dictionaries(
    {
        "ecosystem_status": st.just("found"),
        "ecosystem_past_due_loans": st.sampled_from([0, None]),
        "ecosystem_past_due_loan_amount_due": st.sampled_from([Decimal(0), None]),
        "ecosystem_running_loans": st.none() | st.integers(0, 2),
        "ecosystem_name_match": st.sampled_from(["strong", "likely", "business", None]),
        "ecosystem_dob_match": st.sampled_from([True, None]),
    }
) | st.just(THIN)


anybody = st.fixed_dictionaries(
    {
        "karma_status": st.sampled_from(words()["karma_status"]),
        "bank_account_status": st.sampled_from(words()["bank_account_status"]),
        "selfie_status": st.sampled_from(words()["selfie_status"]),
        "exposure": st.none() | st.integers(0, 500_000).map(Decimal),
        "karma_type": st.sampled_from(["Loan default", "Fraud", "Identity theft", None]),
    }
)


@given(
    st.lists(st.tuples(anybody, harmless), min_size=25, max_size=60),
    st.sampled_from(["portfolio", "origination"]),
)
@settings(max_examples=examples(12), deadline=None)
def test_giving_consent_never_worsens_a_decision_where_nothing_adverse_is_found(
    people: list[tuple[dict[str, Any], dict[str, Any]]], purpose: str
) -> None:
    """Whoever consents and has nothing against them is never worse off than one who withholds."""
    rows = [
        {**row, **listed(90_000, karma_type=row["karma_type"])}
        if row["karma_status"] == "listed"
        else {**row, "karma_listings": [] if row["karma_status"] == "clear" else None}
        for row, _ in people
    ]
    withheld = said(enriched([{**row, **REFUSED} for row in rows]), purpose=purpose)
    consented = said(
        enriched([{**row, **history} for row, (_, history) in zip(rows, people, strict=True)]),
        purpose=purpose,
    )
    for row, (before, _), (after, _) in zip(rows, withheld, consented, strict=True):
        assert RANK[after] <= RANK[before], row


@pytest.mark.parametrize(
    ("column", "values", "expected"),
    [
        ("bvn_watchlisted", [1, 0, None], ["decline", "approve", "approve"]),
        ("bvn_watchlisted", [True, False, None], ["decline", "approve", "approve"]),
        ("bvn_watchlisted", ["1", "0", None], ["approve", "approve", "approve"]),
        ("batch_same_bvn", [1, 0, None], ["review", "approve", "approve"]),
        ("batch_account_bvns", [2, 1, None], ["review", "approve", "approve"]),
    ],
)
def test_columns_of_later_stations_count_where_they_are(
    column: str, values: list[Any], expected: list[str]
) -> None:
    """A signal or BVN detail decides; without it nothing is missing; a carried text is none."""
    rows = enriched([{}, {}, {}], {column: values})
    assert [decision for decision, _ in said(rows)] == expected


def test_a_row_with_an_open_check_is_never_approved() -> None:
    words = ("in_doubt", "failed", "pending", "test_mode", "unreadable")
    rows = [{**NO_HISTORY, column: word} for column in STATUSES for word in words]
    assert [decision for decision, _ in said(enriched(rows))] == ["undecided"] * len(rows)


def test_a_decline_stands_though_another_check_is_open() -> None:
    """What is known is enough to decline; test mode alone decides nothing at all."""
    in_default = listed(5000)
    open_row = {**in_default, "bank_account_status": "failed"}
    test_row = {**in_default, "bank_account_status": "test_mode"}
    assert said(enriched([open_row, test_row])) == [
        ("decline", ["KARMA_DEFAULT"]),
        ("undecided", []),
    ]


def test_an_approve_rule_needs_an_answer_of_each_check_it_names() -> None:
    """`not listed` is no evidence where nobody was asked."""
    lax = policy(rule("LAX", "approve", "karma_status <> 'listed' or exposure < 1"))
    unasked = [{"karma_status": word} for word in ("off", "ineligible", "invalid", "refused")]
    assert said(enriched([*unasked, {}]), lax) == [
        *[("undecided", [])] * len(unasked),
        ("approve", ["LAX"]),
    ]


@pytest.mark.parametrize(
    ("when", "decisions"),
    [
        ("cast(email as integer) > 3", ["undecided", "undecided", "approve", "review"]),
        ("exposure / (ecosystem_running_loans - 1) > 3", ["undecided"] * 4),
        ("json_extract_string(ecosystem_extra, '$.a') = '1'", ["undecided"] * 4),
        (
            "length(email) > 3 and cast(email as integer) + cast(email as integer) > 3",
            ["undecided", "undecided", "approve", "review"],
        ),
    ],
)
def test_a_condition_that_fails_holds_an_approval_back(when: str, decisions: list[str]) -> None:
    """A word that is no number, a division by zero, a blank: the row alone stays undecided."""
    rows = enriched([{"email": "x"}, {"email": None}, {"email": "1"}, {"email": "4444"}])
    found = said(rows, policy(rule("ODD", "review", when), CLEAR))
    assert [decision for decision, _ in found] == decisions


def test_columns_a_lender_carries_can_be_named() -> None:
    """A carried column is text; a batch without it leaves such rules untold."""
    by = policy(rule("PAYDAY", "review", "product = 'payday'"), CLEAR, carried=("product",))
    rows = enriched([{}, {}], {"product": ["payday", "salary"]})
    assert [decision for decision, _ in said(rows, by)] == ["review", "approve"]
    assert [decision for decision, _ in said(enriched([{}]), by)] == ["undecided"]


def test_a_policy_with_a_mistake_decides_nothing() -> None:
    """A policy that did not come through the check is checked all the same."""
    bad = policy(rule("BAD", "decline", "(select 1) = 1"), CLEAR)
    with pytest.raises(PolicyError, match="BAD a subquery"):
        decide(enriched([{}]), bad)


made = st.fixed_dictionaries(
    {name: st.sampled_from(words()[name]) for name in STATUSES}
    | {
        "exposure": st.none() | st.integers(0, 200_000).map(Decimal),
        "ecosystem_running_loans": st.none() | st.integers(0, 5),
        "ecosystem_past_due_loans": st.none() | st.integers(0, 2),
        "ecosystem_past_due_loan_amount_due": st.none() | st.integers(0, 9000).map(Decimal),
        "ecosystem_dob_match": st.none() | st.booleans(),
        "email": st.sampled_from([None, "12", "x", "3"]),
    }
)


@cache
def hard() -> Policy:
    default = load_policy()
    number = rule("NUMBER", "review", "cast(email as integer) > 5")
    return default.model_copy(update={"rules": (*default.rules[:-3], number)})


@settings(max_examples=examples(12), deadline=None)
@given(st.lists(made, min_size=1, max_size=12), st.integers(0, 11), st.randoms())
def test_nothing_but_the_row_counts(rows: list[dict[str, Any]], cut: int, random: Random) -> None:
    """Order, portions and neighbours change no decision; a row in need of evidence is held."""
    table = enriched(rows)
    whole = said(table, hard())
    order = list(range(len(rows)))
    random.shuffle(order)
    assert said(table.take(order), hard()) == [whole[place] for place in order]
    cut = min(cut, len(rows))
    assert said(table.slice(0, cut), hard()) + said(table.slice(cut), hard()) == whole
    held = {"in_doubt", "failed", "pending", "test_mode", "unreadable"}
    for row, (decision, _) in zip(rows, whole, strict=True):
        if decision == "approve":
            assert held.isdisjoint(row[name] for name in STATUSES)
            assert (row["karma_status"], row["bank_account_status"]) == ("clear", "verified")


def test_a_failing_note_or_approval_stops_nothing() -> None:
    """A note that cannot be told is not told; an approve rule that fails does not approve."""
    by = policy(
        CLEAR,
        rule("WILD", "approve", "karma_status = 'clear' and cast(email as integer) > 3"),
        rule("REMARK", "note", "cast(email as integer) > 3"),
    )
    assert said(enriched([{"email": "x"}]), by) == [("approve", ["CLEAR"])]
