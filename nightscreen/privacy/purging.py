"""Purge data by age: each kind has its retention period; data under legal hold stay.

`due` returns exactly what would be removed and changes nothing; `purge` removes it. Report,
manifest and `problems.csv` have no personal data and stay. `erasure` erases one person.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from nightscreen.files.outputs import OUTPUTS
from nightscreen.files.run_folder import RunFiles, sweep_partial_files
from nightscreen.files.sealed_file import drop_sealed, sweep_workspaces
from nightscreen.journal import journal_of
from nightscreen.journal.audit import Audit
from nightscreen.journal.erasure import Erasures, Removed, scrub_database
from nightscreen.journal.records import Records
from nightscreen.journal.runs import RUNNING
from nightscreen.schemas.checks import Purpose
from nightscreen.schemas.clock import DAY_MICROS, instant_text
from nightscreen.schemas.contests import Contest, ContestState, Hold
from nightscreen.schemas.errors import InputError
from nightscreen.schemas.uploads import UPLOADS

if TYPE_CHECKING:
    from nightscreen.config.settings import Retention, Settings
    from nightscreen.journal import Journal
    from nightscreen.journal.runs import RunRecord

RETENTION = "retention"  # the manifest's reason why files were removed
PURGE_BEGUN, PURGED = "purge begun", "purged"  # actions in the audit


class Outdated(NamedTuple):
    """Files of one run and one ground of retention that are older than its period."""

    run_id: str
    ground: str
    folder: Path
    files: tuple[Path, ...]
    days: int

    def document(self) -> dict[str, Any]:
        """Return it as a JSON document."""
        names = [os.path.relpath(path, self.folder) for path in self.files]
        return {"run_id": self.run_id, "kind": self.ground, "age_days": self.days, "files": names}


@dataclass(slots=True)
class Purgeable:
    """The data that are older than their period, and those that stay for another reason."""

    cutoffs: dict[str, int]  # by ground, the instant before which data are removed
    outdated: list[Outdated] = field(default_factory=list)  # files to remove
    # runs under legal hold: their files stay, and all evidence in the journal
    held_runs: list[str] = field(default_factory=list)
    live_runs: list[str] = field(default_factory=list)  # runs under way: the same
    journal: Removed = field(default_factory=Removed)  # data to remove from the journal
    journal_waits: str = ""  # why nothing is removed from the journal, or empty
    # runs of applicants past their period, whose answers are removed
    applicants: list[str] = field(default_factory=list)
    audit: int = 0  # entries of the desk's audit to remove

    @property
    def anything(self) -> bool:
        """Return whether there is anything to remove."""
        return bool(self.outdated or self.audit or any(self.journal))

    def document(self) -> dict[str, Any]:
        """Return what would be removed as a JSON document without personal data."""
        return {
            "files": [each.document() for each in self.outdated],
            "journal": {
                **self.journal.numbers(),
                "answered_before": instant_text(self.cutoffs["journal_answers"]),
                "decided_before": instant_text(self.cutoffs["decisions"]),
                "waits_for": self.journal_waits or None,
            },
            "desk_audit": self.audit,
            "held_runs": self.held_runs,
            "live_runs": self.live_runs,
        }


def due(journal: Journal, retention: Retention) -> Purgeable:
    """Return what is older than its period, without changing anything."""
    now = journal.clock()
    erasures = Erasures(journal)
    found = Purgeable(retention.cutoffs(now))
    found.audit = Audit(journal).before(found.cutoffs["audit"])
    held = held_runs(journal)
    waiting = Records(journal, Contest).all(state=ContestState.OPEN)
    contested = {each.batch for each in waiting}
    for run in journal.runs.newest(limit=None)[::-1]:
        if run.run_id in held:
            found.held_runs.append(run.run_id)
        elif run.state == RUNNING:
            found.live_runs.append(run.run_id)
        else:
            applied = run.purpose == Purpose.ORIGINATION and run.batch not in contested
            _find_outdated(run, now, found, applied=applied)
    if found.held_runs:
        found.journal_waits = "a legal hold: a held run may rest on any earlier answer"
    elif found.live_runs:
        found.journal_waits = "a run under way, which may have planned with any answer"
    else:
        found.journal = erasures.held_before(found.cutoffs, found.applicants)
    return found


def _find_outdated(run: RunRecord, now: int, found: Purgeable, *, applied: bool) -> None:
    """Add a run's files that are older than their period, which for applicants may be shorter.

    `applied`: the run is of applicants, and its batch has no open contest.
    """
    folder = Path(run.folder)
    ended = run.finished_at or run.started_at
    age = (now - ended) // DAY_MICROS
    cutoffs = found.cutoffs
    if applied:
        cutoffs = {**cutoffs, "enriched": max(cutoffs["enriched"], cutoffs["applicants"])}
        if ended <= cutoffs["applicants"]:
            found.applicants.append(run.run_id)
    for ground in dict.fromkeys(each.ground for each in OUTPUTS if each.ground):
        declared = [each for each in OUTPUTS if each.ground == ground]
        files = tuple(path for each in declared for path in each.files(folder))
        if files and ended <= cutoffs[ground]:
            found.outdated.append(Outdated(run.run_id, ground, folder, files, age))


def purge(journal: Journal, found: Purgeable) -> dict[str, Any]:
    """Remove what is due; return what was removed, as numbers, and write it to the audit.

    Raises:
        OutputError: a folder cannot be written; purge again when that is fixed.
    """
    drop_sealed(journal.home / UPLOADS)
    repair_manifests(journal)
    if not found.anything:
        return {**found.document(), "removed_files": 0, "log_emptied": scrub_database(journal)}
    sweep_workspaces(journal.home, journal.holders.alive)
    audit = Audit(journal)
    audit.drop_before(found.cutoffs["audit"])
    waits = bool(found.journal_waits)
    before = dict.fromkeys(found.cutoffs, 0) if waits else found.cutoffs
    removed = Erasures(journal).purge(before, () if waits else found.applicants)
    audit.write_by_command(PURGE_BEGUN, **removed.numbers())  # it may be interrupted from here on
    emptied = scrub_database(journal)
    folders: dict[Path, RunFiles] = {}
    for each in found.outdated:
        if not journal.runs.held_elsewhere(each.run_id):
            rewritten = folders.setdefault(each.folder, RunFiles.of(each.folder, RETENTION))
            sweep_partial_files(each.folder)
            rewritten.remove(each.files)
    files = sum(folder.finish(journal.clock()) for folder in folders.values())
    audit.write_by_command(PURGED, **removed.numbers(), files=files)
    return {**found.document(), "removed_files": files, "log_emptied": emptied}


def purge_due_now(settings: Settings) -> dict[str, Any]:
    """Purge by the periods in the settings; return only numbers."""
    with journal_of(settings) as journal:
        done = purge(journal, due(journal, settings.retention))
    return {"removed_files": done["removed_files"], "log_emptied": done["log_emptied"]}


def held_runs(journal: Journal) -> set[str]:
    """Return the runs under legal hold."""
    return {each.run_id for each in Records(journal, Hold).all(state="")}


def hold(journal: Journal, run_id: str, reason: str) -> None:
    """Put a run under legal hold, unless it is already.

    Raises:
        InputError: the journal knows no such run.
    """
    journal.runs.get(run_id)
    if run_id not in held_runs(journal):
        Records(journal, Hold).add([Hold(run_id=run_id, reason=reason, at=journal.clock())])


def release(journal: Journal, run_id: str) -> None:
    """End a run's legal hold; its record stays.

    Raises:
        InputError: the run is not under legal hold.
    """
    holds = Records(journal, Hold)
    current = [each for each in holds.of_run(run_id) if not each.state]
    if not current:
        raise InputError(f"run {run_id} is under no legal hold; see: nightscreen purge --dry-run")
    holds.put([each.model_copy(update={"state": "released"}) for each in current], journal.clock())


def repair_manifests(journal: Journal) -> int:
    """Update manifests for files that an interrupted erasure or purge rewrote.

    Returns:
        The number of folders updated.
    """
    runs = journal.runs.newest(limit=None)
    folders = [RunFiles.of(Path(run.folder), RETENTION) for run in runs if run.state != RUNNING]
    return sum(bool(folder.finish(journal.clock())) for folder in folders)
