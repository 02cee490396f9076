"""Erasing one person: whose rows and identifiers they are, then journal and past outputs in turn.

`look` finds everything and changes nothing; `erase` removes it, file by file as `files.outputs`
declares them. The journal goes first, in one transaction; rows in clear, which tell whose
identifiers are meant, go last, so that after a crash erasing again finds what is left. By what a
file names the person is in `person`, how it is rewritten in `files/run_folder.py` and
`given_files`, what a tombstone keeps in `journal/erasure.py`; retention by age is `purging`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from nightscreen.files.outputs import (
    DECISIONS_CSV,
    QUARANTINE,
    Erasing,
    Output,
    Whose,
    declared_as,
)
from nightscreen.files.run_folder import RowFilter, RunFiles, read_columns, rows_in
from nightscreen.files.sealed_file import UPLOADS, drop_sealed
from nightscreen.files.workspace import Workspace, sweep_workspaces
from nightscreen.journal.erasure import ERASURE, Erasures, Removed, leave_no_trace
from nightscreen.journal.identifier_history import Sightings
from nightscreen.journal.records import Records
from nightscreen.journal.runs import RUNNING
from nightscreen.journal.schema import KINDS, TOMBSTONE
from nightscreen.privacy.contests import drop_asked
from nightscreen.privacy.given_files import (
    GivenFile,
    Going,
    forget_dropped_name,
    inbox_files,
    is_at_work,
    names_person,
    rewrite,
    what_goes,
)
from nightscreen.privacy.person import (
    ID_COLUMN,
    IDENTIFYING,
    InRun,
    Person,
    Whom,
    parts_in_clear,
)
from nightscreen.schemas.clock import instant_text
from nightscreen.schemas.consented import PULLS as TRANSACTIONS
from nightscreen.schemas.errors import InputError
from nightscreen.schemas.money import naira_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nightscreen.journal import Journal
    from nightscreen.journal.customers import Customers
    from nightscreen.journal.runs import RunRecord

_NAMELESS = {Whose.BY_CALL.value: TOMBSTONE.hex(), "consent_reference": None}
"""What stands in the calls of an erased person."""


@dataclass(slots=True)
class Tally:
    """What was found in files, or removed from them.

    Attributes:
        rows: the person's rows.
        runs: the runs that have such rows.
        workbooks: where workbooks lie that name the person, and so go whole.
        unread: where files lie that nobody can read, and so go whole.
        outside: how many files were changed that are in no run's folder.
    """

    rows: int = 0
    runs: set[str] = field(default_factory=set)
    workbooks: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    outside: int = 0

    def document(self) -> dict[str, Any]:
        """Return rows, and where whole files go, as JSON has it."""
        return {
            "rows": self.rows,
            "workbooks_removed_whole": self.workbooks,
            "removed_unread": self.unread,
        }


@dataclass(slots=True)
class Found:
    """All that is known of a person before anything is removed.

    Attributes:
        person: who they are.
        runs: runs whose folder is there, oldest first.
        absent: runs whose folder is not there any more.
        files: what files hold of the person.
        dropped: the files of inboxes that have their rows.
        shared_with: other customers who have one of the identifiers.
        held: what the journal holds.
    """

    person: Person
    runs: list[RunRecord]
    absent: int
    files: Tally = field(default_factory=Tally)
    dropped: list[GivenFile] = field(default_factory=list, repr=False)
    shared_with: int = 0
    held: Removed = field(default_factory=Removed)

    @property
    def anything(self) -> bool:
        """Return whether anything is held of the person; what nobody can read tells of nobody."""
        return bool(self.files.rows or self.files.workbooks or any(self.held))

    def document(self) -> dict[str, Any]:
        """Return what would go as JSON has it; nothing in it is personal."""
        return {
            "answers": self.held.answers,
            "calls": self.held.calls,
            "states": self.held.states,
            "sightings": self.held.sightings,
            "cost": naira_text(self.held.cost_micro),
            "runs": len(self.files.runs),
            "shared_with": self.shared_with,
            "absent_folders": self.absent,
            **self.files.document(),
        }


@dataclass(slots=True)
class _Pass:
    """Goes through files: counts what is the person's or, given their folders, takes it out.

    Attributes:
        person: whose rows.
        tally: what was found, or removed.
        folders: the folders that are rewritten, by run; None to look alone.
    """

    person: Person
    tally: Tally
    folders: dict[str, RunFiles] | None = None

    def outputs(self, runs: Iterable[RunRecord], *whose: Whose) -> None:
        """Go through what runs wrote, one declaration after the other."""
        named = [InRun.of(run, self.person) for run in runs]
        for declared in declared_as(*whose):
            for each in named:
                mine = each.filter(declared.whose)
                for file in declared.files(Path(each.run.folder)):
                    if self._output(file, declared, each, mine):
                        self.tally.runs.add(each.run.run_id)

    def _output(self, file: Path, declared: Output, in_run: InRun, mine: RowFilter) -> bool:
        folder = None if self.folders is None else self.folders[in_run.run.run_id]
        match declared.erasing:
            case Erasing.DELETE:
                going = _of_workbook(file, in_run, mine)
                self._whole(going, f"{in_run.run.run_id}/{file.name}")
                if going.whole and folder is not None:
                    folder.remove([file])
                return going.whole
            case Erasing.BLANK if folder is not None:
                return bool(folder.blank(file, mine, _NAMELESS))
        number = mine.count(file) if folder is None else folder.drop(file, mine)
        if number and folder is not None and declared.beside and not rows_in(file):
            file.unlink()
        self.tally.rows += number
        return bool(number)

    def given(self, file: GivenFile) -> bool:
        """Go through a file as the lender gave it; tell whether anything of it goes.

        Raises:
            InputError: it goes, and is being written or screened.
        """
        run = file.run
        whose = (
            self.person.theirs(file.batch) if run is None else InRun.of(run, self.person).theirs()
        )
        going = what_goes(file, whose)
        if not going.anything:
            return False
        if file.path.name != QUARANTINE and is_at_work(file):
            raise InputError(
                "a file in the inbox that may hold this person is being written or screened; erase "
                "again after it"
            )
        self.tally.rows += len(going.spans)
        self._whole(going, file.place)
        if run is not None:
            self.tally.runs.add(run.run_id)
        if self.folders is None:
            self.person.learn(going.rows, file.batch)
            return True
        own = None if run is None else self.folders.get(run.run_id)
        if own is not None and file.path.is_relative_to(own.path):
            own.touch(file.path)
        else:
            self.tally.outside += 1
        rewrite(file, going)
        forget_dropped_name(file, self.person.mentioned)
        return True

    def _whole(self, going: Going, place: str) -> None:
        self.tally.workbooks += [place] if going.is_workbook else []
        self.tally.unread += [place] if going.is_unread else []


def _of_workbook(workbook: Path, in_run: InRun, mine: RowFilter) -> Going:
    """Return whether a run's workbook goes.

    It was made of the rows of the list beside it, which is quicker to read.
    """
    beside = workbook.with_name(DECISIONS_CSV)
    try:
        named = mine.count(beside) if beside.exists() else None
        if named is None:
            named = names_person(workbook, in_run.theirs().mentions)
    except InputError:
        return Going(is_unread=True)
    return Going(is_workbook=bool(named))


def look(
    journal: Journal,
    customers: Customers,
    whom: Whom,
    *,
    inbox: Path | None = None,
) -> Found:
    """Find all that is held of a person; nothing is changed.

    Args:
        journal: the journal.
        customers: what is remembered of customers.
        whom: who is meant.
        inbox: the present inbox; those that runs came from are known.

    Raises:
        InputError: nothing is held, a run under way may involve the person, or a run that does is
            under legal hold.
    """
    runs = journal.runs.newest(limit=None)[::-1]
    there = [run for run in runs if Path(run.folder).is_dir()]
    person = Person(whom, journal)
    found = Found(person, there, len(runs) - len(there))
    if whom.customer_id:
        names = {*customers.batches(), *(run.batch for run in runs), TRANSACTIONS}
        person.customers = {(name, whom.customer_id) for name in names if whom.named_in(name)}
    if whom.bvn:
        person.values["bvn"] = {whom.bvn}
        person.subjects.add(journal.pseudonyms.subject("bvn", whom.bvn))
    _look_into_clear(found)
    looking = _Pass(person, found.files)
    for quarantine in _quarantines(there):
        looking.given(quarantine)
    for file in inbox_files(runs, inbox):
        if _may_have(file, found) and looking.given(file):
            found.dropped.append(file)
    looking.outputs(there, Whose.LISTED, Whose.BY_PSEUDONYM)
    found.shared_with = _others(found)
    _recall(journal, person)
    found.held = Erasures.of(journal).held_of(person.pseudonyms())
    if not found.anything:
        raise InputError(
            "nothing is held of this person; write the customer_id as the file has it, leading "
            "zeros included, or give the BVN"
        )
    _refuse_held(journal, found)
    _refuse_live(journal, person, runs)
    return found


def _look_into_clear(found: Found) -> None:
    """Learn the person's identifiers from rows in clear."""
    for run in found.runs:
        mine = found.person.whom.rows_of(run.batch)
        for part in parts_in_clear(run):
            rows = read_columns(part, IDENTIFYING)
            theirs = rows.filter(mine.of_rows(rows)).to_pylist()
            found.person.learn(theirs, run.batch)
            found.files.rows += len(theirs)
            found.files.runs.update([run.run_id] if theirs else [])


