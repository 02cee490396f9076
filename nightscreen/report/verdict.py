"""Sentences on a report: how the run ended, what needs attention, and what to do next.

They are made from the report's dictionary, for its page, its summary and notifications.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from nightscreen.checks.registry import CHECKS
from nightscreen.report.facts import WITH_HISTORY
from nightscreen.report.format import (
    NEXT,
    TITLES,
    added,
    count,
    moment,
    naira,
    plain,
    sentence,
    some,
    weight_and_customers,
)
from nightscreen.schemas.enriched import CONSENT_UNREADABLE
from nightscreen.schemas.stops import WHY

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SAMPLES = "Test mode: every answer was a sample; nothing is known of any customer."
_MARKS = {"good": "✓", "warn": "!", "bad": "✕"}
_FILES = {
    "decisions.xlsx": "the list to work on: who to decline or review, and why",
    "report.html": "the report with its charts, for a browser",
    "quarantine.csv": "rows that were refused, to be corrected",
    "problems.csv": "every finding in the file, line by line",
    "shadow.csv": "whom the shadow policy would decide differently",
}


@dataclass(frozen=True, slots=True)
class RunVerdict:
    """How the run ended: a line, explanations, and its tone."""

    line: str
    more: Sequence[str]
    tone: str  # `good`, `warn` or `bad`
    loud: bool = False  # shown so that nobody overlooks it

    @property
    def mark(self) -> str:
        """Return the sign beside the line."""
        return _MARKS[self.tone]


def verdict(report: Mapping[str, Any]) -> RunVerdict:
    """Return how a screening run ended and whether its answers can be used."""
    end = f"publishable: {_publishable(report)}."
    if report["state"] == "test_mode":
        more = [
            "The service answered with samples, the same for everybody. Nothing here may be used.",
            "Switch the service to live in its console, then run again.",
        ]
        return RunVerdict(f"Test mode: not one row was screened; {end}", more, "bad", loud=True)
    outcome = _outcome(report)
    more = [_stop(report)] if report["state"] != "completed" else []
    unreadable = _unreadable_consents(report)
    if unreadable:
        more.append(
            f"{some(unreadable, 'consent date')} could not be read (consent_unreadable in "
            "problems.csv): those customers have consent on record, but nothing that needs it was "
            "asked or shown. Correct them, or choose their order at the desk or a terminal."
        )
    blind = without_history(report, "approve")
    if blind["rows"]:
        more.append(f"Approved without credit history: {weight_and_customers(blind)}.")
    policy = report["provenance"]
    approved = policy["policy_approval"] is not None
    if not approved:
        more.append(f"Nobody has approved the policy {policy['policy']}.")
    in_order = approved and not unreadable and not _money_missing(report["balance"])
    perfect = outcome == "Complete" and report["publishable"] and in_order
    tone = "good" if perfect else "bad" if outcome == "Nothing answered" else "warn"
    return RunVerdict(f"{outcome}: {_answered(report)}; {end}", more, tone)


def _money_missing(balance: Mapping[str, Any]) -> bool:
    """Return whether money left the wallet that no call explains, in this run or before it."""
    between = balance.get("between_runs") or {"missing": "0"}
    return Decimal(balance["drift"]) > 0 or Decimal(between["missing"]) > 0


def _unreadable_consents(report: Mapping[str, Any]) -> int:
    """Return how many consent dates could not be read, if a check of the run needs consent."""
    if not any(each.needs_consent and check in report["checks"] for check, each in CHECKS.items()):
        return 0
    values = report["findings"]["values"]
    return sum(each["count"] for each in values if each["code"] == CONSENT_UNREADABLE)


def _publishable(report: Mapping[str, Any]) -> str:
    if report.get("released"):
        return "yes, released after it was held back"
    if report.get("held"):
        return "no, held back"
    return "yes" if report["publishable"] else "no"


def _outcome(report: Mapping[str, Any]) -> str:
    due, answered = report["coverage"]["due_rows"], report["coverage"]["answered_rows"]
    if not report["rows"]["screened"]:
        return "Nothing screened"
    if report["state"] == "completed":
        if not due:
            return "Nothing due"
        return "Complete" if answered == due else "Complete, with gaps"
    return "Partial" if answered or not due else "Nothing answered"


def _answered(report: Mapping[str, Any]) -> str:
    rows = report["rows"]
    due, answered = report["coverage"]["due_rows"], report["coverage"]["answered_rows"]
    if not rows["screened"]:
        return (
            f"no row could be screened, {count(rows['quarantined'])} of {count(rows['read'])} "
            "are in quarantine"
        )
    if not due:
        return f"none of {some(rows['screened'], 'row')} has an answer due"
    if answered < due or report["state"] != "completed":
        return f"{count(answered)} of {some(due, 'due row')} answered"
    parts = [f"{some(rows.get('customers', rows['screened']), 'customer')} checked"]
    without = without_history(report)["rows"]
    if without:
        parts.append(f"{count(without)} of them without credit history")
    undecided = report["decisions"].get("undecided", 0)
    if undecided:
        parts.append(f"{count(undecided)} undecided")
    return ", ".join(parts)


def without_history(report: Mapping[str, Any], decision: str = "") -> dict[str, Any]:
    """Return the weight of customers decided without a credit history, and by its cause.

    It is zero if the run did not look up histories at all.
    """
    bases: dict[str, list[Mapping[str, Any]]] = {}
    for word, parts in report["evidence"].items() if "ecosystem" in report["checks"] else ():
        for basis, weight in parts.items():
            if basis != WITH_HISTORY and decision in {"", word}:
                bases.setdefault(basis, []).append(weight)
    each = {basis: added(weights) for basis, weights in bases.items()}
    return {**added(each.values()), "bases": each}


def _stop(report: Mapping[str, Any]) -> str:
    reason = report["stop_reason"] or ""
    why = f"It stopped early: {WHY.get(reason, plain(reason) or 'it was stopped')}."
    return f"{why} {NEXT.get(reason, 'It can be resumed; nothing answered is asked twice.')}"


def attention(report: Mapping[str, Any]) -> list[str]:
    """Return sentences a person should read: why it is held, drift, caps, prices, notices."""
    sentences = [_SAMPLES] if report["state"] == "test_mode" else []
    sentences += [f"Held back: {reason}." for reason in report.get("held") or ()]
    released = report.get("released")
    if released:
        sentences.append(f"Released on {moment(released['at'])}: {released['reason']}")
    drift = Decimal(report["balance"]["drift"])
    if drift:
        since = report["balance"]["drift_since"]
        when = f", first seen on {moment(since)}" if since else ""
        sentences.append(
            f"The balance fell by {naira(str(drift))} more than the calls explain{when}."
            if drift > 0
            else f"{naira(str(-drift))} was added to the wallet during the run{when}."
        )
    between = report["balance"].get("between_runs")
    if between:
        sentences.append(_between(Decimal(between["missing"]), between))
    cost = report["cost"]
    if Decimal(cost["over_cap"] or 0):
        sentences.append(
            f"The cap was passed by {naira(cost['over_cap'])}: prices rose in mid-call."
        )
    elif Decimal(cost["price_rises"]):
        sentences.append(
            f"Prices rose while the run was under way: {naira(cost['price_rises'])} more."
        )
    return [*sentences, *(_capital(notice) for notice in report["notices"])]


def _between(missing: Decimal, between: Mapping[str, Any]) -> str:
    before = between["run_before"]
    if missing < 0:
        return f"{naira(str(-missing))} was added to the wallet between run {before} and this one."
    return (
        f"{naira(str(missing))} left the wallet between run {before} and this one, and no call "
        "explains it. Note the reason at the desk under Money; where others use the wallet too, "
        "set NIGHTSCREEN_WALLET_SHARED=yes."
    )


def _capital(notice: str) -> str:
    text = notice[:1].upper() + notice[1:]
    for name, title in TITLES.items():
        text = text.replace(name, title.lower()) if "_" in name else text
    return text if text.endswith(".") else f"{text}."


def api_run_verdict(report: Mapping[str, Any]) -> RunVerdict:
    """Return how a run of another flow ended."""
    rows = report["rows"]
    done = f"{count(rows['screened'])} of {some(rows['read'], 'row')} read"
    if report["state"] == "test_mode":
        explanation = "The service answered with samples. Nothing here may be used."
        return RunVerdict("Test mode", [explanation], "bad", loud=True)
    if report["state"] == "completed":
        return RunVerdict(f"Complete: {done}.", [], "good" if not rows["quarantined"] else "warn")
    reason = report["stop_reason"]
    why = f"Stopped early: {WHY.get(reason, sentence(reason or 'unknown'))}."
    return RunVerdict(why, [done, NEXT.get(reason, "The run can be resumed.")], "warn")


def lists_of(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the files that people open after a run, with descriptions, without empty ones."""
    rows = {**report["files"], "report.html": 1}
    return [(name, what) for name, what in _FILES.items() if rows.get(name)]


