"""The report's sections on money and on the service: costs, balance, speed, provenance.

Everything is read off the report's dictionary.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from nightscreen.report.charts import Bars, Curve, Ranges, Series
from nightscreen.report.components import Picture, Section, Table, spoken
from nightscreen.report.format import (
    TITLES,
    TROUBLES,
    clock_time,
    count,
    day_and_time,
    lasting,
    milliseconds,
    moment,
    month_name,
    naira,
    naira_tight,
    plain,
    sentence,
    share,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_ENOUGH_POINTS = 2
_SHORT_RUN_S = 600
_FEW_LABELS_S = 60
_SAVED = (
    "Reuse: an answer of an earlier run was still fresh. Sharing: several customers of the batch "
    "needed the same answer. A lookup that finds nothing is free. Spared: no answer could have "
    "changed the decision. In doubt: the answer was lost, so that the charge is not known; the "
    "worst case stays reserved under every cap."
)
_EXACT = (
    "Opening and closing are exact: the first and the last call were alone on the wire, and other "
    "balances confirm them."
)
_NEAR = (
    "Opening and closing are as near as the balances show: at one end no call was alone on the "
    "wire, or one in doubt may have been charged outside, or nothing shows that its balance "
    "includes its own charge."
)


def _number(text: str | None) -> float:
    return 0.0 if text is None else float(Decimal(text))


def limit_picture(report: Mapping[str, Any]) -> Picture | None:
    """Return spending against quote, cap, day and month, each as a share of its own limit."""
    lines = [line for line in _limits(report) if Decimal(line[2]) > 0]
    if not lines:
        return None
    ratios = [float(Decimal(spent) / Decimal(limit)) for _, spent, limit, _ in lines]
    doubts = [float(Decimal(doubt) / Decimal(limit)) for _, _, limit, doubt in lines]
    chart = Bars(
        [name for name, *_ in lines],
        [
            f"{naira_tight(spent)} of {naira_tight(limit)} · {share(spent, limit)}"
            for _, spent, limit, _ in lines
        ],
        [
            Series("spent", "plain", [min(ratio, 1.0) for ratio in ratios]),
            Series("over", "bad", [max(0.0, ratio - 1) for ratio in ratios], "xx"),
            Series("may have been charged", "warn", doubts, "///"),
        ],
        whole=max(1.0, *(sum(both) for both in zip(ratios, doubts, strict=True))),
    )
    title = "Spending against quote and caps"
    return Picture(chart, name="limits", title=title, text=spoken(chart))


def _limits(report: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    """Return name, spent, limit and amount in doubt of each limit on money."""
    cost, spending = report["cost"], report.get("spending") or {}
    doubt = cost["in_doubt_exposure"]
    found = [("Highest quote of the run", cost["total"], cost["quoted"]["high"], doubt)]
    if cost["cap"] is not None:
        found.append(("Cap of the run", cost["total"], cost["cap"], doubt))
    for name, title in (("day", "Cap of the day"), ("month", "Cap of the month")):
        limit = spending.get(name)
        if limit and limit["cap"] is not None:
            found.append((title, limit["spent"], limit["cap"], limit["reserved"]))
    return found


def money(report: Mapping[str, Any]) -> Section:
    """Return the section on money by check, saved and why."""
    checks = report["checks"]
    heads = (
        "Check",
        "Lookups",
        "Charged",
        "Free",
        "Reused",
        "Spared",
        "Open",
        "Spent",
        "In doubt",
        "Reuse saved",
        "Sharing saved",
    )
    rows = [[TITLES[name], *_check_cells(part)] for name, part in checks.items()]
    cost = report["cost"]
    sums = [_sum(checks, (name,)) for name in _COUNTS] + [_sum(checks, _OPEN)]
    total = [
        "Together",
        *(count(number) for number in sums),
        naira(cost["total"]),
        naira(cost["in_doubt_exposure"]),
        naira(cost["saved_by_reuse"]),
        naira(cost["saved_by_sharing"]),
    ]
    table = Table("Money by check", heads, [*rows, total], totals=True)
    pictures = [picture for picture in (_money_picture(report),) if picture is not None]
    tables = [table, _spending_table(report), *_disputed_table(cost)]
    return Section("money", "Money by check", [_SAVED], pictures, tables)


def _disputed_table(cost: Mapping[str, Any]) -> list[Table]:
    """Return the calls whose cost was not believed, or was settled by invoice; none where none."""
    heads = ("Call", "Check", "Sent", "Named", "Counts", "Invoice", "What is known")
    rows = [
        [
            str(each["call_id"]),
            TITLES.get(each["check"], each["check"]),
            moment(each["at"], seconds=True),
            *(naira(each[name]) for name in ("named", "counted", "invoice")),
            _KNOWN[each["state"]],
        ]
        for each in cost.get("disputed") or ()
    ]
    title = "Costs that were not believed, and what invoices say; settle them on the page Money"
    return [Table(title, heads, rows, words=frozenset({6}))] if rows else []


_KNOWN = {
    "open": "nothing contradicts it yet: it counts in full",
    "disproved": "the balance contradicts it",
    "confirmed": "the balance confirms it",
    "unknown": "the service did not say",
    "settled": "as the invoice says",
}


_COUNTS = ("distinct", "paid", "free", "reused", "spared")
_OPEN = ("unreadable", "failed", "in_doubt", "pending")


def _sum(checks: Mapping[str, Any], names: Sequence[str]) -> int:
    return sum(part.get(name, 0) for part in checks.values() for name in names)


def _check_cells(part: Mapping[str, Any]) -> list[str]:
    counts = [count(part[name]) for name in _COUNTS]
    amounts = ("cost", "in_doubt_exposure", "saved_by_reuse", "saved_by_sharing")
    return [
        *counts,
        count(sum(part.get(name, 0) for name in _OPEN)),
        *(naira(part.get(name, "0.00")) if name in part else "not kept" for name in amounts),
    ]


def _money_picture(report: Mapping[str, Any]) -> Picture | None:
    names = ("cost", "in_doubt_exposure", "saved_by_reuse", "saved_by_sharing")
    parts = {
        name: part
        for name, part in report["checks"].items()
        if any(_number(part.get(name)) for name in names)
    }
    if not parts:
        return None
    titles = ("spent", "in doubt", "saved by reuse", "saved by sharing")
    looks = (("plain", ""), ("warn", "///"), ("good", "|"), ("other", "xx"))
    chart = Bars(
        [TITLES[name] for name in parts],
        [_spent_and_saved(part) for part in parts.values()],
        [
            Series(title, tone, [_number(part.get(name)) for part in parts.values()], pattern)
            for name, title, (tone, pattern) in zip(names, titles, looks, strict=True)
        ],
    )
    text = " ".join(
        f"{TITLES[check]}: "
        + ", ".join(
            f"{title} {naira(part.get(name))}" for name, title in zip(names, titles, strict=True)
        )
        + "."
        for check, part in parts.items()
    )
    return Picture(chart, name="money-chart", title="Spent and saved by check", text=text)


def _spent_and_saved(part: Mapping[str, Any]) -> str:
    saved = Decimal(part.get("saved_by_reuse") or 0) + Decimal(part.get("saved_by_sharing") or 0)
    sentence = f"{naira_tight(part['cost'])} spent"
    return f"{sentence}, {naira_tight(str(saved))} saved" if saved else sentence


def _spending_table(report: Mapping[str, Any]) -> Table:
    cost, spending = report["cost"], report.get("spending") or {}
    quoted = cost["quoted"]
    rows = [
        ["Quote, expected", naira(quoted["expected"])],
        ["Quote, from lowest to highest", f"{naira(quoted['low'])} to {naira(quoted['high'])}"],
        ["This run", naira(cost["total"])],
        ["Cap of this run", naira(cost["cap"])],
    ]
    for name, title in (("day", "Day"), ("month", "Month")):
        limit = spending.get(name)
        if limit:
            label = (
                moment(f"{limit['name']}T12:00:00+01:00").split(",")[0]
                if name == "day"
                else month_name(limit["name"])
            )
            rows.append([f"{title} ({label}), all runs", naira(limit["spent"])])
            rows.append([f"{title}, held for calls in doubt", naira(limit["reserved"])])
            rows.append([f"{title}, cap", naira(limit["cap"])])
    return Table(
        "Spending against quote and caps; a day runs from noon to noon", ("Item", "Naira"), rows
    )


def balance(report: Mapping[str, Any]) -> Section:
    """Return the section on the balance over the run, and how it adds up."""
    figures = report["balance"]
    if figures["closing"] is None:
        intro = ["No answer had a balance, so there is nothing to compare the costs with."]
        return Section("balance", "Balance over the run", intro)
    rows = [
        ["Opening", naira(figures["opening"])],
        ["Known cost of the run", naira(_minus(report["cost"]["total"]))],
        ["Explained by calls in doubt", naira(_minus(figures["explained_in_doubt"]))],
        ["Drift, not explained", naira(_minus(figures["drift"]))],
        ["Closing", naira(figures["closing"])],
    ]
    how = _EXACT if figures["exact"] else _NEAR
    table = Table("How the balance adds up", ("Item", "Naira"), rows, totals=True)
    curve = _balance_picture(report)
    return Section("balance", "Balance over the run", [how], [curve] if curve else [], (table,))


def _minus(text: str) -> str:
    return str(-Decimal(text)) if Decimal(text) else text


def _balance_picture(report: Mapping[str, Any]) -> Picture | None:
    line = report.get("timeline") or {"at": []}
    reported = [index for index, amount in enumerate(line.get("balance", [])) if amount is not None]
    if len(reported) < _ENOUGH_POINTS:
        return None
    x = [float(line["active_s"][index]) for index in reported]
    chart = Curve(
        x,
        [_number(line["balance"][index]) for index in reported],
        _ticks(line, reported),
        [
            (line["active_s"][index], f"pause of {lasting(pause)}")
            for index, pause in enumerate(line["pause_before_s"])
            if pause
        ],
        _axis_amount,
    )
    at = [moment(line["at"][index], seconds=True) for index in (reported[0], reported[-1])]
    first, last = (naira(line["balance"][index]) for index in (reported[0], reported[-1]))
    low = min((Decimal(line["balance"][index]), index) for index in reported)
    text = (
        f"From {first} on {at[0]} to {last} on {at[1]}. Lowest {naira(str(low[0]))} on "
        f"{moment(line['at'][low[1]], seconds=True)}."
    )
    caption = "The lowest balance reported in each stretch of time. Pauses are cut out."
    return Picture(
        chart, name="balance-chart", title="Balance over the run", text=text, caption=caption
    )


def _ticks(line: Mapping[str, Any], reported: Sequence[int]) -> list[tuple[float, str]]:
    """Return first, middle and last moment as labels of the axis."""
    first, last = reported[0], reported[-1]
    whole = line["active_s"][last] - line["active_s"][first]
    seconds = whole < _SHORT_RUN_S
    shown = [first, last]
    if whole > _FEW_LABELS_S and not any(line["pause_before_s"]):
        half = line["active_s"][first] + whole / 2
        shown.insert(1, min(reported, key=lambda index: abs(line["active_s"][index] - half)))
    days = len({moment(line["at"][index]).split(",")[0] for index in shown}) > 1
    return [
        (
            float(line["active_s"][index]),
            day_and_time(line["at"][index])
            if days
            else clock_time(line["at"][index], seconds=seconds),
        )
        for index in dict.fromkeys(shown)
    ]


def _axis_amount(value: float) -> str:
    """Return an amount short enough for the axis."""
    for least, letter in ((1e12, "tn"), (1e9, "bn"), (1e6, "m"), (1e3, "k")):
        if abs(value) >= least:
            return f"₦{value / least:,.5g}{letter}"
    return f"₦{value:,.5g}"


def service(report: Mapping[str, Any]) -> Section:
    """Return the section on how fast the service answered, and what was sent again."""
    checks = report["checks"]
    timed = {name: part for name, part in checks.items() if part["latency_ms"]["p50"] is not None}
    pictures = []
    if timed:
        values = [
            tuple(part["latency_ms"][percentile] for percentile in ("p50", "p95", "p99"))
            for part in timed.values()
        ]
        chart = Ranges(
            [TITLES[name] for name in timed],
            [" · ".join(milliseconds(latency) for latency in three) for three in values],
            [(p50, p95, p99) for p50, p95, p99 in values],
        )
        text = " ".join(
            f"{TITLES[name]}: half within {milliseconds(three[0])}, 95 percent within "
            f"{milliseconds(three[1])}, 99 percent within {milliseconds(three[2])}."
            for name, three in zip(timed, values, strict=True)
        )
        pictures.append(
            Picture(
                chart,
                name="latency",
                title="How long answers took",
                text=text,
                caption="Further right is slower; each step of the scale is a multiple.",
            )
        )
    rows = [
        [
            TITLES[name],
            count(part["attempts"]),
            count(part["retries"]) if "retries" in part else "not kept",
            *(milliseconds(part["latency_ms"][percentile]) for percentile in ("p50", "p95", "p99")),
        ]
        for name, part in checks.items()
    ]
    heads = ("Check", "Calls", "Of which repeats", "Half within", "95 % within", "99 % within")
    tables = [Table("Calls and the time answers took", heads, rows)]
    troubles = [
        [TITLES[name], trouble(word), count(number)]
        for name, part in checks.items()
        for word, number in sorted(
            part.get("troubles", {}).items(), key=lambda trouble: -trouble[1]
        )
    ]
    intro = [] if troubles else ["Every call was answered at the first attempt."]
    if not any(part["attempts"] for part in checks.values()):
        intro = ["Nothing was sent."]
    if troubles:
        what = ("Check", "What happened", "Calls")
        tables.append(Table("Calls without an answer", what, troubles, words=frozenset({1})))
    return Section("service", "Speed and repeated calls", intro, pictures, tables)


def trouble(word: str) -> str:
    """Return in words why a call has no answer."""
    return TROUBLES.get(word, sentence(word))


def provenance(report: Mapping[str, Any]) -> Section:
    """Return the section on what the report rests on."""
    known = report.get("provenance") or {}
    rows = [
        ["Run", report["run_id"]],
        ["Batch", report["batch"]],
        ["State", plain(report["state"])],
    ]
    rows.append(["Begun", moment(report["started_at"], seconds=True)])
    rows.append(["Ended", moment(report["finished_at"], seconds=True)])
    rows.append(["Checks", ", ".join(TITLES[name] for name in report["checks"])])
    if known:
        rows += [
            ["Karma asked by", ", ".join(known["karma_identities"])],
            ["Age of evidence judged at", moment(known["evidence_judged_at"], seconds=True)],
            ["Deadline", moment(known["deadline_at"]) if known["deadline_at"] else "none"],
            ["Policy", known["policy"]],
            ["Input", known["input_digest"]],
            [
                "Versions",
                ", ".join(f"{name} {number}" for name, number in known["versions"].items()),
            ],
        ]
    words = frozenset({1})
    tables = [Table("What the report is based on", ("Item", "Value"), rows, words=words)]
    files = [
        [name, "" if number is None else count(number)] for name, number in _files(report).items()
    ]
    if files:
        tables.append(Table("Files beside this report", ("File", "Rows"), files))
    notes = ["Digests of all files are in manifest.json, the same numbers as here in report.json."]
    return Section("provenance", "Provenance", (), (), tables, notes)


def _files(report: Mapping[str, Any]) -> dict[str, int | None]:
    """Return files with rows, the parts of the enriched table as one."""
    found: dict[str, int | None] = {}
    for name, rows in report["files"].items():
        if "/part-" not in name:
            found[name] = rows
            continue
        folder = f"{name.split('/')[0]}/part-*.parquet"
        found[folder] = (found.get(folder) or 0) + (rows or 0)
    return found
