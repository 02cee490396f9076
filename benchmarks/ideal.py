"""The best that any scheduler could do: a full window and nothing else, simulated.

A discrete-event simulation: as many calls in flight as the cap allows from the first instant on,
the next one begun in the instant in which one ends, nothing lost in between. It takes the latencies
as they were drawn. No process, clock or network is involved.
"""

from __future__ import annotations

import heapq
import math
import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_P99 = 2.326347874


def ideal_span_s(latencies_s: Sequence[float], cap: int) -> float:
    """Return the seconds from the first call's beginning to the last one's end."""
    ends: list[float] = []
    for latency_s in latencies_s:
        begun = heapq.heappop(ends) if len(ends) == cap else 0.0
        heapq.heappush(ends, begun + latency_s)
    return max(ends, default=0.0)


def share_in_use(latencies_s: Sequence[float], cap: int, span_s: float) -> float:
    """Return the share of the cap that was busy during a span."""
    return sum(latencies_s) / (cap * span_s)


def draws_s(kind: str, count: int, *, seed: int = 0) -> list[float]:
    """Draw latencies: `fixed` is 100 ms, `lognormal` has a median of 100 ms and a p99 of 1 s."""
    if kind == "fixed":
        return [0.1] * count
    rng, spread = random.Random(seed), math.log(10) / _P99
    return [0.1 * math.exp(spread * rng.gauss(0.0, 1.0)) for _ in range(count)]
