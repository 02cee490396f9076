"""The section on policies: who approved the one in force, what another would do, overrides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nightscreen.report.components import Section, Table
from nightscreen.report.format import count, moment, naira, plain, sentence

if TYPE_CHECKING:
    from collections.abc import Mapping

_MOST_ROWS = 20


def policies(report: Mapping[str, Any]) -> Section | None:
    """Return the section; None where the report has no policy."""
    known = report.get("provenance") or {}
    if "policy_approval" not in known:
        return None
    tables = [table for table in (_moved(report), _overrides(report)) if table is not None]
    intro = [
        _approved(known["policy"], known["policy_approval"]),
        *_shadow(report),
        *_customer_notices(report),
    ]
    return Section("policy", "Policy", intro, (), tables, ())


def _approved(policy: str, approval: Mapping[str, Any] | None) -> str:
    if approval is None:
        return f"Nobody has approved the policy {policy}."
    return (
        f"The policy {policy} was written by {approval['written_by']} and approved by "
        f"{approval['approved_by']} on {moment(approval['approved_at'])}; it is in force from "
        f"{moment(approval['in_force_from'])}."
    )


def _weight(cell: Mapping[str, Any]) -> str:
    unknown = cell["exposure_unknown_rows"]
    return naira(cell["exposure"]) + (f" and {count(unknown)} unknown" if unknown else "")


def _shadow(report: Mapping[str, Any]) -> list[str]:
    shadow = report.get("shadow")
    if shadow is None:
        return []
    moved = shadow["moved"]
    sentence = (
        f"Under {shadow['policy']}, the shadow policy, {count(moved['rows'])} customers would be "
        f"decided otherwise: {_weight(moved)}. They are listed in shadow.csv."
    )
    return [sentence]


def _customer_notices(report: Mapping[str, Any]) -> list[str]:
    """Return who gets a notice, who does not yet, and what customers contest."""
    notices, contests = report.get("customer_notices"), report.get("contests")
    sentences = []
    if notices and any(notices.values()):
        parts = (
            ("to_send", "get a notice of a decision (notices.csv)"),
            ("waiting_for_a_person", "have a proposal to decline that no person has confirmed"),
            ("on_hold", "get none, since a rule says hold"),
            ("paused_by_contest", "get none while they contest"),
            ("told_before", "had one already"),
        )
        words = [f"{count(notices[name])} {text}" for name, text in parts if notices[name]]
        sentences.append(f"Of the customers, {'; '.join(words)}.")
    if contests and any(contests.values()):
        sentences.append(
            f"Contests in this batch: {count(contests['open'])} open, "
            f"{count(contests['overdue'])} of them overdue; "
            f"{count(contests['answered'])} answered, "
            f"{count(contests['changed'])} of them by a changed decision."
        )
    return sentences


def _moved(report: Mapping[str, Any]) -> Table | None:
    shadow = report.get("shadow")
    if shadow is None or not shadow["why"]:
        return None
    rows = [
        [
            f"{plain(move['from'])} to {plain(move['to'])}",
            sentence(str(move["reason"]).casefold()),
            count(move["rows"]),
            _weight(move),
        ]
        for move in shadow["why"][:_MOST_ROWS]
    ]
    heads = ("Who would move", "Because", "Customers", "Exposure")
    return Table("Under the policy that was tried", heads, rows, words=frozenset({1}))


def _overrides(report: Mapping[str, Any]) -> Table | None:
    found = report.get("overrides")
    if not found:
        return None
    rows = [
        [
            sentence((override["reason"] or "no reason").casefold()),
            override["reviewer"],
            f"{plain(override['from'])} to {plain(override['to'])}",
            count(override["customers"]),
        ]
        for override in found[:_MOST_ROWS]
    ]
    heads = ("Reason", "Reviewer", "From policy to reviewer", "Customers")
    return Table("Overrides by reason and reviewer", heads, rows, words=frozenset({1, 2}))