def _quarantines(runs: Iterable[RunRecord]) -> list[GivenFile]:
    paths = ((Path(run.folder) / QUARANTINE, run) for run in runs)
    return [GivenFile(path, run.batch, run) for path, run in paths if path.exists()]


def _may_have(file: GivenFile, found: Found) -> bool:
    """Return whether a dropped file is to be read.

    Where all rows of a run's own file are in its results, and none of them is the person's, it is
    not: reading every input again takes longer than all the rest.
    """
    run = file.run
    if run is None or run.run_id in found.files.runs or not parts_in_clear(run):
        return True
    refused = ((run.report or {}).get("rows") or {}).get("quarantined", 1)
    return bool(refused) and not (Path(run.folder) / QUARANTINE).exists()


def _recall(journal: Journal, person: Person) -> None:
    """Learn the identifiers that the person was once seen with, also where no file tells them."""
    for name, batches in person.pseudonyms().anywhere.items():
        seen = Sightings.of(journal).of_customers([name], batches)
        person.subjects.update(each.identifier for each in seen)
        for model in KINDS:
            if model.everywhere:
                held = Records.of(journal, model).of_customers([name])
                person.subjects.update(*(each.subjects for each in held if each.batch in batches))


def _others(found: Found) -> int:
    """Return how many other customers have one of the person's identifiers."""
    others: set[tuple[str, str]] = set()
    sharing = found.person.sharing()
    for run in found.runs:
        for part in parts_in_clear(run):
            rows = read_columns(part, IDENTIFYING)
            mine = found.person.whom.rows_of(run.batch).of_rows(rows)
            found_here = rows.filter(pc.and_(sharing.of_rows(rows), pc.invert(mine)))
            others.update((run.batch, each) for each in found_here[ID_COLUMN].to_pylist())
    return len(others - found.person.customers)


