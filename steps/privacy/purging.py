"""Purging by age: each kind of what is kept has its own period, and a legal hold goes first.

`due` says exactly what would go and changes nothing; `purge` removes it. Report, manifest and
`problems.csv` hold nothing personal and stay. One person's erasure is `erasing`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nightscreen.schemas.cashflow import CASHFLOW_FILE
from nightscreen.schemas.errors import InputError
from nightscreen.schemas.money import naira_text
from nightscreen.schemas.offers import LOANS_FILE, OFFERS_CSV, OFFERS_FILE
from nightscreen.steps.privacy.erasure_files import CALLS_FILE
from nightscreen.steps.results.changes import CHANGES_FILE
from nightscreen.steps.values.file_names import forget_names
from nightscreen.storage import outputs
from nightscreen.storage.clock import DAY_MICROS, instant_text
from nightscreen.storage.decision_files import CSV_FILE, WORKBOOK_FILE
from nightscreen.storage.evidence import drop_evidence
from nightscreen.storage.inbox import INPUT
from nightscreen.storage.journal.erasure import RETENTION, Erasures, Removed, leave_no_trace
from nightscreen.storage.journal.runs import RUNNING
from nightscreen.storage.run_files import RunFiles, typed_parts
from nightscreen.storage.workspace import sweep_workspaces

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nightscreen.schemas.settings import Retention
    from nightscreen.storage.journal import Journal
    from nightscreen.storage.journal.runs import RunRecord

QUARANTINE, ENRICHED, DECISIONS = "quarantine", "enriched", "decisions"
TYPED = "transactions"
"""Kind of the typed transactions of pulls, kept as long as enriched rows are."""
KINDS = {
    QUARANTINE: (outputs.QUARANTINE,),
    ENRICHED: (
        *("enriched/part-*.parquet", "bvn/part-*.parquet", f"{INPUT}/*"),
        *(OFFERS_FILE, OFFERS_CSV, LOANS_FILE, CASHFLOW_FILE),
    ),
    DECISIONS: (CSV_FILE, WORKBOOK_FILE, CHANGES_FILE, CALLS_FILE),
}
"""The files of each kind in a run's folder."""
_ALL_RUNS = 100_000


