"""Charts of the report as inline SVG: drawn by a plotting library, coloured by the page.

Each chart is small enough for a phone, names its numbers in text, tells series apart by pattern as
well as by colour, and is the same bytes for the same numbers. What is charted is chosen in
`report_figures`; the library is loaded when the first chart is drawn, since that takes a while.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from html import escape
from threading import Lock
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 360
_TEXT, _SMALL = 12, 11
_LINE, _BAR, _GAP, _LEGEND = 17, 13, 13, 18
_EDGE = 2
_MARGIN = {"left": 62, "right": 12, "top": 12, "bottom": 40}
_LETTER = 0.62
"""Width of a letter as a share of its height, on the wide side: browsers choose the typeface."""
_FASTEST_MS = 0.1
"""Left end of the scale of latencies at least: it has no zero."""

TONES = {
    "ink": "#a10001",
    "soft": "#a10002",
    "line": "#a10003",
    "good": "#a10004",
    "warn": "#a10005",
    "bad": "#a10006",
    "plain": "#a10007",
    "other": "#a10008",
    "quiet": "#a10009",
    "paper": "#a1000a",
}
"""Stand-ins that no chart shows: each becomes a variable of the page's style, light or dark."""

_PARAMETERS: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "nightscreen",
    "text.parse_math": False,
    "font.size": _TEXT,
    "hatch.linewidth": 1.6,
    "axes.unicode_minus": False,
    "path.simplify": False,
}
_DRAWING = Lock()
_FONT = re.compile(r"font: (?:[\w.]+ )*?([\d.]+)px [^;\"]*")
_FAMILY = re.compile(r" ?font-family: [^;\"]*;?")


@dataclass(frozen=True, slots=True)
class Series:
    """One part of every bar.

    Attributes:
        name: as the legend has it.
        tone: a name in `TONES`.
        values: one for each bar.
        pattern: hatching of the part, so that colour alone tells nothing.
    """

    name: str
    tone: str
    values: Sequence[float]
    pattern: str = ""


@dataclass(frozen=True, slots=True)
class Bars:
    """Stacked bars, one under the other.

    Attributes:
        labels: what each bar is.
        figures: its number as people read it, at the right end of its line.
        series: the parts of all bars.
        whole: length of a full bar; None scales to the longest.
        legend: say which part is which; not where each bar is one part and has its label.
    """

    labels: Sequence[str]
    figures: Sequence[str]
    series: Sequence[Series]
    whole: float | None = None
    legend: bool = True


@dataclass(frozen=True, slots=True)
class Curve:
    """A falling or rising amount over time.

    Attributes:
        x: places along the time that counts.
        y: the amount at each; None where it is not known.
        ticks: places and their times as people read them.
        breaks: places where a pause was cut out, and what it was.
        amount: writes an amount for the axis.
    """

    x: Sequence[float]
    y: Sequence[float | None]
    ticks: Sequence[tuple[float, str]]
    breaks: Sequence[tuple[float, str]]
    amount: Callable[[float], str]


@dataclass(frozen=True, slots=True)
class Ranges:
    """From the middle to the slow end, one line for each label: median, 95th and 99th percentile.

    Attributes:
        labels: what each line is.
        figures: its numbers as people read them.
        values: three numbers for each.
    """

    labels: Sequence[str]
    figures: Sequence[str]
    values: Sequence[tuple[float, float, float]]


def draw(chart: Bars | Curve | Ranges, *, name: str, title: str, text: str) -> str:
    """Return a chart as an SVG element with a title and its numbers as a text alternative.

    Args:
        chart: what to draw.
        name: prefix of every id, so that several charts can stand on a page.
        title: what the chart shows.
        text: the numbers, in words.
    """
    import matplotlib as mpl  # noqa: PLC0415 - slow to load, and most commands draw nothing

    with _DRAWING, mpl.rc_context(_PARAMETERS):
        figure = _PAINTERS[type(chart)](chart)
        file = io.StringIO()
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(file, format="svg", transparent=True, metadata=nothing)
    return _inline(file.getvalue(), name, title, text)


