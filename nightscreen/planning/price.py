"""Price: what a plan may cost, in which order its lookups are asked, which of them are funded.

Everything is decided over the whole batch before anything is sent; the journal holds the caps while
it is sent. `plan` decides which lookups are needed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nightscreen.checks.registry import CHECKS
from nightscreen.schemas.checks import HITS
from nightscreen.schemas.money import naira_words
from nightscreen.schemas.quote import CheckQuote, First, Quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from nightscreen.planning.lookup_table import LookupRanking
    from nightscreen.planning.short_circuit import Chains

RECENT_RUNS = 14
"""Runs of a batch name that say what a night usually costs."""

UNUSUAL_TIMES = 3
_ENOUGH_RUNS = 3

_SURE_OF = 200
"""Answers from which on the rates seen replace the first night's guess altogether."""

_SPREAD = 3.3
"""Standard deviations on each side of a quote: one night in a thousand is outside."""

_DRIFT = 0.1
"""Share by which a night's customers differ from those seen so far."""


@dataclass(frozen=True, slots=True)
class SeenCharges:
    """The journal's figures for one check and identity."""

    answers: int = 0  # answers in all runs
    charged: int = 0  # those that were charged


def rank(needed: LookupRanking, prices_micro: Mapping[str, int]) -> NDArray[np.int64]:
    """Return the order in which lookups are asked, as their numbers.

    Never-screened customers and applicants first, then overdue evidence by exposure, greatest
    first; an unknown exposure is taken as the median of the known ones, since it is not zero.
    Within one customer the cheapest decisive check comes first.
    """
    exposure = needed.exposure_kobo
    known = exposure[exposure >= 0]
    middle = int(np.median(known)) if len(known) else 0
    falling = np.where(exposure < 0, -middle, -exposure)
    cheap = sorted(CHECKS, key=lambda check: (prices_micro.get(check, 0), CHECKS[check].order))
    priority = np.zeros(len(needed), dtype=np.int8)
    for number, check in enumerate(cheap):
        priority[needed.is_of(check)] = number
    return np.lexsort((priority, falling, needed.tier))


def worst_costs(needed: LookupRanking, worst_micro: Mapping[str, int]) -> NDArray[np.int64]:
    """Return the most each lookup may cost, in micro-naira."""
    found = np.zeros(len(needed), dtype=np.int64)
    for check in {check for check, _ in needed.slots()}:
        found[needed.is_of(check)] = worst_micro[check]
    return found


def fund(
    order: NDArray[np.int64], worst: NDArray[np.int64], money_micro: int | None
) -> NDArray[np.int64]:
    """Return the leading lookups of an order whose worst cost fits the money; all where none binds.

    No lookup is skipped for a cheaper one behind it: the most important come first.
    """
    if money_micro is None:
        return order
    bound = np.cumsum(worst[order])
    return order[: int(np.searchsorted(bound, money_micro, side="right"))]


def quote(
    needed: LookupRanking,
    *,
    prices_micro: Mapping[str, int],
    seen: Mapping[tuple[str, str], SeenCharges],
    seconds: Mapping[str, float],
    max_in_flight: Mapping[str, int],
    cap_micro: int | None = None,
    balance_micro: int | None = None,
    chains: Chains | None = None,
) -> Quote:
    """Estimate what asking every needed lookup would cost and how long it would take.

    Args:
        needed: the lookups.
        prices_micro: what a hit of each check costs.
        seen: answers and charges so far, by check and identity.
        seconds: seconds an answer takes, by check.
        max_in_flight: calls in flight at once, by check.
        cap_micro: the cap the run would be under.
        balance_micro: the last known balance.
        chains: karma asks no further about a row once it is listed; None if it makes all.
    """
    lines = _lines(needed, prices_micro, seen, seconds, max_in_flight, chains)
    if chains is not None:
        needed = needed.take(~chains.spared())
    money = [limit for limit in (cap_micro, balance_micro) if limit is not None]
    if not money:
        return Quote(lines, cap_micro, balance_micro)
    order, worst = rank(needed, prices_micro), worst_costs(needed, prices_micro)
    funded = fund(order, worst, min(money))
    short = needed.row[order[len(funded) :]]
    return Quote(
        lines,
        cap_micro,
        balance_micro,
        affordable=len(funded),
        rows_short=len(np.unique(short)),
        first=_first(needed, funded),
    )


