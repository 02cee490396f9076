"""The parts of the page: tiles, tables, pictures, sections. The template lays them out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nightscreen.report.format import untight

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nightscreen.report.charts import Bars, Chart, Lines, Ranges

_NARROW = 3


@dataclass(frozen=True, slots=True)
class Tile:
    """One figure of the first screen: its name, its value, and a note.

    Attributes:
        tone: `good`, `warn`, `bad` or empty; shown in words too.
    """

    label: str
    value: str
    notes: Sequence[str] = ()
    tone: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table: its caption, its headings, and rows of text; the first cell heads its row.

    Attributes:
        words: columns besides the first that hold words, not numbers.
        totals: the last row is a total.
    """

    caption: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: frozenset[int] = frozenset()
    totals: bool = False

    @property
    def narrow(self) -> bool:
        """Return whether it fits beside a chart."""
        return len(self.heads) <= _NARROW


@dataclass(frozen=True, slots=True)
class Picture:
    """A chart on the page.

    Attributes:
        name: prefix of its ids, so that a page can have several charts.
        text: its numbers, for readers who cannot see it.
        caption: how to read it.
    """

    chart: Chart
    name: str
    title: str
    text: str
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """A section of the page."""

    name: str
    title: str
    intro: Sequence[str] = ()
    pictures: Sequence[Picture] = ()
    tables: Sequence[Table] = ()
    notes: Sequence[str] = field(default=())


def spoken(chart: Bars | Lines | Ranges) -> str:
    """Return the numbers of a chart, a sentence for each label."""
    return " ".join(
        f"{label}: {untight(figure)}."
        for label, figure in zip(chart.labels, chart.figures, strict=True)
    )
