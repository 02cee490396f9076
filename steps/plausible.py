"""Is tonight plausible? Outcome rates held against the median of the batch's earlier nights.

A night that looks like a fault of the service is held: nothing of it may be published until it was
looked at and released. Pure but for `release`, which mends a finished run's files.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from schemas.checks import Check
from schemas.errors import InputError
from steps.answered import ANSWERED
from steps.report_page import report_page
from storage.clock import instant_text
from storage.outputs import MANIFEST, REPORT, RunFolder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from storage.journal import Journal
    from storage.journal.reviews import Reviews

NIGHTS = 14
ENOUGH_LOOKUPS = 500
HELD = "held"
RELEASED = "released"
_LOW, _HIGH = 0.5, 2.0
_CHANCE = 3.0
"""Standard deviations by which a count must leave what was expected, so that few do not hold."""


def plausible(report: Mapping[str, Any], earlier: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a sentence for each thing about a night that is not plausible.

    A check counts from 500 answered rows on. Its outcome rates are held against the median of the
    last fourteen publishable nights of the batch that had as many; rates outside half to twice the
    median hold the night, where chance alone does not explain the difference. So do answers that
    are all alike, unless they were on earlier nights.

    Args:
        report: tonight's, as `report.json` has it.
        earlier: reports of the same batch name, newest first; tonight's own and those that may not
            be published are left out.
    """
    baseline = [
        each for each in earlier if each["publishable"] and each["run_id"] != report["run_id"]
    ][:NIGHTS]
    found: list[str] = []
    for name in report["checks"]:
        check = Check(name)
        tonight = _rates(report, check)
        if tonight is None:
            continue
        nights = [rates for rates in (_rates(each, check) for each in baseline) if rates]
        found += _alike(check, tonight, nights)
        if nights:
            answered = _answered(report, check)
            found += _outside(check, tonight, nights, answered)
    return found


def _answers(report: Mapping[str, Any], check: Check) -> dict[str, int]:
    part = report["checks"].get(check.value, {})
    answers = part.get("asked_answers", part.get("answers", {}))
    return {word: answers.get(word, 0) for word in ANSWERED[check]}


def _answered(report: Mapping[str, Any], check: Check) -> int:
    return sum(_answers(report, check).values())


def _rates(report: Mapping[str, Any], check: Check) -> dict[str, float] | None:
    """Return the share of each outcome; None where too few were answered."""
    answered = _answered(report, check)
    if answered < ENOUGH_LOOKUPS:
        return None
    return {word: number / answered for word, number in _answers(report, check).items()}


def _alike(
    check: Check, tonight: Mapping[str, float], nights: Sequence[Mapping[str, float]]
) -> list[str]:
    for word, rate in tonight.items():
        usual = median(each[word] for each in nights) if nights else 0.0
        if rate == 1.0 and usual < 1.0:
            return [f"{_title(check)}: every answer is {_said(word)}"]
    return []


def _outside(
    check: Check,
    tonight: Mapping[str, float],
    nights: Sequence[Mapping[str, float]],
    answered: int,
) -> list[str]:
    found = []
    for word, rate in tonight.items():
        usual = median(each[word] for each in nights)
        if _LOW * usual <= rate <= _HIGH * usual:
            continue
        expected = usual * answered
        if abs(rate * answered - expected) > _CHANCE * math.sqrt(max(expected, 1.0)):
            found.append(
                f"{_title(check)}: {rate:.2%} {_said(word)}, against a median of {usual:.2%} over "
                f"the last {len(nights)} night{'s' if len(nights) > 1 else ''}"
            )
    return found


def _title(check: Check) -> str:
    return check.value.replace("_", " ").capitalize()


def _said(word: str) -> str:
    return word.replace("_", " ")


def earlier_reports(journal: Journal, batch: str, run_id: str) -> list[dict[str, Any]]:
    """Return the reports of a batch's finished runs, newest first, one run's own left out."""
    runs = journal.runs.newest(batch=batch, limit=4 * NIGHTS)
    return [run.report for run in runs if run.report is not None and run.run_id != run_id]


def hold(report: dict[str, Any], reasons: Sequence[str]) -> dict[str, Any]:
    """Return the report, not to be published where there are reasons to hold it."""
    if not reasons:
        return report
    return {**report, "publishable": False, HELD: list(reasons)}


def release(
    journal: Journal, reviews: Reviews, run_id: str, reason: str, *, folder: Path | None = None
) -> dict[str, Any]:
    """Release a held run: journal, report, page and manifest say so; return the report.

    Args:
        journal: the journal.
        reviews: its reviews and releases.
        run_id: the run.
        reason: why it may be published after all; kept in clear, so no personal data.
        folder: the run's folder, where it was moved.

    Raises:
        InputError: there is no such run, it is not held, or the reason is blank.
    """
    run = journal.runs.find(run_id)
    if run is None:
        raise InputError(f"there is no run {run_id}; see: nightscreen runs list")
    if not reason.strip():
        raise InputError("say why the run may be published, with --reason")
    report = run.report or {}
    if not report.get(HELD) or report.get(RELEASED):
        raise InputError(
            f"run {run_id} is not held: nothing about it was implausible, or it was released before"
        )
    at = instant_text(journal.clock())
    released = {"at": at, "reason": reason.strip()}
    report = {**report, "publishable": report["state"] == "completed", RELEASED: released}
    _mend_files(RunFolder(Path(run.folder) if folder is None else folder), report)
    reviews.release(run_id, reason.strip(), report)
    return report


def _mend_files(folder: RunFolder, report: Mapping[str, Any]) -> None:
    """Write the report anew, and the manifest with its digests."""
    if not (folder.path / REPORT).exists():
        return
    folder.write_json(REPORT, report)
    folder.write_text("report.html", report_page(report))
    manifest_path = folder.path / MANIFEST
    if not manifest_path.exists():
        return
    manifest = json.loads(manifest_path.read_text("utf-8"))
    fresh = folder.files()
    for name in (REPORT, "report.html"):
        manifest["files"][name] = fresh[name]
    manifest["publishable"] = report["publishable"]
    folder.write_json(MANIFEST, manifest)
