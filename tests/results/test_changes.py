"""Changes: every change is reported once and right, over nights, stops, crashes and resumptions."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightscreen.checks.declaration import Column, Compare, Kind
from nightscreen.results.changes import field_kind, merged, states_of
from nightscreen.schemas.decisions import ChangeKind, CheckState, State
from tests.how_many import examples
from tests.results.enriched_in_a_test import (
    ASKED_AT,
    CLEAR,
    PENDING,
    enriched_row,
    enriched_table,
    listed,
)
from tests.results.nights_in_a_test import Nights


def after(days: int, **cells: Any) -> dict[str, Any]:  # noqa: ANN401 - any cell
    """Return cells with a karma answer of some days later."""
    return {**cells, "karma_checked_at": ASKED_AT + timedelta(days=days)}


def kinds(told: list[dict[str, Any]]) -> list[str]:
    return sorted(each["kind"] for each in told)


@pytest.fixture
def nights(tmp_path: Path) -> Iterator[Nights]:
    found = Nights(tmp_path)
    yield found
    found.journal.close()


def test_nights_tell_every_change_once_and_what_it_was_before(nights: Nights) -> None:
    """A new listing is reported on its night alone; so are its end and who came and went.

    Old and new value, the run that saw the old one and when it was answered are there.
    """
    b, d = enriched_row("B"), enriched_row("D")
    assert kinds(nights.night("run-1", enriched_row("A"), b, enriched_row("C"))) == ["new"] * 3
    second = nights.night("run-2", enriched_row("A", **after(1, **listed("5000"))), b, d)
    assert set(kinds(second)) == {"gone", "new", "new_listing"}
    (third,) = nights.night("run-3", enriched_row("A", **after(2, **listed("9000.50"))), b, d)
    assert third == {
        "customer": nights.pseudonym("A").hex(),
        "check": "karma",
        "field": "karma_amount_in_contention",
        "kind": "worse",
        "old": "5000",
        "new": "9000.5",
        "previous_run_id": "run-2",
        "previous_at": ASKED_AT + timedelta(days=1),
        "run_id": "run-3",
    }
    assert set(kinds(nights.night("run-4", enriched_row("A", **after(3)), b, d))) == {"cleared"}
    assert kinds(nights.night("run-5", enriched_row("A", **after(3)), b)) == ["gone"]


def test_a_killed_run_tells_the_same_when_it_is_resumed(nights: Nights) -> None:
    """States kept, and the process dead before the run's end: nothing is told twice or lost."""
    nights.night("run-1", enriched_row("A"), enriched_row("B"))
    rows = [enriched_row("A", **after(1, **listed())), enriched_row("N")]
    nights.compare("run-2", rows).save_states()
    once = nights.told("run-2")
    nights.now += 3_600_000_000
    again = nights.night("run-2", *rows)
    assert sorted(map(str, again)) == sorted(map(str, once))
    assert set(kinds(once)) == {"new_listing", "new", "gone"}
    assert nights.night("run-3", *rows) == []


def test_a_resumed_run_tells_what_it_had_not_reached_and_what_it_had(nights: Nights) -> None:
    """A stopped night and its resumption are one night, compared with the one before both.

    An older run that is resumed after a newer one does not undo it: the newest answer stays.
    """
    nights.night("run-1", enriched_row("A"), enriched_row("B", **listed()))
    a = enriched_row("A", **after(1, **listed()))
    stopped = nights.night("run-2", a, enriched_row("B", **PENDING))
    assert set(kinds(stopped)) == {"new_listing"}
    whole = [a, enriched_row("B", **after(1, **CLEAR))]
    assert set(kinds(nights.night("run-2", *whole))) == {"new_listing", "cleared"}
    assert nights.night("run-3", *whole) == []
    newest = [a, enriched_row("B", **after(4, **listed()))]
    nights.night("run-4", *newest)
    nights.night("run-2", *whole)
    assert nights.night("run-5", *newest) == []


def test_names_are_not_shown(nights: Nights) -> None:
    """Of a field that identifies only that it differs is reported; the file has no customer id."""
    nights.night("run-1", enriched_row("CUST-77"))
    other = {
        "bank_account_name": "BELLO HASSAN",
        "name_match": "none",
        "bank_account_bvn_match": False,
        "bank_account_status": "mismatch",
        "bank_account_checked_at": ASKED_AT + timedelta(days=1),
    }
    told = {each["field"]: each for each in nights.night("run-2", enriched_row("CUST-77", **other))}
    assert told["bank_account_name"]["new"] == "(differs)"
    assert told["bank_account_status"]["kind"] == "worse"
    data = (nights.folder("run-2").path / "changes.parquet").read_bytes()
    assert not any(word in data for word in (b"HASSAN", b"AMAKA", b"CUST-77", b"22212345678"))