def _inline(svg: str, name: str, title: str, text: str) -> str:
    """Return a stand-alone drawing as a part of the page."""
    body = svg[svg.index("<svg") :]
    head, body = body.split(">", 1)
    box = re.search(r'viewBox="([^"]*)"', head)
    body = re.sub(r"<metadata>.*?</metadata>\s*", "", body, flags=re.DOTALL)
    body = re.sub(r"<!--.*?-->\s*", "", body, flags=re.DOTALL)
    body = re.sub(r'\b(id="|href="#|url\(#)', rf"\g<1>{name}-", body)
    body = _FAMILY.sub("", _FONT.sub(r"font-size: \1px", body)).replace("xlink:href", "href")
    for tone, stand_in in TONES.items():
        body = body.replace(stand_in, f"var(--{tone})")
    return (
        f'<svg role="img" viewBox="{box[1] if box else ""}" aria-labelledby="{name}-t {name}-d">'
        f'<title id="{name}-t">{escape(title)}</title><desc id="{name}-d">{escape(text)}</desc>'
        f"{body}"
    )


def _blank(height: float) -> Figure:
    from matplotlib.figure import Figure  # noqa: PLC0415 - as above

    return Figure(figsize=(WIDTH / 72, height / 72), dpi=72)


def _canvas(height: float, top: float, *, rows: int) -> tuple[Figure, Axes]:
    """Return a figure whose lower part holds bare axes, a unit high for each row."""
    figure = _blank(height)
    axes = figure.add_axes((0, 0, 1, 1 - top / height))
    axes.set_axis_off()
    axes.set_ylim(rows, 0)
    return figure, axes


def _bars(chart: Bars) -> Figure:
    rows = max(1, len(chart.labels))
    shown = [each for each in chart.series if any(each.values)] or list(chart.series[:1])
    top = _legend_height(shown) if chart.legend and len(chart.series) > 1 else 0
    row = _LINE + _BAR + _GAP
    figure, axes = _canvas(top + rows * row, top, rows=rows)
    lengths = [sum(each.values[place] for each in chart.series) for place in range(rows)]
    whole = chart.whole or max(lengths, default=0) or 1
    axes.set_xlim(-whole * _EDGE / WIDTH, whole * (1 + _EDGE / WIDTH))
    middle = (_LINE + _BAR / 2) / row
    for place in range(rows):
        _line(axes, place, chart.labels[place], chart.figures[place], row)
        axes.barh(place + middle, whole, height=_BAR / row, color=TONES["quiet"], linewidth=0)
        start = 0.0
        for each in shown:
            length = min(each.values[place], whole - start)
            if length > 0:
                axes.barh(
                    place + middle,
                    length,
                    left=start,
                    height=_BAR / row,
                    facecolor=TONES[each.tone],
                    edgecolor=TONES["paper"],
                    hatch=each.pattern or None,
                    linewidth=0.8,
                )
            start += max(0, length)
    if top:
        _legend(figure, shown)
    return figure


def _line(axes: Axes, place: int, label: str, number: str, row: float) -> None:
    """Write a bar's label at the left and its number at the right."""
    at = place + (_LINE - 5) / row
    left, right = axes.get_xlim()
    size = min(_TEXT, WIDTH / _LETTER / max(1, len(label) + len(number) + 1))
    for x, text, side in ((left, label, "left"), (right, number, "right")):
        axes.text(x, at, text, color=TONES["ink"], va="baseline", ha=side, fontsize=size)


