"""Order of spending: what was reached is what mattered most, when money or time is short."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np

from nightscreen.schemas.calls import LookupStatus
from nightscreen.schemas.clock import to_instant
from tests.money.service_in_memory import Bureau

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from tests.kill.drive import Driven


def out_of_order(driven: Driven, check: str | None = None) -> int:
    """Return how many reached lookups lie beyond where the reached ones should end."""
    reached = reached_in_rank(driven, check)
    return int(reached.sum() - reached[: int(reached.sum())].sum())


def reached_in_rank(driven: Driven, check: str | None = None) -> NDArray[np.bool_]:
    """Return of each lookup, in rank, whether it was asked."""
    states = [state for name, state in driven.lookups if check in (None, name)]
    return np.array([state is not LookupStatus.WAITING for state in states])


def test_money_for_a_third_buys_the_first_third(tmp_path: Path) -> None:
    """Over all checks the reached lookups are the first in rank, which loses and repeats none."""
    bureau = Bureau(tmp_path, rows=60)
    report = (driven := bureau.night(max_spend="500")).report
    assert report["stop_reason"] == "budget"
    assert bureau.service.charged <= 500
    assert 0.2 < reached_in_rank(driven).mean() < 0.6
    assert out_of_order(driven) <= 12
    assert sorted(driven.run.order) == list(np.arange(len(driven.run.order)))


def test_time_for_a_third_reaches_the_first_third_of_each_check(tmp_path: Path) -> None:
    """Each check has its own lanes; a deadline cuts each of them in rank."""
    bureau = Bureau(tmp_path, rows=120)
    bureau.service.latency_s = {"karma": 1.0, "ecosystem": 2.0, "bank_account": 1.5}
    ends = to_instant(bureau.loop.micros() + 12_000_000).astimezone(UTC)
    driven = bureau.night(deadline=datetime.isoformat(ends))
    assert driven.report["stop_reason"] == "deadline"
    shares = {
        check: reached_in_rank(driven, check).mean()
        for check in ("karma", "ecosystem", "bank_account")
    }
    assert all(0.05 < share < 0.6 for share in shares.values())
    assert [out_of_order(driven, check) for check in shares] <= [4, 4, 4]