KARMA = st.sampled_from(
    [None, "pending", "clear", "bvn 100", "bvn 900", "phone 100", "bvn 100 Other"]
)


def karma_cells(word: str | None) -> dict[str, Any]:
    """Return the cells of a drawn karma answer; None is a customer who is not in the file."""
    if word in (None, "pending"):
        return PENDING
    if word == "clear":
        return CLEAR
    kind, amount, *reporter = word.split()
    return listed(amount, kind=kind, reporter=" ".join(reporter) or "Harbour")


def amount_of(word: str | None) -> str | None:
    amount = karma_cells(word).get("karma_amount_in_contention")
    return None if amount is None else str(amount)


@settings(max_examples=examples(25), deadline=None)
@given(st.lists(st.tuples(KARMA, KARMA, st.booleans()), min_size=1, max_size=5))
def test_the_told_changes_lead_from_any_night_to_the_next(
    tmp_path_factory: pytest.TempPathFactory, history: list[tuple[str | None, str | None, bool]]
) -> None:
    """Applying what each night told to what was known before gives the last answered state."""
    nights = Nights(tmp_path_factory.mktemp("nights"))
    told: dict[str, str | None] = {}
    answered: dict[str, str | None] = {}
    names = {nights.pseudonym(name).hex(): name for name in "AB"}
    for number, (*words, twice) in enumerate(history):
        said = {name: word for name, word in zip("AB", words, strict=True) if word is not None}
        rows = [
            enriched_row(name, **after(number, **karma_cells(word))) for name, word in said.items()
        ]
        for _ in range(1 + twice):
            changes = nights.night(f"run-{number}", *rows)
        of_karma = [each for each in changes if each["check"] == "karma"]
        answers = {name: word for name, word in said.items() if word != "pending"}
        first = answers.keys() - answered.keys() - {names[each["customer"]] for each in of_karma}
        told |= {name: amount_of(answers[name]) for name in first}
        told |= {
            names[each["customer"]]: each["new"]
            for each in of_karma
            if each["field"] == "karma_amount_in_contention"
        }
        answered |= answers
    assert {name: told[name] for name in answered} == {
        name: amount_of(word) for name, word in answered.items()
    }
    nights.journal.close()


VALUES = st.dictionaries(st.sampled_from(["karma_status"]), st.sampled_from(["clear", "listed"]))
PARTS = st.builds(CheckState, st.integers(0, 3), st.sampled_from(["r1", "r2"]), VALUES)
STATES = st.dictionaries(st.sampled_from(["karma", "decision", "selfie"]), PARTS)


@given(STATES, STATES)
def test_merging_keeps_the_newest_and_loses_no_check(old: State, new: State) -> None:
    """A merged state has every check, none older than it was; merging again changes nothing."""
    found = merged(old, new)
    assert found.keys() == old.keys() | new.keys()
    assert all(found[name].at >= part.at for name, part in old.items())
    assert merged(found, new) == found


@pytest.mark.parametrize(
    ("compare", "old", "new", "kind"),
    [
        (Compare.MORE_IS_WORSE, None, "3", ChangeKind.WORSE),
        (Compare.MORE_IS_WORSE, "3", "1", ChangeKind.BETTER),
        (Compare.MORE_IS_WORSE, None, "0", ChangeKind.CHANGED),
        (Compare.LISTING, "bvn", "bvn, phone", ChangeKind.NEW_LISTING),
        (Compare.LISTING, "bvn, phone", "bvn", ChangeKind.BETTER),
        (Compare.PLAIN, "1", "2", ChangeKind.CHANGED),
        (Compare.RANK, "good", "bad", ChangeKind.WORSE),
        (Compare.RANK, "bad", "good", ChangeKind.BETTER),
        (Compare.RANK, None, "bad", ChangeKind.CHANGED),
    ],
)
def test_kinds_of_change(
    compare: Compare, old: str | None, new: str | None, kind: ChangeKind
) -> None:
    assert field_kind(Column("field", Kind.WORD, "", compare, ("good", "bad")), old, new) is kind


def test_amounts_compare_whatever_their_scale() -> None:
    """Closing zeros are no change, whole thousands keep theirs."""
    rows = [
        enriched_row("A", **listed(amount), ecosystem_loan_amount_average=Decimal(average))
        for amount, average in (("1000.00", "0"), ("1000", "100.5"), ("0.50", "0.000001"))
    ]
    table = enriched_table([{**row, "ecosystem_status": "found"} for row in rows])
    states = states_of(table, run_id="r", at=1)
    amounts = [state["karma"].values["karma_amount_in_contention"] for state in states]
    averages = [state["ecosystem"].values["ecosystem_loan_amount_average"] for state in states]
    assert amounts == ["1000", "1000", "0.5"]
    assert averages == ["0", "100.5", "0.000001"]
