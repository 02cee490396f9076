"""Pulling transactions: what a pull keeps, tells and leaves alone."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from nightscreen.operations.pull import TransactionPull, list_request
from nightscreen.operations.pulled_records import PullStore
from nightscreen.sandbox.transactions import transactions_of
from nightscreen.schemas.consented import PulledKind, PullTransactions
from nightscreen.schemas.errors import InputError, UsageError
from nightscreen.schemas.stops import StopReason
from tests.operations.pulls_in_a_test import LIST, Lender, username
from tests.sandbox.in_process import quick_sandbox
from tests.screening import csv_rows


@pytest.fixture(autouse=True)
def no_cash_flow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the figures of cash flow, which take longer than a pull here."""
    monkeypatch.setattr("nightscreen.operations.pull.write_cash_flow", lambda *_: None)


@pytest.fixture
def lender(tmp_path: Path) -> Lender:
    return Lender(tmp_path)


def live(lender: Lender) -> set[str]:
    """Return who has a live grant."""
    with lender.consents() as consents:
        return {each.customer_id for each in consents.grants() if each.state == "live"}


def changes_between(customer: str, before: int, day: int) -> dict[str, list[str]]:
    """Return the ids of what the sandbox added, modified and removed between two days."""
    was, now = (
        {str(each["id"]): each for each in transactions_of(customer, then)}
        for then in (before, day)
    )
    return {
        "added": [each for each in now if each not in was],
        "modified": [each for each in now if each in was and now[each] != was[each]],
        "removed": [each for each in was if each not in now],
    }


def test_every_transaction_is_there_once_and_typed(lender: Lender) -> None:
    """What the sandbox lists stands in the output, each once, money exact and times in UTC.

    A quote saves nothing; a second pull of the same day tells no change and writes no part.
    """
    lender.consent(["C1", "C2"])
    quote = lender.pull(quote_only=True)
    assert (quote["rows"]["read"], quote["calls"]) == (2, 2)
    with lender.opened() as journal:
        assert PullStore(journal).pulls.all() == []
        assert journal.runs.newest() == []
    report = lender.pull()
    expected = {each: transactions_of(username(each)) for each in ("C1", "C2")}
    assert (report["state"], report["customers"]["pulled"]) == ("completed", 2)
    typed = lender.typed(report["run_id"])
    for customer, records in expected.items():
        mine = {row["transaction_id"]: row for row in typed if row["customer_id"] == customer}
        assert len(mine) == len(records)
        for record in records:
            row = mine[str(record["id"])]
            assert str(row["amount"]) == f"{record['amount']}0000"
            assert row["transaction_date"].isoformat()[:23] == str(record["transaction_date"])[:-1]
            assert row["bank_short_code"] == record["bank"]["short_code"]  # type: ignore[index]
    assert report["rows"]["read"] == sum(map(len, expected.values())) == len(typed)
    assert report["changes"]["added"] == len(typed)
    again = lender.pull()
    assert again["changes"] == dict.fromkeys(again["changes"], 0)
    assert again["transactions"] == {"written": 0, "file": None, "repeated": 0}
    assert lender.changes(again["run_id"]) == []
    assert len(list((lender.folder / "out" / "transactions").glob("*/*.parquet"))) == 1


def test_days_are_told_exactly_as_the_sandbox_made_them(lender: Lender) -> None:
    customers = [f"C{number}" for number in range(8)]
    lender.consent(customers)
    lender.pull()
    told_in_all = 0
    for day in (1, 2, 3):
        lender.sandbox.day = day
        report = lender.pull()
        told = lender.changes(report["run_id"])
        typed = {row["record_key"]: row for row in lender.typed()}
        for change in ("added", "modified", "removed"):
            expected = [
                each
                for customer in customers
                for each in changes_between(username(customer), day - 1, day)[change]
            ]
            found = [
                typed[row["record_key"]]["transaction_id"]
                for row in told
                if row["change"] == change
            ]
            assert sorted(found) == sorted(expected)
            assert report["changes"][change] == len(expected)
            told_in_all += len(expected)
        assert not report["changes"]["held"]
        assert not report["changes"]["out_of_reach"]
    assert told_in_all > 10


