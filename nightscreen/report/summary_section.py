"""The report's first screen, for the head of risk: verdict, what to look at, and nine figures.

Everything is read off the report's dictionary.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from nightscreen.checks.registry import CHECKS
from nightscreen.report.components import Tile
from nightscreen.report.decided import WITH_HISTORY
from nightscreen.report.format import (
    BASES,
    CAUSES,
    NEXT,
    PURPOSES,
    TITLES,
    ZONE,
    count,
    days_old,
    from_to,
    moment,
    month_name,
    naira,
    naira_short,
    percent,
    plain,
    share,
    some,
)
from nightscreen.schemas.enriched import CONSENT_UNREADABLE
from nightscreen.schemas.stops import WHY

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_MANY_NIGHTS, _FEW_NIGHTS = 1000, 7
_HUNDRED = 100
_SAMPLES = "Test mode: every answer was a sample; nothing is known of any customer."
_MARKS = {"good": "✓", "warn": "!", "bad": "✕"}


@dataclass(frozen=True, slots=True)
class RunVerdict:
    """How the run ended: a line, what it means, and its tone.

    Attributes:
        tone: `good`, `warn` or `bad`.
        loud: nobody may overlook it.
    """

    line: str
    more: Sequence[str]
    tone: str
    loud: bool = False

    @property
    def mark(self) -> str:
        """Return the sign beside the line."""
        return _MARKS[self.tone]


def verdict(report: Mapping[str, Any]) -> RunVerdict:
    """Return how the run ended and what its answers are worth."""
    end = f"publishable: {publishable(report)}."
    if report["state"] == "test_mode":
        sentence = (
            "The service answered with samples, the same for everybody. Nothing here may be used"
        )
        more = [f"{sentence}.", "Switch the service to live in its console, then run again."]
        return RunVerdict(f"Test mode: not one row was screened; {end}", more, "bad", loud=True)
    word, answered = _word(report), _answered(report)
    more = [_stop(report)] if report["state"] != "completed" else []
    unread = unread_consents(report)
    if unread:
        more.append(
            f"{some(unread, 'consent date')} could not be read (consent_unreadable in "
            "problems.csv): those customers have consent on record, but nothing that needs it was "
            "asked or shown. Correct them, or choose their order at the desk or a terminal."
        )
    more += _blind_approvals(report)
    whole = word == "Complete" and report["publishable"] and not unread
    tone = "good" if whole else "bad" if word == "Nothing answered" else "warn"
    return RunVerdict(f"{word}: {answered}; {end}", more, tone)


def unread_consents(report: Mapping[str, Any]) -> int:
    """Return how many consent dates could not be read, if a check of the run needs consent."""
    if not any(each.needs_consent and check in report["checks"] for check, each in CHECKS.items()):
        return 0
    found = (report.get("findings") or {}).get("values", [])
    return sum(each["count"] for each in found if each["code"] == CONSENT_UNREADABLE)


def publishable(report: Mapping[str, Any]) -> str:
    """Return whether the run may be published, in words."""
    if report.get("released"):
        return "yes, released after it was held back"
    if report.get("held"):
        return "no, held back"
    return "yes" if report["publishable"] else "no"


def _word(report: Mapping[str, Any]) -> str:
    due, answered = _due(report)
    if not report["rows"]["screened"]:
        return "Nothing screened"
    if not due and report["state"] == "completed":
        return "Nothing due"
    if report["state"] == "completed":
        return "Complete" if answered == due else "Complete, with gaps"
    return "Partial" if answered or not due else "Nothing answered"


def _due(report: Mapping[str, Any]) -> tuple[int, int]:
    """Return what was due and what of it was answered: rows, in an old report lookups."""
    coverage = report.get("coverage")
    if coverage:
        return coverage["due_rows"], coverage["answered_rows"]
    checks = report["checks"].values()
    answered = sum(counts["paid"] + counts["free"] + counts["reused"] for counts in checks)
    return sum(counts["distinct"] for counts in checks), answered


def _answered(report: Mapping[str, Any]) -> str:
    rows = report["rows"]
    due, answered = _due(report)
    if not rows["screened"]:
        return (
            f"no row could be screened, {count(rows['quarantined'])} of {count(rows['read'])} "
            "are in quarantine"
        )
    if not due:
        return f"none of {some(rows['screened'], 'row')} has an answer due"
    if answered == due and report["state"] == "completed" and report.get("evidence"):
        return _checked(report)
    unit = "due row" if report.get("coverage") else "lookup"
    return f"{count(answered)} of {some(due, unit)} answered"


def _checked(report: Mapping[str, Any]) -> str:
    """Return how many customers were checked, and on how little some of them."""
    rows = report["rows"]
    parts = [f"{some(rows.get('customers', rows['screened']), 'customer')} checked"]
    without = without_history(report)
    if without["rows"]:
        parts.append(f"{count(without['rows'])} of them without credit history")
    undecided = report["decisions"].get("undecided", 0)
    if undecided:
        parts.append(f"{count(undecided)} undecided")
    return ", ".join(parts)


def without_history(report: Mapping[str, Any], decision: str = "") -> dict[str, Any]:
    """Return customers and naira decided without a credit history, by why there is none.

    Only if histories were looked up at all; a run without that check has none on purpose.
    """
    bases: dict[str, dict[str, Any]] = {}
    evidence = report.get("evidence") or {} if "ecosystem" in report["checks"] else {}
    for word, parts in evidence.items():
        for basis, weight in parts.items():
            if basis != WITH_HISTORY and decision in ("", word):
                bases[basis] = _sum(bases.get(basis), weight)
    total: dict[str, Any] = {"rows": 0, "exposure": "0.00", "unknown_rows": 0}
    for weight in bases.values():
        total = _sum(total, weight)
    return {**total, "bases": bases}


def _sum(weight: Mapping[str, Any] | None, other: Mapping[str, Any]) -> dict[str, Any]:
    if weight is None:
        return dict(other)
    return {
        "rows": weight["rows"] + other["rows"],
        "exposure": f"{Decimal(weight['exposure']) + Decimal(other['exposure']):.2f}",
        "unknown_rows": weight["unknown_rows"] + other["unknown_rows"],
    }


def _blind_approvals(report: Mapping[str, Any]) -> list[str]:
    """Return the sentence on approvals that rest on no credit history, where there are any."""
    without = without_history(report, "approve")
    if not without["rows"]:
        return []
    return [f"Approved without credit history: {_weight_and_customers(without)}."]


def links(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return addresses and names of the files beside the report."""
    files = report["files"]
    found = [
        (name, f"The list to work on ({name}, {count(files[name] or 0)} rows)")
        for name in ("decisions.xlsx", "decisions.csv")
        if name in files
    ]
    quarantined = report["rows"]["quarantined"]
    if quarantined:
        found.append(("quarantine.csv", f"Quarantine ({some(quarantined, 'row')})"))
    return [*found, ("./", "The run's folder")]


