"""Outages in flows other than screening: waited out before a deadline, final without one.

One driver runs all flows person by person: the two stages of BVN consent stand for them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.client.fakes import Canned
from tests.money.side_runs import FLOWS, NUMBER, Office, status

BUSY = Canned(503, b"busy")
FOR_EVER = Canned(503, b"busy", {"Retry-After": "3600"})
NO_MONEY = Canned(402, {"status": "error", "message": "Insufficient balance", "data": None})
WRONG_KEY = Canned(403, {"status": "error", "message": "Forbidden"})
MINUTE = 60.0


@pytest.fixture
def office(tmp_path: Path) -> Office:
    """A lender and a service in virtual time."""
    return Office(tmp_path)


def during(office: Office, seconds: float, fault: Canned) -> Callable[[str], Canned | None]:
    """Return a fault for some seconds from the first call on."""
    times: list[float] = []

    def fault_now(_asked: str) -> Canned | None:
        times.append(office.loop.time())
        return fault if times[-1] - times[0] < seconds else None

    return fault_now


@pytest.mark.parametrize("flow", FLOWS)
def test_an_outage_is_waited_out_before_the_deadline(office: Office, flow: str) -> None:
    """503 for ten minutes, then good answers: all people are asked, and answered once."""
    office.service.fault = during(office, 10 * MINUTE, BUSY)
    report = getattr(office, flow)(deadline=office.in_hours(3))
    assert (report["state"], report["stop_reason"]) == ("completed", None)
    ended = status(report)
    assert (ended["failed"], ended["in_doubt"], ended["pending"]) == (0, 0, 0)
    assert ended["paid"] + ended["free"] >= NUMBER
    assert max(office.service.answered.values()) == 1
    assert 10 * MINUTE < office.loop.time() < 30 * MINUTE


def test_a_short_outage_stops_nothing(office: Office) -> None:
    """503 for some minutes uses up no attempts: as long as no call is answered, none fails."""
    office.service.fault = during(office, 5 * MINUTE, BUSY)
    report = office.request()
    assert (report["state"], status(report)["free"]) == ("completed", NUMBER)
    assert office.loop.time() < 8 * MINUTE


def test_without_a_deadline_an_outage_is_given_up(office: Office) -> None:
    """Endless `Retry-After`: after ten minutes without an answer the run ends, and says why."""
    office.service.fault = lambda _asked: FOR_EVER
    report = office.confirm()
    assert (report["state"], report["stop_reason"]) == ("stopped", "outage")
    assert 10 * MINUTE <= office.loop.time() < 15 * MINUTE
    assert status(report)["in_doubt"] == 0
    assert len(office.service.asked) <= NUMBER
    assert any("no answer since" in text and "Retry-After" in text for text in report["notices"])


def test_a_topped_up_wallet_is_noticed(office: Office) -> None:
    """402 stops a run; before a deadline a single call checks from time to time for new money."""
    times: list[float] = []

    def no_money_for_a_time(_asked: str) -> Canned | None:
        times.append(office.loop.time())
        return NO_MONEY if times[-1] - times[0] < 40 * MINUTE else None

    office.service.fault = no_money_for_a_time
    report = office.confirm(deadline=office.in_hours(3))
    assert report["state"] == "completed"
    assert status(report)["failed"] == 0
    waits = [each - times[0] for each in times if each - times[0] < 40 * MINUTE]
    tries = [round(each / MINUTE) for each in waits]
    assert [each for each in tries if each > 1] == [15, 30]


def test_a_refused_key_is_not_waited_for(office: Office) -> None:
    """Waiting does not help: the run stops at once, deadline or not, and says why."""
    office.service.fault = lambda _asked: WRONG_KEY
    report = office.request(deadline=office.in_hours(3))
    assert (report["state"], report["stop_reason"]) == ("stopped", "auth")
    assert office.loop.time() < 5 * MINUTE
    assert len(office.service.asked) <= 2 * NUMBER


def test_a_floor_under_the_balance_holds_for_every_flow(tmp_path: Path) -> None:
    """No flow takes the wallet below `BALANCE_FLOOR`."""
    office = Office(tmp_path, settings={"balance_floor": "4990"})
    report = office.confirm()
    assert (report["state"], report["stop_reason"]) == ("stopped", "balance")
    assert len(office.service.asked) == 1