def next_steps(report: Mapping[str, Any]) -> list[str]:
    """Return the next steps, the most important first."""
    run_id, state = report["run_id"], report["state"]
    if state == "test_mode":
        return ["Have the service switched to live in its console, then run again."]
    steps = []
    if report["stop_reason"] == "approval":
        steps.append(
            f"An approver types nightscreen approve {run_id}, or "
            f"nightscreen approve {run_id} --refuse --note 'why'. Until then nothing is asked."
        )
    elif state != "completed":
        steps.append(
            f"To go on, fill in Resume run with {run_id} in the form of the deployment adhoc, or "
            f"type nightscreen screen --run {run_id}. Nothing answered is paid for twice."
        )
    elif not report["publishable"]:
        steps.append(
            "It is held back: look at what is named above. If all is well, type "
            f"nightscreen runs release {run_id} --reason '...'."
        )
    flagged = sum(report["decisions"].get(word, 0) for word in ("decline", "review"))
    if flagged:
        steps.append(
            f"Open decisions.xlsx: {some(flagged, 'customer')} to decline or review. Fill in "
            "reviewer_decision and hand the list back with nightscreen review import."
        )
    if report["rows"]["quarantined"]:
        rows = some(report["rows"]["quarantined"], "row")
        steps.append(
            f"Correct quarantine.csv ({rows}), name it {report['batch']}.csv and drop it into the "
            "inbox, or screen it as before: only what was refused is asked about."
        )
    return steps