def _stop(report: Mapping[str, Any]) -> str:
    reason = report["stop_reason"] or ""
    sentence = f"It stopped early: {WHY.get(reason, plain(reason) or 'it was stopped')}."
    return f"{sentence} {NEXT.get(reason, 'It can be resumed; nothing answered is asked twice.')}"


def attention(report: Mapping[str, Any]) -> list[str]:
    """Return what a person should look at: why it is held, drift, caps, prices, notices."""
    found = [_SAMPLES] if report["state"] == "test_mode" else []
    found += [f"Held back: {reason}." for reason in report.get("held") or ()]
    released = report.get("released")
    if released:
        found.append(f"Released on {moment(released['at'])}: {released['reason']}")
    drift = Decimal(report["balance"]["drift"])
    if drift:
        since = report["balance"].get("drift_since")
        when = f", first seen on {moment(since)}" if since else ""
        what = "fell by more than" if drift > 0 else "fell by less than"
        found.append(f"The balance {what} the calls explain: {naira(str(drift))}{when}.")
    cost = report["cost"]
    if Decimal(cost.get("over_cap") or 0):
        found.append(f"The cap was passed by {naira(cost['over_cap'])}: prices rose in mid-call.")
    elif Decimal(cost.get("price_rises") or 0):
        found.append(f"Prices rose while the run was under way: {naira(cost['price_rises'])} more.")
    return [*found, *(_capital(notice) for notice in report.get("notices") or ())]