@dataclass(frozen=True, slots=True)
class Outdated:
    """Files of one kind in one run's folder that are older than their period."""

    run_id: str
    kind: str
    folder: Path
    files: tuple[Path, ...]
    days: int

    def document(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        names = [path.relative_to(self.folder).as_posix() for path in self.files]
        return {"run_id": self.run_id, "kind": self.kind, "age_days": self.days, "files": names}


@dataclass(slots=True)
class Purgeable:
    """What is older than its period, and what is kept for another reason.

    Attributes:
        answered: calls settled before this instant become tombstones, their answers go.
        decided: states, history, reviews and sightings from before this instant go.
        outdated: files that go.
        held_runs: runs under legal hold; nothing of theirs goes, nor any evidence in the journal.
        live_runs: runs under way; the same.
        unfinished: folders that an earlier rewriting was cut short in.
        journal: what goes from the journal.
        journal_waits: why nothing goes from the journal; empty where it does.
    """

    answered: int
    decided: int
    outdated: list[Outdated] = field(default_factory=list)
    held_runs: list[str] = field(default_factory=list)
    live_runs: list[str] = field(default_factory=list)
    unfinished: list[RunFiles] = field(default_factory=list)
    journal: Removed = field(default_factory=Removed)
    journal_waits: str = ""

    @property
    def anything(self) -> bool:
        """Return whether anything would go."""
        return bool(self.outdated or self.unfinished or any(self.journal))

    def document(self) -> dict[str, Any]:
        """Return what would go as JSON has it; nothing in it is personal."""
        return {
            "files": [each.document() for each in self.outdated],
            "journal": {
                "answers": self.journal.answers,
                "calls": self.journal.calls,
                "states": self.journal.states,
                "sightings": self.journal.sightings,
                "cost": naira_text(self.journal.cost_micro),
                "answered_before": instant_text(self.answered),
                "decided_before": instant_text(self.decided),
                "waits_for": self.journal_waits or None,
            },
            "held_runs": self.held_runs,
            "live_runs": self.live_runs,
        }


def due(journal: Journal, retention: Retention, *, older_than: int | None = None) -> Purgeable:
    """Return what is older than its period; nothing is changed.

    Args:
        journal: the journal; its clock says how old a thing is.
        retention: days by kind.
        older_than: days that replace every period of the settings.
    """
    now = journal.clock()
    erasures = Erasures.of(journal)
    days = days_of(retention, older_than)
    answers = retention.journal_answers_days if older_than is None else older_than
    found = Purgeable(now - answers * DAY_MICROS, now - days[DECISIONS] * DAY_MICROS)
    held = erasures.holds()
    for run in journal.runs.newest(limit=_ALL_RUNS)[::-1]:
        if run.run_id in held:
            found.held_runs.append(run.run_id)
        elif run.state == RUNNING:
            found.live_runs.append(run.run_id)
        else:
            _look_into(run, days, now, found)
    found.journal_waits = _waits(found)
    if not found.journal_waits:
        found.journal = erasures.held_before(found.answered, found.decided)
    return found


def days_of(retention: Retention, older_than: int | None) -> dict[str, int]:
    """Return how many days each kind of file is kept."""
    if older_than is not None:
        return dict.fromkeys(KINDS, older_than)
    return {
        QUARANTINE: retention.quarantine_days,
        ENRICHED: retention.enriched_days,
        DECISIONS: retention.decisions_days,
    }


def _waits(found: Purgeable) -> str:
    if found.held_runs:
        return "a legal hold: a held run may rest on any earlier answer"
    if found.live_runs:
        return "a run under way, which may have planned with any answer"
    return ""


def _look_into(run: RunRecord, days: Mapping[str, int], now: int, found: Purgeable) -> None:
    folder = Path(run.folder)
    left = RunFiles.of(folder, RETENTION)
    if left.touched:
        found.unfinished.append(left)
    age = (now - (run.finished_at or run.started_at)) // DAY_MICROS
    for kind, patterns in KINDS.items():
        files = tuple(path for each in patterns for path in sorted(folder.glob(each)))
        if files and age >= days[kind]:
            found.outdated.append(Outdated(run.run_id, kind, folder, files, age))
    for part in typed_parts(run):
        if age >= days[ENRICHED]:
            found.outdated.append(Outdated(run.run_id, TYPED, part.parent, (part,), age))


def purge(journal: Journal, found: Purgeable) -> dict[str, Any]:
    """Remove what is due; return what went, in numbers, and leave a line of audit.

    Raises:
        OutputError: a folder cannot be written; purge again once that is mended.
    """
    if not found.anything:
        return {**found.document(), "removed_files": 0, "log_emptied": leave_no_trace(journal)}
    sweep_workspaces(journal.home, journal.holders.alive)
    forget_names(journal.home)
    drop_evidence(journal.home, before=found.answered)
    erasures = Erasures.of(journal)
    waits = bool(found.journal_waits)
    number = erasures.purge(*((0, 0) if waits else (found.answered, found.decided)))
    emptied = leave_no_trace(journal)
    folders = {each.path: each for each in found.unfinished}
    for each in found.outdated:
        if journal.runs.held_elsewhere(each.run_id):
            continue
        folder = folders.setdefault(each.folder, RunFiles.of(each.folder, RETENTION))
        folder.sweep()
        folder.remove(each.files)
    at = instant_text(journal.clock()) or ""
    files = sum(folder.finish(at) for folder in folders.values())
    erasures.finish(number, file_rows=0, files=files)
    return {**found.document(), "removed_files": files, "log_emptied": emptied}


def hold(journal: Journal, run_id: str, reason: str) -> None:
    """Put a run under legal hold.

    Raises:
        InputError: the journal knows no such run.
    """
    if journal.runs.find(run_id) is None:
        raise InputError(f"there is no run {run_id} in this journal; see: nightscreen runs list")
    Erasures.of(journal).hold(run_id, reason)


def release(journal: Journal, run_id: str) -> None:
    """End a run's legal hold.

    Raises:
        InputError: it is under none.
    """
    if not Erasures.of(journal).release(run_id):
        raise InputError(f"run {run_id} is under no legal hold; see: nightscreen purge --dry-run")
