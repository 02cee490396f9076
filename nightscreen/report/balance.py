"""The balance over a run: opening, closing, what calls in doubt explain, and what drifted away.

The rules stand beside the queries in `calls.sql`; what makes their table is in `calls`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nightscreen.schemas.clock import MICROS, instant_text
from nightscreen.schemas.money import naira_text

if TYPE_CHECKING:
    from nightscreen.files.frame import Frame

_LATE_MICROS = 300 * MICROS  # four times the longest timeout by default
_NEAR_CALLS = 100_000


@dataclass(frozen=True, slots=True)
class Balance:
    """The balance over a run, in micro-naira: opening - cost - explained - drift = closing."""

    opening_micro: int | None = None  # None if no answer had a balance, as closing and lowest are
    closing_micro: int | None = None
    lowest_micro: int | None = None
    explained_in_doubt_micro: int = 0
    drift_micro: int = 0
    exact: bool = False
    # instant of the first answer whose balance neither known costs nor calls in doubt explain; None
    # if there is none
    drift_since: int | None = None

    def document(self, nightly_micro: int) -> dict[str, Any]:
        """Return the part `balance` of the report, given what a night costs."""
        closing = self.closing_micro
        nights = closing // nightly_micro if closing is not None and nightly_micro > 0 else None
        return {
            "opening": naira_text(self.opening_micro),
            "closing": naira_text(closing),
            "lowest": naira_text(self.lowest_micro),
            "explained_in_doubt": naira_text(self.explained_in_doubt_micro),
            "drift": naira_text(self.drift_micro),
            "drift_since": instant_text(self.drift_since),
            "exact": self.exact,
            "nights_left": nights,
        }


def balance_of(frame: Frame) -> Balance:
    """Return the balance of the calls in a frame.

    A call in doubt explains any amount up to its worst cost: that is reserved at the highest price
    known, and the service may have charged less.
    """
    frame.run("wallet")
    found = frame.table("ends", late=_LATE_MICROS).to_pylist()
    if not found:
        return Balance()
    (ends,) = found
    lost = ends["opening"] - ends["closing"] - ends["cost"]
    explained = min(max(0, lost), ends["doubt"])
    since = None
    if lost != explained:
        since = frame.row("first_unexplained", opening=ends["opening"])["since"]
    exact = ends["opening_exact"] and ends["closing_exact"]
    if exact:
        confirmed = [each["confirmed"] for each in frame.table("confirmed").to_pylist()]
        exact = all(confirmed) and not frame.row("lag", near=_NEAR_CALLS)["lags"]
    return Balance(
        ends["opening"], ends["closing"], ends["lowest"], explained, lost - explained, exact, since
    )