def _capital(notice: str) -> str:
    text = notice[:1].upper() + notice[1:]
    for name, title in TITLES.items():
        text = text.replace(name, title.lower()) if "_" in name else text
    return text if text.endswith(".") else f"{text}."


def subtitle(report: Mapping[str, Any]) -> list[str]:
    """Return what run it is, when it ran, and by which clock."""
    purpose = PURPOSES.get(report["purpose"], plain(report["purpose"]))
    earlier = (report.get("provenance") or {}).get("earlier_reports", 0)
    again = f", resumed {'once' if earlier == 1 else f'{earlier} times'}" if earlier else ""
    return [
        f"Run {report['run_id']}, {purpose}{again}",
        from_to(report),
        f"All times are {ZONE}",
    ]


def tiles(report: Mapping[str, Any]) -> list[Tile]:
    """Return the figures of the first screen, in the order a head of risk asks for them."""
    found = [
        _approved(report),
        _not_screened(report),
        _fresh(report),
        _new_listings(report),
        _flagged(report),
        _spent(report),
        _month(report),
        _per_flagged(report),
        _nights(report),
        _anomalies(report),
    ]
    return [tile for tile in found if tile is not None]


def weight_words(weight: Mapping[str, Any]) -> str:
    """Return the naira at risk in some rows, or the rows where it is not known of any."""
    if weight["rows"] and weight["rows"] == weight["unknown_rows"]:
        return some(weight["rows"], "customer")
    return naira_short(weight["exposure"])


def _weight_and_customers(weight: Mapping[str, Any], one: str = "customer") -> str:
    """Return the naira at risk in some rows and how many they are."""
    customers = some(weight["rows"], one)
    if weight["rows"] and weight["rows"] == weight["unknown_rows"]:
        return f"{customers}, their exposure is not known"
    return f"{naira_short(weight['exposure'])}, {customers}"


def weight_notes(weight: Mapping[str, Any]) -> list[str]:
    """Return how many customers an amount is from, and for how many it is unknown."""
    if not weight["rows"]:
        return ["No customer"]
    if weight["rows"] == weight["unknown_rows"]:
        return ["Their exposure is not known"]
    unknown = weight["unknown_rows"]
    more = f"; the exposure of {count(unknown)} is not known" if unknown else ""
    return [f"{some(weight['rows'], 'customer')}{more}"]


def _approved(report: Mapping[str, Any]) -> Tile | None:
    """Return what was approved on no credit history, and why there was none."""
    evidence = report.get("evidence")
    if not evidence or "ecosystem" not in report["checks"]:
        return None
    approved = [*evidence.get("approve", {}).values()]
    rows = sum(weight["rows"] for weight in approved)
    without = without_history(report, "approve")
    notes = [f"of {some(rows, 'approved customer')}, none"]
    if without["rows"]:
        notes = [f"{weight_notes(without)[0]}, {share(without['rows'], rows)} of all approved"]
    notes += [
        f"{BASES[basis]}: {_weight_and_customers(weight)}"
        for basis, weight in without["bases"].items()
    ]
    with_it = evidence.get("approve", {}).get(WITH_HISTORY)
    if with_it:
        notes.append(f"With a history: {_weight_and_customers(with_it)}")
    label = "Approved without credit history"
    return Tile(label, weight_words(without), notes, "warn" if without["rows"] else "")