def _legend_height(series: Sequence[Series]) -> int:
    """Return the height of a legend with two parts a line."""
    return _LEGEND * ((len(series) + 1) // 2) + 8


def _legend(figure: Figure, series: Sequence[Series]) -> None:
    from matplotlib.patches import Patch  # noqa: PLC0415 - as above

    patches = [
        Patch(
            facecolor=TONES[each.tone],
            edgecolor=TONES["paper"],
            hatch=each.pattern * 2 or None,
            label=each.name,
        )
        for each in series
    ]
    figure.legend(
        handles=patches,
        loc="upper left",
        ncols=2,
        frameon=False,
        borderpad=0,
        borderaxespad=0.1,
        fontsize=_SMALL,
        labelcolor=TONES["soft"],
        handlelength=1.2,
        columnspacing=1.2,
        handletextpad=0.5,
    )


def _plot(height: float) -> tuple[Figure, Axes]:
    """Return a figure with axes and room for their numbers."""
    figure = _blank(height)
    axes = figure.add_axes(
        (
            _MARGIN["left"] / WIDTH,
            _MARGIN["bottom"] / height,
            1 - (_MARGIN["left"] + _MARGIN["right"]) / WIDTH,
            1 - (_MARGIN["top"] + _MARGIN["bottom"]) / height,
        )
    )
    for side, spine in axes.spines.items():
        spine.set_visible(side == "bottom")
        spine.set_color(TONES["line"])
    axes.tick_params(colors=TONES["soft"], labelsize=_SMALL, length=0, pad=5)
    axes.grid(visible=True, axis="y", color=TONES["line"], linewidth=0.8)
    axes.set_axisbelow(True)
    return figure, axes


def _curve(chart: Curve) -> Figure:
    from matplotlib.ticker import FuncFormatter, MaxNLocator  # noqa: PLC0415 - as above

    figure, axes = _plot(210)
    known = [(x, y) for x, y in zip(chart.x, chart.y, strict=True) if y is not None]
    places, amounts = [x for x, _ in known], [y for _, y in known]
    axes.plot(places, amounts, color=TONES["plain"], linewidth=2, drawstyle="steps-post")
    for at in (0, -1):
        axes.plot(places[at], amounts[at], "o", color=TONES["plain"], markersize=6, clip_on=False)
    for place, said in chart.breaks:
        axes.axvline(place, color=TONES["soft"], linewidth=1, linestyle=(0, (3, 3)))
        axes.annotate(
            said,
            (place, 1),
            xycoords=("data", "axes fraction"),
            xytext=(4, -3),
            textcoords="offset points",
            color=TONES["soft"],
            fontsize=_SMALL,
            va="top",
        )
    low, high = min(amounts), max(amounts)
    room = (high - low or abs(high) or 1) * 0.08
    axes.set_ylim(low - room, high + room)
    axes.set_xlim(min(chart.x), max(chart.x) or 1)
    axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: chart.amount(value)))
    axes.set_xticks([at for at, _ in chart.ticks], [said for _, said in chart.ticks])
    _tuck_in(axes)
    return figure


def _tuck_in(axes: Axes) -> None:
    """Keep the outermost labels within the drawing."""
    labels = axes.get_xticklabels()
    if len(labels) > 1:
        labels[0].set_horizontalalignment("left")
        labels[-1].set_horizontalalignment("right")


def _ranges(chart: Ranges) -> Figure:
    rows, row = max(1, len(chart.labels)), _LINE + _BAR + _GAP
    figure, axes = _canvas(rows * row + _LEGEND + 8, _LEGEND + 8, rows=rows)
    ends = [number for each in chart.values for number in each]
    low, high = max(_FASTEST_MS, min(ends)) * 0.8, max(_FASTEST_MS, *ends) * 1.2
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    middle = (_LINE + _BAR / 2) / row
    for place, (mid, slow, slowest) in enumerate(chart.values):
        _line(axes, place, chart.labels[place], chart.figures[place], row)
        axes.hlines(place + middle, low, high, color=TONES["quiet"], linewidth=_BAR)
        axes.hlines(
            place + middle, max(mid, low), max(slowest, low), color=TONES["plain"], linewidth=2
        )
        for number, shape in ((mid, "o"), (slow, "s"), (slowest, "|")):
            at = max(number, _FASTEST_MS)
            axes.plot(at, place + middle, shape, color=TONES["plain"], markersize=8, mew=2)
    _marks(figure)
    return figure


def _marks(figure: Figure) -> None:
    from matplotlib.lines import Line2D  # noqa: PLC0415 - as above

    shapes = (("o", "half within"), ("s", "95 % within"), ("|", "99 % within"))
    handles = [
        Line2D([], [], color=TONES["plain"], marker=shape, linestyle="", mew=2, label=name)
        for shape, name in shapes
    ]
    figure.legend(
        handles=handles,
        loc="upper left",
        ncols=3,
        frameon=False,
        borderpad=0,
        borderaxespad=0.1,
        fontsize=_SMALL,
        labelcolor=TONES["soft"],
        handletextpad=0.1,
        columnspacing=1.0,
    )


_PAINTERS: dict[type, Callable[[Any], Figure]] = {Bars: _bars, Curve: _curve, Ranges: _ranges}