# --- tokens ---


def test_expired_tokens_are_refreshed_once_and_a_refused_refresh_lapses_its_grant(
    lender: Lender,
) -> None:
    """One refresh, one more try, an outcome: the other customers are pulled all the same.

    Whether a refused refresh was the key's fault is judged at the end of the run. A customer who
    withheld the scope is not due, and no request can be made in their name.
    """
    never, revoked = "never-valid@magic.example", "refresh-revoked@magic.example"
    withheld = "scope-missing@magic.example"
    lender.consent(["C1", revoked, never, "C2"])
    (grant,) = lender.consent([withheld], LIST, "transaction:view")
    lender.expire_tokens()
    report = lender.pull()
    assert report["state"] == "completed"
    names = ("due", "pulled", "token_refused", "lapsed")
    assert [report["customers"][name] for name in names] == [4, 2, 1, 1]
    assert "1 consents lapsed" in " ".join(report["notices"])
    assert (lender.count(never, "refreshes"), lender.count(never, "refused_tokens")) == (1, 2)
    refreshing = report["checks"]["aggregator_refresh"]
    assert (refreshing["free"], refreshing["attempts"]) == (3, 4)
    assert live(lender) == {"C1", "C2", never, withheld}
    again = lender.pull()
    assert again["customers"]["due"] == 3
    assert lender.count("C1", "refreshes") == lender.count(revoked, "refused_refreshes") == 1
    assert grant.scopes == ("transaction:view",)
    with pytest.raises(UsageError, match=LIST):
        list_request(grant, PulledKind.TRANSACTION, "/v2/aggregator")
    with pytest.raises(InputError, match="no live grant"):
        lender.open(grants=[grant.grant_id])
    assert lender.count(withheld, "data_calls") == 0