def _not_screened(report: Mapping[str, Any]) -> Tile | None:
    weight = report["exposure"].get("not_screened")
    if weight is None:
        return None
    notes = weight_notes(weight)
    part = share(weight["exposure"], report["exposure"]["total"])
    if part and Decimal(weight["exposure"]):
        notes[0] += f", {part} of all exposure"
    causes = sorted(weight["causes"].items(), key=lambda cause: -Decimal(cause[1]["exposure"]))
    notes += [f"{CAUSES[word]}: {weight_words(cause_weight)}" for word, cause_weight in causes]
    nothing = report["exposure"].get("nothing_to_ask") or {"rows": 0}
    if nothing["rows"]:
        notes.append(f"No identifier for a check, not counted: {weight_words(nothing)}")
    quarantined = report["rows"]["quarantined"]
    if quarantined:
        notes.append(f"Not counted: {some(quarantined, 'row')} in quarantine")
    due, answered = _due(report)
    tone = "bad" if answered < due else "warn" if weight["rows"] else "good" if due else ""
    return Tile("Exposure not yet screened in full", weight_words(weight), notes, tone)


def _fresh(report: Mapping[str, Any]) -> Tile | None:
    fresh = report["freshness"].get("fresh")
    if fresh is None:
        return None
    known = fresh["exposure_pct"] is not None
    pct = fresh["exposure_pct"] if known else fresh["rows_pct"]
    days = report["freshness"]["oldest_evidence_days"]
    oldest = "Every answer is of this run"
    if days is not None:
        oldest = f"Oldest evidence: {days_old(days)}, of {_day(report)}"
    elif not fresh["rows"] and not _due(report)[1]:
        oldest = "There is no evidence yet"
    notes = ["of the exposure" if known else "of the customers; exposure is not known", oldest]
    tone = "good" if pct == _HUNDRED else "" if pct else "warn"
    value = "none" if pct is None else percent(pct)
    return Tile("Screened on fresh evidence", value, notes, tone)


def _day(report: Mapping[str, Any]) -> str:
    return moment(report["freshness"]["oldest_evidence_at"]).split(",")[0]


def _new_listings(report: Mapping[str, Any]) -> Tile | None:
    news = report.get("news")
    if not news or "karma" not in report["checks"]:
        return None
    weight, first = news["new_listings"], news["listed_at_first_sight"]
    notes = (
        weight_notes(weight) if weight["rows"] else ["No existing customer was newly blacklisted"]
    )
    if Decimal(weight["in_contention"]):
        notes.append(f"Others claim {naira_short(weight['in_contention'])} from them")
    if first["rows"]:
        notes.append(f"Listed at first sight: {_weight_and_customers(first, 'new customer')}")
    tone = "bad" if weight["rows"] else ""
    return Tile("New blacklist listings", weight_words(weight), notes, tone)


def _flagged(report: Mapping[str, Any]) -> Tile | None:
    news = report.get("news")
    if not news:
        return None
    decline, review = (news["decisions"][word] for word in ("decline", "review"))
    notes = [f"Review: {_weight_and_customers(review)}"]
    if decline["turned"]["rows"]:
        notes.append(f"New, decided otherwise before: {weight_words(decline['turned'])}")
    if decline["first"]["rows"] == decline["rows"] > 0:
        notes.append("All decided for the first time")
    elif decline["first"]["rows"]:
        notes.append(f"New, decided for the first time: {weight_words(decline['first'])}")
    value = weight_words(decline)
    label = "No new money until cleared" if report["purpose"] == "portfolio" else "To decline"
    notes = [*weight_notes(decline), *notes]
    return Tile(f"Exposure: {label[:1].lower()}{label[1:]}", value, notes)


