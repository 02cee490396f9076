"""Price: the cost of a plan, the rank of its lookups, and how many of them the money pays for.

Rank and quote cover the whole batch before anything is sent; the journal enforces the caps while
calls are made. `plan` decides which lookups are needed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from nightscreen.checks.registry import CHECKS
from nightscreen.schemas.money import naira_words
from nightscreen.schemas.plan import CheckQuote, First, Quote, SeenCharges

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from nightscreen.planning.lookup_table import Chains, LookupRanking

RECENT_RUNS = 14
"""The newest runs of a batch, whose median is the usual cost."""

UNUSUAL_TIMES = 3  # a choice (docs/operate.md): if it is lower, more runs wait for approval
_ENOUGH_RUNS = 3  # the median of fewer is only one run's cost, or the mean of two

_SURE_OF = 200
"""Answers from which the observed rates fully replace the guess for the first night."""

_SPREAD = 3.3
"""Standard deviations on each side of a quote: one run in a thousand is outside."""

_DRIFT = 0.1
"""Share by which a run's customers may differ from earlier ones."""


def rank(needed: LookupRanking, prices_micro: Mapping[str, int]) -> NDArray[np.int64]:
    """Return the order in which lookups are asked, as their numbers.

    Never-screened customers and applicants come first, then overdue evidence, each by exposure, the
    largest first. An unknown exposure ranks as the median of the known ones, since it is not zero.
    For one customer the cheapest decisive check comes first.
    """
    exposure = needed.exposure_kobo
    known = exposure[exposure >= 0]
    median = int(np.median(known)) if len(known) else 0
    falling = np.where(exposure < 0, -median, -exposure)
    cheap = sorted(CHECKS, key=lambda check: (prices_micro.get(check, 0), CHECKS[check].order))
    priority = needed.by_check({check: number for number, check in enumerate(cheap)})
    return np.lexsort((priority, falling, needed.tier))


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
        prices_micro: the price of a hit, by check.
        seen: recent answers and charges, by check and identity.
        seconds: the seconds to an answer, by check.
        max_in_flight: calls in flight at once, by check.
        cap_micro: the run's cap.
        balance_micro: the last known balance.
        chains: karma's lookups by row, if it stops at the first listing; None if it asks all.
    """
    if chains is not None:
        needed = needed.take(~chains.spared())
    stages = chains is not None
    lines = _lines(needed, prices_micro, seen, seconds, max_in_flight, in_stages=stages)
    money = [limit for limit in (cap_micro, balance_micro) if limit is not None]
    if not money:
        return Quote(lines, cap_micro, balance_micro)
    order = rank(needed, prices_micro)
    # no lookup is skipped for a cheaper one of lower rank
    costs = np.cumsum(needed.by_check(prices_micro)[order])
    affordable = int(np.searchsorted(costs, min(money), side="right"))
    short = needed.row[order[affordable:]]
    return Quote(
        lines,
        cap_micro,
        balance_micro,
        affordable=affordable,
        first=_first(needed, order[:affordable]) if affordable else None,
        rows_short=len(np.unique(short)),
    )


def _first(needed: LookupRanking, paid: NDArray[np.int64]) -> First:
    """Return whom the affordable lookups are about; `paid` is in rank."""
    never_screened = int((needed.tier[paid] == 0).sum())
    return First(never_screened, len(paid) - never_screened, int(needed.exposure_kobo[paid[-1]]))


def _lines(
    needed: LookupRanking,
    prices_micro: Mapping[str, int],
    seen: Mapping[tuple[str, str], SeenCharges],
    seconds: Mapping[str, float],
    max_in_flight: Mapping[str, int],
    *,
    in_stages: bool,
) -> tuple[CheckQuote, ...]:
    """Return a line of the quote for each check and identity with lookups.

    In stages, karma is expected to ask an identity only about rows that no earlier one lists.
    """
    lines, missed = [], 1.0
    for number, (check, kind) in enumerate(needed.slots):
        calls = int((needed.slot == number).sum())
        if not calls:
            continue
        guess = CHECKS[check].first_night_hits
        low, rate, high = _rates(calls, seen.get((check, kind.value), SeenCharges()), guess)
        likely = calls * missed if in_stages and check == "karma" else calls
        if in_stages and check == "karma":
            missed *= 1 - rate
        price = prices_micro[check]
        call_s = seconds.get(check, CHECKS[check].first_night_seconds)
        lines.append(
            CheckQuote(
                check=check,
                kind=kind.value,
                calls=calls,
                likely_calls=round(likely),
                price_micro=price,
                hit_pct=100 * rate,
                low_micro=math.floor(low * calls) * price if likely == calls else 0,
                expected_micro=round(rate * likely * price),
                high_micro=math.ceil(high * calls) * price,
                expected_s=likely * call_s / max_in_flight[check],
            )
        )
    return tuple(sorted(lines, key=lambda line: (line.check, line.kind)))


def _rates(calls: int, seen: SeenCharges, guess: float) -> tuple[float, float, float]:
    """Return the low, expected and high share of charged calls.

    With few observed answers the guess is blended in, and the range is from none to all.
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


def approval_reason(
    expected_micro: int, *, above_micro: int | None, earlier_micro: Sequence[int]
) -> str | None:
    """Return why a person must approve a run before it spends, or None.

    Approval is required above an amount, if one is set, and for an unusual cost compared with the
    earlier runs of the same batch, newest first.
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
