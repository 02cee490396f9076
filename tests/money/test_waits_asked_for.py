"""One `Retry-After` of an hour is one answer's word: it ends no night."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest

from nightscreen.schemas.clock import MICROS, to_instant
from tests.client.fakes import Canned
from tests.money.service_in_memory import Bureau
from tests.money.service_on_sockets import SocketService

HOUR, FIVE_MINUTES = 3600, 300
AHEAD = datetime.now(UTC) + timedelta(days=1)  # what a server's clock says that is a day ahead


def at(seconds: int) -> str:
    """Return a date so many seconds after that clock."""
    return format_datetime(AHEAD + timedelta(seconds=seconds), usegmt=True)


WISHES = {
    "seconds": {"Retry-After": str(HOUR)},
    "a date without a clock": {"Retry-After": at(0)},
}


@pytest.mark.parametrize(
    ("operation", "status", "wish"),
    [
        ("bank_account", 429, "seconds"),
        ("karma", 503, "a date without a clock"),
    ],
)
def test_a_night_over_sockets_with_one_wish_for_an_hour_completes(
    tmp_path: Path, operation: str, status: int, wish: str
) -> None:
    """The check rests for five minutes, then everybody is asked; also where it was the opening."""
    served = SocketService(Bureau(tmp_path, rows=6))
    met: list[float] = []

    def busy(asked: str, *_: object) -> Canned | None:
        if met or asked != operation:
            return None
        met.append(served.bureau.loop.time())
        return Canned(status, b"busy", WISHES[wish])

    served.bureau.service.before = busy
    report = served.night().report
    assert (report["state"], report["stop_reason"]) == ("completed", None)
    assert sum(part["failed"] + part["in_doubt"] for part in report["checks"].values()) == 0
    assert FIVE_MINUTES <= served.bureau.loop.time() - met[0] < 2 * FIVE_MINUTES


def test_two_wishes_for_an_hour_are_kept(tmp_path: Path) -> None:
    """Where another lookup is asked to wait as long, nothing of that check is sent before."""
    served = SocketService(Bureau(tmp_path, rows=6))
    loop = served.bureau.loop
    met: dict[str, list[float]] = {}

    def busy(asked: str, identity: str, _: int) -> Canned | None:
        if asked != "karma":
            return None
        met.setdefault(identity, []).append(loop.time())
        return Canned(429, b"busy", WISHES["seconds"]) if len(met) < 3 else None

    served.bureau.service.before = busy
    deadline = to_instant(loop.micros() + 3 * HOUR * MICROS).isoformat()
    report = served.night(deadline=deadline).report
    assert report["state"] == "completed"
    first, *later = sorted(time for times in met.values() for time in times)
    assert later
    assert not [time for time in later if first + FIVE_MINUTES + 60 < time < first + HOUR]