def _spent(report: Mapping[str, Any]) -> Tile:
    cost = report["cost"]
    quoted = cost["quoted"]
    notes = [f"Quote {naira_short(quoted['expected'])}, at most {naira_short(quoted['high'])}"]
    if cost["cap"] is None:
        notes.append("No cap was set for the run")
    else:
        used = share(cost["total"], cost["cap"]) or "all"
        notes.append(f"{used} of the cap of {naira_short(cost['cap'])}")
    if Decimal(cost["in_doubt_exposure"]):
        notes.append(f"Up to {naira_short(cost['in_doubt_exposure'])} more may have been charged")
    tone = "warn" if Decimal(cost["total"]) > Decimal(quoted["high"]) else ""
    return Tile("Spent by this run", naira_short(cost["total"]), notes, tone)


def _month(report: Mapping[str, Any]) -> Tile | None:
    month = (report.get("spending") or {}).get("month")
    if month is None:
        return None
    notes = ["No monthly cap is set"]
    tone = ""
    if month["cap"] is not None:
        used = share(month["spent"], month["cap"]) or "all"
        left = Decimal(month["cap"]) - Decimal(month["spent"]) - Decimal(month["reserved"])
        tone = "warn" if left <= 0 else ""
        notes = [
            f"{used} of the cap of {naira_short(month['cap'])}",
            f"{naira_short(str(max(Decimal(0), left)))} left",
        ]
    if Decimal(month["reserved"]):
        notes.append(f"{naira_short(month['reserved'])} held for calls in doubt")
    return Tile(f"Spent in {month_name(month['name'])}", naira_short(month["spent"]), notes, tone)


def _per_flagged(report: Mapping[str, Any]) -> Tile | None:
    cost = report["cost"]
    if "flagged_rows" not in cost:
        return None
    flagged = cost["flagged_rows"]
    if not flagged:
        return Tile("Naira per flagged customer", "none", ["No customer to decline or review"])
    notes = [f"{some(flagged, 'customer')} to decline or review"]
    if not Decimal(cost["total"]):
        notes.append("Nothing was spent: stored answers were enough")
    return Tile("Naira per flagged customer", naira(cost["per_flagged"]), notes)


def _nights(report: Mapping[str, Any]) -> Tile:
    balance = report["balance"]
    nights, closing = balance["nights_left"], balance["closing"]
    label = "Nights the wallet lasts"
    earlier = balance.get("last_known") or {"balance": None}
    if closing is None and earlier["balance"] is None:
        return Tile(label, "not known", ["No answer had a balance"])
    left = f"Balance {naira_short(closing)}"
    if closing is None:
        left = f"Balance {naira_short(earlier['balance'])}, reported in an earlier run"
        nights = earlier["nights_left"]
    if nights is None:
        return Tile(label, "not known", [left, "Nothing was spent this month"])
    value = f"over {count(_MANY_NIGHTS)}" if nights > _MANY_NIGHTS else count(nights)
    tone = "warn" if nights < _FEW_NIGHTS else ""
    return Tile(label, value, [left, "at this month's average night"], tone)


def _anomalies(report: Mapping[str, Any]) -> Tile:
    seen = attention(report)
    balance = report["balance"]
    drift = "No drift" if not Decimal(balance["drift"]) else f"Drift {naira(balance['drift'])}"
    if balance["closing"] is None:
        drift = "Drift not known: no balance was reported"
    elif not balance["exact"]:
        drift += ", as far as the balances show"
    explained = Decimal(balance["explained_in_doubt"])
    notes = [drift]
    if explained:
        notes.append(f"{naira(str(explained))} explained by calls in doubt")
    if not seen and balance["closing"] is None:
        return Tile("Drift and anomalies", "not known", [*notes, "Nothing else to look at"])
    if not seen:
        return Tile("Drift and anomalies", "none seen", notes, "good")
    return Tile("Drift and anomalies", f"{count(len(seen))} to look at", notes, "warn")
