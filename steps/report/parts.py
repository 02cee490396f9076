"""What the page is made of: tiles, tables, pictures, sections. The template lays them out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from markupsafe import Markup

from nightscreen.steps.report.charts import Bars, Curve, Ranges, draw
from nightscreen.steps.report.words import untight

if TYPE_CHECKING:
    from collections.abc import Sequence

_NARROW = 3


@dataclass(frozen=True, slots=True)
class Tile:
    """One figure of the first screen: what it is, its value, and what stands behind it.

    Attributes:
        tone: `good`, `warn`, `bad` or empty; told in words too.
    """

    label: str
    value: str
    notes: Sequence[str] = ()
    tone: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table: its caption, its headings, and rows of text; the first cell heads its row.

    Attributes:
        words: columns that hold words, not numbers, the first aside.
        totals: the last row is a total.
    """

    caption: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: frozenset[int] = frozenset()
    totals: bool = False

    @property
    def narrow(self) -> bool:
        """Tell whether it can stand beside a chart."""
        return len(self.heads) <= _NARROW


@dataclass(frozen=True, slots=True)
class Picture:
    """A chart on the page: the drawing, and a caption that says how to read it."""

    svg: Markup
    title: str
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


def picture(
    chart: Bars | Curve | Ranges, *, name: str, title: str, text: str, caption: str = ""
) -> Picture:
    """Draw a chart for the page; `text` tells its numbers to who cannot see it."""
    svg = draw(chart, name=name, title=title, text=text)
    return Picture(Markup(svg), title, caption)  # noqa: S704 - drawn and escaped by `draw`


def spoken(chart: Bars | Ranges) -> str:
    """Return the numbers of a chart, a sentence for each label."""
    return " ".join(
        f"{label}: {untight(figure)}."
        for label, figure in zip(chart.labels, chart.figures, strict=True)
    )
