"""The report's sections on risk: what is new, what is not screened, evidence, answers, findings.

Everything is read off the report's dictionary.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from nightscreen.checks.declaration import Tone
from nightscreen.checks.registry import ANSWERED, CHECKS
from nightscreen.report.charts import Bars, Series
from nightscreen.report.components import Picture, Section, Table, spoken
from nightscreen.report.format import (
    CAUSES,
    STATUSES,
    TITLES,
    count,
    days_old,
    decision_titles,
    moment,
    naira_at_risk,
    naira_tight,
    plain,
    sentence,
    share,
    some,
    untight,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_AGES = {1: "Under a day", 7: "1 to 7 days", 30: "8 to 30 days", 90: "31 to 90 days"}
_OLDER, _WITHOUT = "Over 90 days", "No answer at all"
_CHANGES = {
    "customers": "Customers with any change",
    "new_listing": "Newly listed",
    "worse": "Worse",
    "changed": "Changed otherwise",
    "cleared": "No longer listed",
    "better": "Better",
    "new": "New in the batch",
    "gone": "No longer in the batch",
}
_ACTIONS = {"invalid": "not used", "repaired": "repaired", "warned": "kept, with a warning"}

_NEW = (
    "New: the policy decided otherwise when the customer was last decided on. First: no decision "
    "was made before. A customer may show several kinds of change."
)


def decision_picture(report: Mapping[str, Any]) -> Picture | None:
    """Return exposure by decision, what is new set apart; customers where no exposure is known."""
    news = report.get("news")
    if not news or not report["rows"]["screened"]:
        return None
    by_naira = Decimal(report["exposure"]["total"]) > 0
    size, unit = _size(by_naira=by_naira), "exposure" if by_naira else "customers"
    decisions = [
        (title, news["decisions"][word]) for word, title in decision_titles(report).items()
    ]
    kept = [
        size(weight) - size(weight["turned"]) - size(weight["first"]) for _, weight in decisions
    ]
    turned = [size(weight["turned"]) for _, weight in decisions]
    first = [size(weight["first"]) for _, weight in decisions]
    chart = Bars(
        [title for title, _ in decisions],
        [_weight(weight, by_naira=by_naira) for _, weight in decisions],
        [
            Series("as before", "plain", kept),
            Series("decided otherwise before", "warn", turned, "///"),
            Series("first decision", "other", first, "||"),
        ],
    )
    text = " ".join(
        f"{title}: {_weight(weight, by_naira=by_naira)}, of which decided otherwise before "
        f"{_weight(weight['turned'], by_naira=by_naira)}, first decision "
        f"{_weight(weight['first'], by_naira=by_naira)}."
        for title, weight in decisions
    )
    text = untight(text)
    title = f"{unit.capitalize()} by decision, and what is new"
    return Picture(chart, name="decisions", title=title, text=text)


def _size(*, by_naira: bool) -> Callable[[Mapping[str, Any]], float]:
    if by_naira:
        return lambda weight: float(Decimal(weight["exposure"]))
    return lambda weight: float(weight["rows"])


def _weight(weight: Mapping[str, Any], *, by_naira: bool) -> str:
    rows = count(weight["rows"])
    return f"{naira_tight(weight['exposure'])} · {rows}" if by_naira else rows


def decisions(report: Mapping[str, Any]) -> Section | None:
    """Return the section on decisions and changes."""
    news = report.get("news")
    if not news or not report["rows"]["screened"]:
        return None
    rows = []
    for word, title in decision_titles(report).items():
        counts = news["decisions"][word]
        rows.append(
            [
                title,
                count(counts["rows"]),
                naira_at_risk(counts),
                count(counts["turned"]["rows"]),
                naira_at_risk(counts["turned"]),
                count(counts["first"]["rows"]),
            ]
        )
    heads = (
        "Decision",
        "Customers",
        "Exposure",
        "New: customers",
        "New: exposure",
        "First: customers",
    )
    table = Table("Customers and known exposure by decision", heads, rows)
    changes = [[title, count(report["changes"].get(name, 0))] for name, title in _CHANGES.items()]
    history = Table(
        "Customers by kind of change since their last answers", ("Change", "Customers"), changes
    )
    return Section("news", "Decisions and what is new", [_NEW], (), (table, history))


def coverage(report: Mapping[str, Any]) -> Section | None:
    """Return the section on exposure that is not fully screened, and on the age of evidence."""
    weight = report["exposure"].get("not_screened")
    if weight is None or not report["rows"]["screened"]:
        return None
    by_naira = Decimal(report["exposure"]["total"]) > 0
    pictures = [_age_picture(report, by_naira=by_naira)]
    tables = [_age_table(report)]
    intro = [_oldest(report)]
    if weight["rows"]:
        pictures.insert(0, _cause_picture(report, weight, by_naira=by_naira))
        tables.insert(0, _cause_table(weight))
        intro.insert(
            0,
            "Each customer is counted once, under the first cause that applies to any check. "
            "Rows not reached, failed or in doubt need another run; consent and malformed "
            "identifiers need a person.",
        )
    else:
        intro.insert(0, "Every customer is screened in every check that can be asked.")
    return Section("coverage", "What is screened, and how fresh it is", intro, pictures, tables)


def _cause_picture(
    report: Mapping[str, Any], weight: Mapping[str, Any], *, by_naira: bool
) -> Picture:
    size = _size(by_naira=by_naira)
    causes = list(weight["causes"].items())
    whole = float(Decimal(report["exposure"]["total"])) if by_naira else report["rows"]["screened"]
    chart = Bars(
        [CAUSES[word] for word, _ in causes],
        [_weight(weight, by_naira=by_naira) for _, weight in causes],
        [Series("not screened", "bad", [size(weight) for _, weight in causes], "///")],
        whole=float(whole),
    )
    unit = "Exposure" if by_naira else "Customers"
    return Picture(
        chart,
        name="causes",
        title=f"{unit} not screened in full, by cause",
        text=spoken(chart),
        caption="A full bar would be the whole batch.",
    )


def _cause_table(weight: Mapping[str, Any]) -> Table:
    causes = [(CAUSES[word], cause_weight) for word, cause_weight in weight["causes"].items()]
    rows = [
        [
            title,
            count(row_weight["rows"]),
            naira_at_risk(row_weight),
            count(row_weight["unknown_rows"]),
        ]
        for title, row_weight in [*causes, ("Together", weight)]
    ]
    heads = ("Cause", "Customers", "Exposure", "Exposure not known")
    return Table("Not screened in full, by cause", heads, rows, totals=True)


def _ages(report: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    return [
        (_AGES.get(age["days"], _OLDER) if age["evidence"] else _WITHOUT, age)
        for age in report["freshness"]["ages"]
    ]


def _age_picture(report: Mapping[str, Any], *, by_naira: bool) -> Picture:
    size = _size(by_naira=by_naira)
    shown = [(title, age) for title, age in _ages(report) if age["rows"]]
    chart = Bars(
        [title for title, _ in shown],
        [_weight(age, by_naira=by_naira) for _, age in shown],
        [Series("evidence", "plain", [size(age) for _, age in shown])],
    )
    unit = "Exposure" if by_naira else "Customers"
    title = f"{unit} by age of the customer's oldest answer"
    return Picture(chart, name="ages", title=title, text=spoken(chart))


def _age_table(report: Mapping[str, Any]) -> Table:
    rows = [
        [title, count(age["rows"]), naira_at_risk(age)]
        for title, age in _ages(report)
        if age["rows"]
    ]
    return Table("Age of each customer's oldest answer", ("Age", "Customers", "Exposure"), rows)


def _oldest(report: Mapping[str, Any]) -> str:
    freshness = report["freshness"]
    days = freshness["oldest_evidence_days"]
    if days is None:
        return "No answer of an earlier run was used."
    when = moment(freshness["oldest_evidence_at"])
    return f"The oldest answer reused is of {when}, {days_old(days)} old."


def answers(report: Mapping[str, Any]) -> Section:
    """Return the section on how the answers of each check split."""
    pictures = [
        _answer_picture(name, part["answers"])
        for name, part in report["checks"].items()
        if sum(part["answers"].values())
    ]
    return Section("answers", "How answers split", (), pictures)


def status(word: str) -> str:
    """Return a status as people read it."""
    label = STATUSES.get(word, plain(word))
    return label[:1].upper() + label[1:]


def _by_size(answers: Mapping[str, int]) -> list[tuple[str, int]]:
    """Return statuses, answers before their absence, most frequent first."""
    return sorted(
        answers.items(), key=lambda answer: (answer[0] not in ANSWERED, -answer[1], answer[0])
    )


_TONES = {
    Tone.GOOD: ("good", ""),
    Tone.BAD: ("bad", "xx"),
    Tone.DOUBTFUL: ("warn", "///"),
    None: ("other", "|"),
}
"""Colour and pattern of a status; None is one without an answer."""


def _answer_picture(name: str, answers: Mapping[str, int]) -> Picture:
    total = sum(answers.values())
    words = _by_size(answers)
    statuses = CHECKS[name].statuses
    tones = [_TONES[statuses.get(word)] for word, _ in words]
    series = [
        Series(
            title, tone, [float(n) if index == at else 0.0 for index in range(len(words))], pattern
        )
        for at, ((title, n), (tone, pattern)) in enumerate(zip(words, tones, strict=True))
    ]
    figures = [f"{count(n)} · {share(n, total)}" for _, n in words]
    chart = Bars(
        [status(word) for word, _ in words], figures, series, whole=float(total), legend=False
    )
    return Picture(chart, name=f"answers-{name}", title=TITLES[name], text=spoken(chart))


def findings(report: Mapping[str, Any]) -> Section | None:
    """Return the section on quarantine and flawed values, by cause."""
    found = report.get("findings")
    if not found:
        return None
    rows = report["rows"]
    refused = list(found["quarantined"].items())
    read, screened, refused_rows = (rows[name] for name in ("read", "screened", "quarantined"))
    counted = f"{count(screened)} screened, {count(refused_rows)} in quarantine"
    intro = [f"{some(read, 'row')} read, {counted}."]
    tables, pictures = [], []
    if refused:
        intro.append(
            "Rows in quarantine are in quarantine.csv: correct them there and screen that file."
        )
        chart = Bars(
            [sentence(code) for code, _ in refused],
            [count(number) for _, number in refused],
            [Series("rows", "warn", [float(number) for _, number in refused], "///")],
        )
        title = "Rows in quarantine, by cause"
        pictures.append(Picture(chart, name="quarantine", title=title, text=spoken(chart)))
        lines = [[sentence(code), code, count(number)] for code, number in refused]
        heads = ("Cause", "Code", "Rows")
        tables.append(Table(title, heads, lines, words=frozenset({1})))
    if found["values"]:
        lines = [
            [
                sentence(value["code"]),
                _ACTIONS.get(value["action"], value["action"]),
                count(value["count"]),
            ]
            for value in found["values"]
        ]
        title = "Values found wanting in rows that were kept"
        tables.append(
            Table(title, ("Finding", "What was done", "Values"), lines, words=frozenset({1}))
        )
    return Section("findings", "Quarantine and findings", intro, pictures, tables)