def test_a_pull_stops_where_too_many_customers_fail(
    lender: Lender, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answered list that nobody can read is a failed customer, though its call was answered."""
    monkeypatch.setattr("nightscreen.operations.pull.TOLERATED_FROM", 5)
    monkeypatch.setattr("nightscreen.operations.pull.read_list", lambda *_, **__: None)
    lender.settings = {"tolerated_failure_pct": 5, "max_in_flight": {"aggregator": 1}}
    lender.consent([f"C{number}" for number in range(12)])
    report = lender.pull()
    assert (report["state"], report["stop_reason"]) == ("stopped", "failures")
    assert 5 <= report["customers"]["failed"] < 12


def test_bad_key_lapses_nothing_and_the_run_goes_on_with_a_good_one(tmp_path: Path) -> None:
    """Where nothing under the key was answered, the stop is auth and every consent stays."""
    lender = Lender(tmp_path, quick_sandbox(api_key="right-key"))
    lender.consent([f"C{number}" for number in range(5)])
    lender.expire_tokens()
    report = lender.pull()
    assert (report["state"], report["stop_reason"]) == ("stopped", "auth")
    assert report["customers"]["refresh_refused"] == 5
    assert len(live(lender)) == 5
    lender.settings["api_key"] = "right-key"
    again = lender.pull(run=report["run_id"])
    assert (again["state"], again["customers"]["pulled"]) == ("completed", 5)


def test_refresh_in_doubt_leaves_the_grant_alive(lender: Lender) -> None:
    """Faults of the service prove nothing about a consent."""
    lender.settings["attempts"] = 1
    lender.consent(["auth-fails-twice@magic.example", "C1"])
    lender.expire_tokens()
    customers = lender.pull()["customers"]
    assert (customers["in_doubt"] + customers["failed"], customers["lapsed"]) == (1, 0)
    assert live(lender) == {"auth-fails-twice@magic.example", "C1"}


# --- lists that are not as they should be ---


@pytest.mark.parametrize(
    "word", ["short-answer", pytest.param("empty-answer", marks=pytest.mark.long)]
)
def test_short_answer_removes_nothing_until_it_is_confirmed(lender: Lender, word: str) -> None:
    """A list that lacks most of what was there is held; when it recovers nothing was lost."""
    customer = f"{word}@magic.example"
    lender.consent([customer])
    before = lender.pull()["changes"]["added"]
    lender.sandbox.day = 1
    short = lender.pull()
    assert short["customers"]["suspicious_short"] == 1
    assert (short["changes"]["removed"], short["changes"]["held"] >= before / 2) == (0, True)
    assert [row["change"] for row in lender.changes(short["run_id"])].count("suspicious_short") == 1
    lender.sandbox.day = 2
    recovered = lender.pull()
    expected = changes_between(customer, 0, 2)
    assert recovered["changes"]["removed"] == len(expected["removed"])
    assert recovered["customers"]["pulled"] == 1


def test_unreadable_records_go_to_quarantine_and_stay_sealed(lender: Lender) -> None:
    """Text, a word for an amount and a date that does not exist: each with its reason."""
    customer = "malformed-record@magic.example"
    lender.consent([customer])
    report = lender.pull()
    assert (report["rows"]["quarantined"], report["customers"]["pulled"]) == (3, 1)
    refused = csv_rows(lender.folder / "out" / report["run_id"] / "quarantine.csv")
    rows = {row["code"]: row for row in refused}
    assert {code: row["column"] for code, row in rows.items()} == {
        "not_a_record": "",
        "money_unreadable": "amount",
        "instant_unreadable": "transaction_date",
    }
    assert {row["customer_id"] for row in rows.values()} == {customer}
    assert rows["not_a_record"]["line"] == "1"
    typed = {row["record_key"] for row in lender.typed()}
    assert not typed & {row["record_key"] for row in rows.values()}
    kept = [raw for stored, raw in lender.kept(customer) if stored.problem]
    assert b'"this is no record"' in kept
    assert any(b'"amount":"twelve"' in each for each in kept)


def test_records_without_ids_are_told_apart_by_content(lender: Lender) -> None:
    """Twins count as two, and nothing is reported as new when the list stays as it is."""
    for word in ("no-ids", "twins", "repeats", "shuffled"):
        lender.consent([f"{word}@magic.example"])
    first = lender.pull()
    expected = sum(
        len(transactions_of(f"{word}@magic.example"))
        for word in ("no-ids", "twins", "repeats", "shuffled")
    )
    assert first["changes"]["added"] == expected
    assert first["transactions"]["repeated"] == 2
    again = lender.pull()
    assert again["changes"] == dict.fromkeys(again["changes"], 0)


# --- stopping and going on ---


def test_a_resumed_pull_asks_whom_it_began_with(lender: Lender) -> None:
    """Who consented since then belongs to the next pull.

    One that died before it saved its customers must not complete without asking anybody.
    """
    ended = lender.pull()
    lender.consent(["C1", "C2"])
    assert lender.pull(run=ended["run_id"])["customers"]["pulled"] == 0
    parameters = PullTransactions(output=lender.out)
    died = TransactionPull.open(parameters, lender.read_settings(), clock=lender.clock)
    died.run.close()
    report = lender.pull(run=died.run.run_id)
    assert (report["state"], report["customers"]["pulled"]) == ("completed", 2)


def test_pull_that_was_stopped_goes_on_with_those_who_are_left(lender: Lender) -> None:
    """A resumed pull asks nobody twice, keeps its folder and tells all of its changes."""
    lender.settings["max_in_flight"] = {"aggregator": 4}
    lender.consent([f"C{number}" for number in range(30)])
    pull = lender.open()
    asyncio.run(lender.ask(pull, until=11))
    pull.run.stops.stop(StopReason.CANCELLED)
    stopped = pull.close()
    pull.run.close()
    done = stopped["customers"]["pulled"]
    assert stopped["state"] == "stopped"
    assert 0 < done < 30
    report = lender.pull(run=stopped["run_id"])
    assert (report["state"], report["customers"]["pulled"]) == ("completed", 30)
    assert sum(lender.count(f"C{number}", "data_calls") for number in range(30)) == 30
    typed = lender.typed(report["run_id"])
    assert len(typed) == report["changes"]["added"] == report["rows"]["read"]
    assert (lender.folder / "out" / report["run_id"] / "report-1.json").exists()
