"""Charts of the report as numbers ready to be laid out: the page's templates draw them in HTML.

Each chart names its numbers in text and tells series apart by pattern as well as by colour. `risk`
and `money` choose what is charted; `data/pages` has the look of a chart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_FASTEST_MS = 0.1
"""Left end of the scale of latencies at least: a logarithm has no zero."""
_GRID = 4
"""Lines of a curve's grid at most; more crowd a phone."""


@dataclass(frozen=True, slots=True)
class Series:
    """One part of every bar.

    Attributes:
        name: the text of the legend.
        tone: a colour of the page's style: good, warn, bad, plain or other.
        values: one for each bar.
        pattern: hatching of the part, so that it does not depend on colour: `///`, `xx`, `|`.
    """

    name: str
    tone: str
    values: Sequence[float]
    pattern: str = ""

    @property
    def look(self) -> str:
        """Return the classes that give the part its colour and hatching."""
        hatch = {"///": " slanted", "xx": " crossed", "|": " striped"}.get(self.pattern, "")
        return f"part {self.tone}{hatch}"


@dataclass(frozen=True, slots=True)
class Lines:
    """Small lines, one under the other, each on its own scale from zero.

    Attributes:
        labels: what each line is.
        figures: its last value as people read it.
        values: of each line, from the oldest to the newest; None if it is not known.
    """

    kind: ClassVar = "lines"
    labels: Sequence[str]
    figures: Sequence[str]
    values: Sequence[Sequence[float | None]]

    def points(self, line: int) -> str:
        """Return the known values of a line as points of a drawing 100 wide and 20 high."""
        values = self.values[line]
        highest = max((value for value in values if value is not None), default=0) or 1
        step = 100 / max(len(values) - 1, 1)
        return " ".join(
            f"{index * step:.4g},{20 - 18 * value / highest:.4g}"
            for index, value in enumerate(values)
            if value is not None
        )


@dataclass(frozen=True, slots=True)
class Bars:
    """Stacked bars, one under the other.

    Attributes:
        labels: what each bar is.
        figures: its number as people read it, at the right end of its line.
        series: the parts of all bars.
        whole: length of a full bar; None scales to the longest.
        legend: show a legend; not where each bar is one part and has its label.
    """

    kind: ClassVar = "bars"
    labels: Sequence[str]
    figures: Sequence[str]
    series: Sequence[Series]
    whole: float | None = None
    legend: bool = True

    @property
    def shown(self) -> Sequence[Series]:
        """Return the parts of the legend: those that some bar has; none where one is all."""
        found = [series for series in self.series if any(series.values)]
        return found if self.legend and len(self.series) > 1 else []

    def parts(self, index: int) -> list[tuple[str, float]]:
        """Return look and width in percent of a full bar of each part of a bar."""
        longest = max((sum(values) for values in zip(*self._values(), strict=True)), default=0)
        whole = self.whole or longest or 1
        found: list[tuple[str, float]] = []
        left = whole
        for series in self.series:
            length = min(series.values[index], left)
            if length > 0:
                found.append((series.look, round(100 * length / whole, 2)))
                left -= length
        return found

    def _values(self) -> list[Sequence[float]]:
        return [series.values for series in self.series]


@dataclass(frozen=True, slots=True)
class Curve:
    """A falling or rising amount over time; each amount holds until the next is known.

    Attributes:
        x: places along the time that counts, ascending.
        y: the amount at each.
        ticks: places and their times as people read them.
        breaks: places where a pause was cut out, and what it was.
        amount: writes an amount for the axis.
    """

    kind: ClassVar = "curve"
    x: Sequence[float]
    y: Sequence[float]
    ticks: Sequence[tuple[float, str]]
    breaks: Sequence[tuple[float, str]]
    amount: Callable[[float], str]

    def across(self, position: float) -> float:
        """Return the position of an index along the curve, in percent."""
        width = (max(self.x) - min(self.x)) or 1
        return round(100 * (position - min(self.x)) / width, 2)

    def down(self, amount: float) -> float:
        """Return how far below the top an amount is, in percent."""
        low, high = self._ends()
        return round(100 * (high - amount) / (high - low), 2)

    @property
    def path(self) -> str:
        """Return the points of the stepped line, for a drawing of 100 by 100."""
        points: list[str] = []
        before: float | None = None
        for position, amount in zip(self.x, self.y, strict=True):
            across = self.across(position)
            if before is not None:
                points.append(f"{across},{self.down(before)}")
            points.append(f"{across},{self.down(amount)}")
            before = amount
        return " ".join(points)

    @property
    def grid(self) -> list[tuple[float, str]]:
        """Return round amounts within the curve, each with its place from the top."""
        low, high = self._ends()
        size: float = 10 ** math.floor(math.log10((high - low) / _GRID))
        step = next(size * m for m in (1, 2, 5, 10, 20) if (high - low) / (size * m) <= _GRID)
        first = math.ceil(low / step)
        lines = [step * n for n in range(first, math.floor(high / step) + 1)]
        return [(self.down(line), self.amount(line)) for line in lines]

    def _ends(self) -> tuple[float, float]:
        """Return the ends of the scale: the curve's own, with some room."""
        low, high = min(self.y), max(self.y)
        room = (high - low or abs(high) or 1) * 0.08
        return low - room, high + room


@dataclass(frozen=True, slots=True)
class Ranges:
    """From the middle to the slow end, one line for each label: median, 95th and 99th percentile.

    Attributes:
        labels: what each line is.
        figures: its numbers as people read them.
        values: three numbers for each, milliseconds.
    """

    kind: ClassVar = "ranges"
    labels: Sequence[str]
    figures: Sequence[str]
    values: Sequence[tuple[float, float, float]]

    def across(self, index: int) -> tuple[float, float, float]:
        """Return the positions of a line's three numbers, in percent of a logarithmic scale."""
        ends = [number for values in self.values for number in values]
        low = math.log(max(_FASTEST_MS, min(ends)) * 0.8)
        high = math.log(max(_FASTEST_MS, *ends) * 1.2)

        def at(number: float) -> float:
            return round(100 * (math.log(max(number, _FASTEST_MS)) - low) / (high - low), 2)

        mid, slow, slowest = self.values[index]
        return at(mid), at(slow), at(slowest)


Chart = Bars | Curve | Lines | Ranges