def _refuse_held(journal: Journal, found: Found) -> None:
    batches = {batch for batch, _ in found.person.customers}
    held = Erasures.of(journal).holds()
    for run in found.runs:
        unknown = not parts_in_clear(run) and run.batch in batches
        if run.run_id in held and (run.run_id in found.files.runs or unknown):
            raise InputError(
                f"run {run.run_id} is under legal hold and involves this person; a hold goes "
                f"first: nightscreen purge --release {run.run_id}"
            )


def _refuse_live(journal: Journal, person: Person, runs: Sequence[RunRecord]) -> None:
    for run in runs:
        if run.state == RUNNING and _involves(journal, run, person):
            raise InputError(
                f"run {run.run_id} is under way and may involve this person; erase again after it"
            )


def _involves(journal: Journal, run: RunRecord, person: Person) -> bool:
    """Return whether a living run has the person, or cannot be shown not to.

    Its rows are known once it has planned; on another machine they cannot be seen from here.
    """
    folders = list((journal.home / "work").glob(f"{run.run_id}@*"))
    if not any((folder / "needed.sealed").exists() for folder in folders):
        return True
    wanted = RowFilter([*person.whom.rows_of(run.batch).any_of, *person.sharing().any_of])
    for folder in folders:
        workspace = Workspace(folder, folder.name, journal.sealer)
        for piece in sorted(folder.glob("rows-*.sealed")):
            if pc.any(wanted.of_rows(workspace.get(piece.stem))).as_py():
                return True
    return False


def mend(journal: Journal) -> int:
    """Bring manifests up to files that an erasure or purge rewrote before it was cut short.

    Returns:
        How many folders there were.
    """
    runs = journal.runs.newest(limit=None)
    folders = [RunFiles.of(Path(run.folder), ERASURE) for run in runs if run.state != RUNNING]
    at = instant_text(journal.clock()) or ""
    return sum(bool(folder.finish(at)) for folder in folders)


def erase(journal: Journal, found: Found) -> dict[str, Any]:
    """Erase a person; return what went, in numbers alone.

    Raises:
        InputError: a run that began meanwhile is asking about the person, or rewrites its own
            files; erase again after it.
        OutputError: a file cannot be rewritten; erase again once that is mended.
    """
    journal.calls.recover()
    erasures = Erasures.of(journal)
    number = erasures.erase(found.person.pseudonyms())
    emptied = leave_no_trace(journal)
    sweep_workspaces(journal.home, journal.holders.alive)
    drop_asked(journal.home)
    drop_sealed(journal.home / UPLOADS)
    went, folders = _rewrite(journal, found)
    at = instant_text(journal.clock()) or ""
    files = went.outside + sum(folder.finish(at) for folder in folders.values())
    for run in found.runs:
        if run.run_id in found.files.runs and run.run_id not in folders:
            raise InputError(
                f"run {run.run_id} was resumed meanwhile, so that its files were left as "
                "they are; erase again after it"
            )
    erasures.finish(number, file_rows=went.rows, files=files)
    done = found.document() | went.document() | {"files": files, "log_emptied": emptied}
    del done["runs"]
    return done


def _rewrite(journal: Journal, found: Found) -> tuple[Tally, dict[str, RunFiles]]:
    """Take the person out of every file, rows in clear last: they tell whose the others are."""
    resting = [run for run in found.runs if not journal.runs.held_elsewhere(run.run_id)]
    folders = {run.run_id: RunFiles.of(Path(run.folder), ERASURE) for run in resting}
    for folder in folders.values():
        folder.sweep()
    taking = _Pass(found.person, Tally(), folders)
    taking.outputs(resting, Whose.LISTED, Whose.BY_PSEUDONYM, Whose.BY_CALL)
    for file in [*_quarantines(resting), *found.dropped]:
        left = file.run is not None and journal.runs.held_elsewhere(file.run.run_id)
        if file.path.exists() and not left:
            taking.given(file)
    taking.outputs(resting, Whose.IN_CLEAR)
    return taking.tally, folders
