"""Lookups that are charged but unreadable every night: sent a few times, then no more."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from nightscreen.calling.stops import FEW
from tests.client.fakes import Canned
from tests.money.service_in_memory import LOST, Bureau

ROWS = 30
HOUR, DAY = 3600.0, 24 * 3600.0
ATTEMPTS = 5
PAGE = Canned(200, b"<html><body>Please sign in</body></html>")
UNPRICED = (
    PAGE,
    Canned(200, b""),
    Canned(200, b"\x0b\x02\x80ab\x03", {"Content-Encoding": "br"}),
    Canned(200, b'{"status":"success","data":"' + b"x" * 1_100_000 + b'"}'),
    Canned(200, {"status": "success", "data": "see the portal"}),
)
"""A page, an empty body, an unknown encoding, too many bytes, no record: none states its cost."""


def sent(desk: Bureau) -> Counter[tuple[str, str]]:
    return Counter(entry[:2] for entry in desk.service.ledger)


def answer_oddly(desk: Bureau, *answers: Canned) -> dict[tuple[str, str], Canned]:
    """Give each of some charged lookups an odd answer, whenever it is sent; return which.

    They are accounts, with another between two of them.
    """
    odd: dict[tuple[str, str], Canned] = {}
    others: set[tuple[str, str]] = set()

    def after(operation: str, identity: str, _number: int) -> Canned | None:
        asked, cost = (operation, identity), desk.service.ledger[-1][-1]
        if operation == "bank_account" and cost and asked not in others:
            if asked not in odd and len(others) > len(odd) < len(answers):
                odd[asked] = answers[len(odd)]
            elif asked not in odd:
                others.add(asked)
        return odd.get(asked)

    desk.service.after = after
    return odd


def is_done(report: dict[str, Any]) -> bool:
    """Return whether a night completed and may be published."""
    return (report["state"], report["publishable"]) == ("completed", True)


def test_a_lookup_without_a_readable_cost_is_bought_twice_in_seven_nights(tmp_path: Path) -> None:
    """It is repeated once, then not sent; each night completes, and the eighth sends it again."""
    desk = Bureau(tmp_path, rows=ROWS)
    odd = answer_oddly(desk, *UNPRICED)
    for days in (6, 1):
        report = desk.night().report
        assert is_done(report)
        assert [sent(desk)[each] for each in odd] == [2] * len(UNPRICED)
        assert report["checks"]["bank_account"]["in_doubt"] == len(odd)
        desk.loop.now_s += days * DAY
    report = desk.night().report
    assert [sent(desk)[each] for each in odd] == [4] * len(odd)
    assert report["checks"]["bank_account"]["in_doubt"] == len(odd)
    assert is_done(report)


def test_the_only_lookup_of_a_night_is_no_outage(tmp_path: Path) -> None:
    """A single customer whose answers are pages: the night completes, also before a deadline."""
    desk = Bureau(tmp_path, rows=1)
    desk.service.after = lambda *_: PAGE
    report = desk.night(checks=["bank_account"], deadline=desk.in_hours(8)).report
    assert is_done(report)
    assert len(desk.service.ledger) == 2
    assert desk.loop.time() < HOUR
    desk.loop.now_s += DAY
    assert is_done(desk.night(checks=["bank_account"], deadline=desk.in_hours(8)).report)
    assert len(desk.service.ledger) == 2


def test_nights_of_a_proxys_pages_leave_no_book_unscreened(tmp_path: Path) -> None:
    """Three customers in a row are an outage: few calls are made.

    Where they begin in the middle of the next night, it is one of their check, and the other checks
    go on. Afterwards no lookup has to wait for days: the third night asks for all.
    """
    desk = Bureau(tmp_path, rows=ROWS)
    desk.service.after = lambda *_: PAGE
    report = desk.night().report
    assert (report["state"], report["stop_reason"]) == ("stopped", "outage")
    before = len(desk.service.ledger)
    assert 0 < before <= 2 * FEW
    odd = Canned(200, {"status": "success", "data": "moved"})

    def after(operation: str, _identity: str, number: int) -> Canned | None:
        return odd if operation == "bank_account" and number > before + 20 else None

    desk.service.after = after
    desk.loop.now_s += DAY
    report = desk.night().report
    parts = report["checks"]
    assert (report["state"], report["stop_reason"]) == ("stopped", "outage")
    assert parts["karma"]["pending"] == parts["ecosystem"]["pending"] == 0
    open_ = parts["bank_account"]
    assert open_["pending"] > 0
    assert FEW <= open_["in_doubt"] + open_["unreadable"] <= FEW + 8
    desk.service.after = lambda *_: None
    desk.loop.now_s += DAY
    report = desk.night().report
    assert is_done(report)
    for part in report["checks"].values():
        assert part["paid"] + part["free"] + part["reused"] == part["distinct"]


def test_pages_for_three_hours_are_waited_out_before_the_deadline(tmp_path: Path) -> None:
    """The run tries again now and then, with a call each, and completes the same night.

    The lookups it tries with are sent no more often than their attempts, and again the next night.
    """
    desk = Bureau(tmp_path, rows=ROWS)
    desk.service.after = lambda *_: PAGE if desk.loop.time() < 3 * HOUR else None
    report = desk.night(deadline=desk.in_hours(8)).report
    assert is_done(report)
    tried_with = sum(part["in_doubt"] for part in report["checks"].values())
    assert tried_with <= 3 * HOUR / 900 / ATTEMPTS + 1
    assert max(sent(desk).values()) <= ATTEMPTS
    desk.loop.now_s += DAY
    report = desk.night().report
    assert not [part for part in report["checks"].values() if part["in_doubt"]]


def test_a_lost_answer_is_sent_for_five_times_a_day_over_all_runs(tmp_path: Path) -> None:
    """Other runs of the same night find the attempts used up; the next night has as many again."""
    desk = Bureau(tmp_path, rows=ROWS)
    odd = answer_oddly(desk, LOST, Canned(502, b"bad gateway"))

    def times() -> set[int]:
        return {sent(desk)[each] for each in odd}

    for hours in (0, 5):
        desk.loop.now_s += hours * HOUR
        report = desk.night().report
        assert is_done(report)
        assert (times(), report["checks"]["bank_account"]["in_doubt"]) == ({ATTEMPTS}, 2)
    resumed = desk.night(run=report["run_id"]).report
    assert (times(), resumed["checks"]["bank_account"]["in_doubt"]) == ({ATTEMPTS}, 2)
    desk.loop.now_s += DAY
    desk.night()
    assert times() == {2 * ATTEMPTS}


def test_a_book_that_is_left_alone_in_large_part_is_not_publishable(tmp_path: Path) -> None:
    """The night completes, as nothing is left to ask; TOLERATED_FAILURE_PCT decides."""
    desk = Bureau(tmp_path, rows=80)  # enough lookups for a share of them to count
    answer_oddly(desk, *[Canned(200, {"data": 1, "meta": {"cost": 10}})] * 30)
    report = desk.night().report
    assert (report["state"], report["publishable"]) == ("completed", False)
