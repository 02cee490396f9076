"""How far a part has come, as a small document, and how parts' numbers add up to the run's.

Numbers and words only. Parts write it into the journal now and then; the run's own process adds
what is new of it to its own control, so that progress, notices and stops are those of the whole.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nightscreen.calling.control import ABSURD_COSTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from nightscreen.calling.control import Control

_COUNTED = (
    *("paid", "free", "reused", "unreadable", "failed", "in_doubt", "lapsed", "spared"),
    *("attempts", "cost_micro"),
)
_OF_THE_MOMENT = ("cap", "in_flight")


def numbers_of(control: Control) -> dict[str, Any]:
    """Return what a part has done and seen so far; money in micro-naira."""
    names = (*_COUNTED, *_OF_THE_MOMENT)
    return {
        "checks": {
            check: {name: getattr(each, name) for name in names}
            for check, each in control.progress.items()
        },
        "troubles": [[check, kind, number] for (check, kind), number in control.troubles.items()],
        "answered": control.answered,
        "excess_micro": control.excess_micro,
        "highest_micro": dict(control.highest_micro.items()),
        "absurd": {check: len(lookups) for check, lookups in control.absurd.items()},
        "balance_micro": control.balance_micro,
        "least_micro": control.wallet.least_micro,
        "notices": list(control.notices),
    }


@dataclass(slots=True)
class Totals:
    """Adds the numbers of parts to a run's own; each process is counted once."""

    _last: dict[str, dict[str, Any]] = field(default_factory=dict)

    def take(self, control: Control, holder: str, numbers: Mapping[str, Any]) -> None:
        """Add what is new since a process last told of itself."""
        if not numbers:
            return
        last = self._last.get(holder, {})
        for name, counts in numbers["checks"].items():
            mine = control.progress[name]
            before = last.get("checks", {}).get(name, {})
            for field_ in _COUNTED:
                added = counts[field_] - before.get(field_, 0)
                setattr(mine, field_, getattr(mine, field_) + added)
        _add_troubles(control, numbers, last)
        answered = numbers["answered"] - last.get("answered", 0)
        control.answered += answered
        control.excess_micro += numbers["excess_micro"] - last.get("excess_micro", 0)
        for name, price in numbers["highest_micro"].items():
            check = name
            control.highest_micro[check] = max(control.highest_micro.get(check, 0), price)
        if answered and numbers["balance_micro"] is not None:
            control.balance_micro = numbers["balance_micro"]
        control.notices += [each for each in numbers["notices"] if each not in control.notices]
        self._last[holder] = dict(numbers)
        for name in numbers["absurd"]:
            check = name
            total = sum(each["absurd"].get(name, 0) for each in self._last.values())
            if total >= ABSURD_COSTS and check not in control.stopped_checks:
                control.stop_absurd(check)
        control.weigh()

    def of_the_moment(self, control: Control, alive: Iterable[str]) -> None:
        """Bring up to date what holds only now: calls in flight, caps, the least in the wallet."""
        living = [self._last[holder] for holder in alive if holder in self._last]
        for check, mine in control.progress.items():
            each = [numbers["checks"].get(check, {}) for numbers in living]
            for name in _OF_THE_MOMENT:
                setattr(mine, name, sum(counts.get(name, 0) for counts in each))
        least = [numbers["least_micro"] for numbers in living]
        known = [micro for micro in least if micro is not None]
        if known:
            control.wallet.least_micro = min(known)


def _add_troubles(control: Control, numbers: Mapping[str, Any], last: Mapping[str, Any]) -> None:
    before = {(check, kind): number for check, kind, number in last.get("troubles", [])}
    for check, kind, number in numbers["troubles"]:
        control.troubles[(check, kind)] += number - before.get((check, kind), 0)