def _lines(
    needed: LookupRanking,
    prices_micro: Mapping[str, int],
    seen: Mapping[tuple[str, str], SeenCharges],
    seconds: Mapping[str, float],
    max_in_flight: Mapping[str, int],
    chains: Chains | None,
) -> tuple[CheckQuote, ...]:
    """Return a line of the quote for each check and identity with lookups."""
    counts = {slot: int(needed.is_of(*slot).sum()) for slot in needed.slots()}
    rates = {
        slot: _rates(calls, seen.get(slot, SeenCharges()), CHECKS[slot[0]].first_night_hits)
        for slot, calls in counts.items()
    }
    lines = []
    for slot, calls in sorted(_calls(needed, counts, rates, chains).items()):
        check, kind = slot
        low, rate, high = rates[slot]
        price = prices_micro[check]
        call_s = seconds.get(check, CHECKS[check].first_night_seconds)
        lines.append(
            CheckQuote(
                check=check,
                kind=kind,
                calls=calls.all,
                likely_calls=round(calls.likely),
                price_micro=price,
                hit_pct=100 * rate,
                low_micro=math.floor(low * calls.least) * price,
                expected_micro=round(rate * calls.likely * price),
                high_micro=math.ceil(high * calls.most) * price,
                expected_s=calls.likely * call_s / max_in_flight[check],
            )
        )
    return tuple(lines)


class _Calls(NamedTuple):
    """Lookups of one check and identity: at most, and how many of them are likely to be asked."""

    all: int
    least: float
    likely: float
    most: float


def _calls(
    needed: LookupRanking,
    counts: Mapping[tuple[str, str], int],
    rates: Mapping[tuple[str, str], tuple[float, float, float]],
    chains: Chains | None,
) -> dict[tuple[str, str], _Calls]:
    """Return how many lookups each check and identity has; fewer where karma stops at a listing.

    The more is listed by the identities asked first, the fewer are asked by those after them.
    """
    found = {slot: _Calls(number, number, number, number) for slot, number in counts.items()}
    if chains is None:
        return found
    karma = "karma"
    by_kind = [rates.get((karma, kind), (0.0, 0.0, 0.0)) for kind in chains.kinds]
    nobody, *bounds = ([0.0] * len(by_kind), *zip(*by_kind, strict=True))
    reached = [chains.reached(hits) for hits in (nobody, *reversed(bounds))]
    for check, kind in [slot for slot in counts if slot[0] == karma]:
        of_slot = needed.is_of(check, kind)
        left, least, likely, most = (float(numbers[of_slot].sum()) for numbers in reached)
        found[(check, kind)] = _Calls(round(left), least, likely, most)
    return {slot: calls for slot, calls in found.items() if calls.all}


def _first(needed: LookupRanking, funded: NDArray[np.int64]) -> First | None:
    """Return what the affordable lookups are for."""
    if not len(funded):
        return None
    fresh = int((needed.tier[funded] == 0).sum())
    last = int(needed.exposure_kobo[funded[-1]])
    return First(fresh, len(funded) - fresh, last)


def _rates(calls: int, seen: SeenCharges, guess: float) -> tuple[float, float, float]:
    """Return low, expected and high share of calls that are charged.

    Until enough calls were seen the guess counts as a number of answers, and the range is from none
    to all.
    """
    if calls == 0:
        return 0.0, guess, 1.0
    if seen.answers < _SURE_OF:
        weight = seen.answers / _SURE_OF
        share = seen.charged / seen.answers if seen.answers else guess
        return 0.0, weight * share + (1 - weight) * guess, 1.0
    share = seen.charged / seen.answers
    noise = share * (1 - share) * (1 / calls + 1 / seen.answers)
    spread = _SPREAD * math.sqrt(max(noise, 1 / (calls * seen.answers))) + _DRIFT * share
    return max(0.0, share - spread), share, min(1.0, share + spread)


def seen_rates(
    tallies: Iterable[tuple[str, str, str, int, int]],
) -> dict[tuple[str, str], SeenCharges]:
    """Return what was seen by check and identity.

    Args:
        tallies: check, kind, outcome, answers and cost in micro-naira, over all runs.
    """
    found: dict[tuple[str, str], SeenCharges] = {}
    for check, kind, outcome, answers, _cost in tallies:
        before = found.get((check, kind), SeenCharges())
        charged = answers if outcome in HITS else 0
        found[(check, kind)] = SeenCharges(before.answers + answers, before.charged + charged)
    return found


def approval_reason(
    expected_micro: int, *, above_micro: int | None, earlier_micro: Sequence[int]
) -> str | None:
    """Return why a run must be approved by a person before it spends, or None.

    Args:
        expected_micro: what the run is expected to cost.
        above_micro: the amount from which approval is asked, if one is set.
        earlier_micro: costs of earlier runs of the same batch name, newest first.
    """
    if above_micro is not None and expected_micro > above_micro:
        return (
            f"it is expected to cost {naira_words(expected_micro)}, more than "
            f"{naira_words(above_micro)} (NIGHTSCREEN_APPROVAL_ABOVE)"
        )
    recent = [cost for cost in earlier_micro[:RECENT_RUNS] if cost > 0]
    if len(recent) < _ENOUGH_RUNS:
        return None
    usual = int(np.median(recent))
    if expected_micro > UNUSUAL_TIMES * usual:
        return (
            f"it is expected to cost {naira_words(expected_micro)}, more than {UNUSUAL_TIMES} "
            f"times the {naira_words(usual)} that is usual for this batch"
        )
    return None
