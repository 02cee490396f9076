"""Erasing one person: whose rows and identifiers they are, then journal and past outputs in turn.

`look` finds everything and changes nothing; `erase` removes it, file by file as `files.outputs`
declares them. The journal goes first, in one transaction; rows in clear, which tell whose
identifiers are meant, go last, so that after a crash erasing again finds what is left. How a file
is rewritten is in `files/run_folder.py` and `given_files`, what a tombstone keeps in
`journal/erasure.py`; retention by age is `purging`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from nightscreen.files.outputs import (
    DECISIONS_CSV,
    QUARANTINE,
    Erasing,
    Whose,
    declared_as,
)
from nightscreen.files.run_folder import RowFilter, RunFiles, read_columns, rows_in
from nightscreen.files.sealed_file import UPLOADS, drop_sealed
from nightscreen.files.workspace import Workspace, sweep_workspaces
from nightscreen.journal.audit import Audit
from nightscreen.journal.erasure import (
    ERASURE,
    Erasures,
    Removed,
    leave_no_trace,
)
from nightscreen.journal.identifier_history import Sightings
from nightscreen.journal.records import Records
from nightscreen.journal.runs import RUNNING
from nightscreen.journal.schema import KINDS, TOMBSTONE, ErasedPseudonyms
from nightscreen.journal.schema import PULLS as TRANSACTIONS
from nightscreen.privacy.contests import drop_asked
from nightscreen.privacy.given_files import (
    GivenFile,
    Theirs,
    forget_dropped_name,
    inbox_files,
    is_at_work,
    names_person,
    rewrite,
    what_goes,
)
from nightscreen.privacy.lookup_subject import subjects_of
from nightscreen.schemas.clock import instant_text
from nightscreen.schemas.columns import IDENTIFIERS
from nightscreen.schemas.errors import InputError
from nightscreen.schemas.money import naira_text
from nightscreen.schemas.outcomes import OUTCOMES_BATCH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from nightscreen.files.outputs import Output
    from nightscreen.journal import Journal
    from nightscreen.journal.customers import Customers
    from nightscreen.journal.runs import RunRecord

_ID = Whose.LISTED.value
IDENTIFYING = (_ID, *(name for each in IDENTIFIERS.values() for name in each.columns))
_SHARED = ("bvn", "phone", "email", "domain")
_ACCOUNT = ("bank_code", "account_number")
_BLANKS = re.compile(r"[\s\-().]")
_PHONE_DIGITS = 10
_NOT_DIGITS = re.compile(r"\D")
_NAMELESS = {Whose.BY_CALL.value: TOMBSTONE.hex(), "consent_reference": None}
"""What stands in the calls of an erased person."""


@dataclass(frozen=True, slots=True)
class Whom:
    """Who is to be erased: a customer (in one batch name or in all), a BVN, or both.

    Attributes:
        customer_id: as the lender gives it; empty where only a BVN is given.
        batch: the batch name the customer is meant in; empty for every one.
        bvn: a BVN whose every row goes; empty where only a customer is given.
    """

    customer_id: str = field(default="", repr=False)
    batch: str = ""
    bvn: str = field(default="", repr=False)

    def named_in(self, batch: str) -> bool:
        """Return whether the customer's id means this person in a batch name."""
        return bool(self.customer_id) and self.batch in ("", batch)

    def rows_of(self, batch: str) -> RowFilter:
        """Return what finds this person's rows among rows in clear of a batch name."""
        ids = {(self.customer_id,)} if self.named_in(batch) else set()
        return RowFilter([((_ID,), ids), (("bvn",), {(self.bvn,)} if self.bvn else set())])


@dataclass(slots=True)
class Found:
    """All that is known of a person before anything is removed.

    Attributes:
        whom: who is meant.
        runs: runs whose folder is there, oldest first.
        absent: runs whose folder is not there any more.
        customers: batch name and customer id of everything that is the person's.
        values: the person's identifiers by column; an account as `bank-number`.
        subjects: pseudonyms of the identifiers.
        rows: rows in all files.
        in_runs: the runs that have such rows.
        given: the files as the lender gave them that have such rows.
        workbooks: where workbooks lie that name the person, and so go whole.
        unread: where files lie that nobody can read, and so go whole.
        shared_with: other customers who have one of the identifiers.
        held: what the journal holds.
    """

    whom: Whom
    runs: list[RunRecord] = field(default_factory=list)
    absent: int = 0
    customers: set[tuple[str, str]] = field(default_factory=set, repr=False)
    values: dict[str, set[str]] = field(default_factory=dict, repr=False)
    subjects: set[bytes] = field(default_factory=set, repr=False)
    rows: int = 0
    in_runs: set[str] = field(default_factory=set)
    given: list[GivenFile] = field(default_factory=list, repr=False)
    workbooks: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    shared_with: int = 0
    held: Removed = field(default_factory=Removed)

    @property
    def anything(self) -> bool:
        """Return whether anything is held of the person."""
        return bool(self.rows or self.workbooks or any(self.held))

    def document(self) -> dict[str, Any]:
        """Return what would go as JSON has it; nothing in it is personal."""
        return {
            "answers": self.held.answers,
            "states": self.held.states,
            "rows": self.rows,
            "runs": len(self.in_runs),
            "shared_with": self.shared_with,
            "absent_folders": self.absent,
            "workbooks_removed_whole": self.workbooks,
            "removed_unread": self.unread,
        }

    def person(self, journal: Journal) -> ErasedPseudonyms:
        """Return all pseudonyms of the person."""
        names = journal.pseudonyms
        anywhere: dict[bytes, set[str]] = {}
        for batch, customer in self.customers:
            anywhere.setdefault(names.customers_anywhere([customer]), set()).add(batch)
        pulled = [name for name, batches in anywhere.items() if TRANSACTIONS in batches]
        mine = [names.customer(*each) for each in sorted(self.customers)]
        ids = {*(customer for _, customer in self.customers), self.whom.customer_id} - {""}
        audited = [Audit(journal).customer(each) for each in sorted(ids)]
        return ErasedPseudonyms({*self.subjects, *pulled}, [*mine, *pulled], anywhere, audited)

    def take(self, rows: Iterable[Mapping[str, Any]], batch: str, journal: Journal) -> None:
        """Learn the identifiers of some of the person's rows."""
        for row in rows:
            self.subjects.update(subjects_of([row], journal.pseudonyms))
            if row.get(_ID):
                self.customers.add((batch, row[_ID]))
            for name in _SHARED:
                if row.get(name):
                    self.values.setdefault(name, set()).add(row[name])
            if all(row.get(name) for name in _ACCOUNT):
                account = "-".join(row[name] for name in _ACCOUNT)
                self.values.setdefault("account", set()).add(account)

    def sharing(self) -> RowFilter:
        """Return what finds rows that have one of the person's identifiers."""
        accounts = {tuple(each.split("-", 1)) for each in self.values.get("account", ())}
        single = [((name,), {(each,) for each in self.values.get(name, ())}) for name in _SHARED]
        return RowFilter([*single, (_ACCOUNT, accounts)])

    def mentioned(self, cells: Sequence[str]) -> bool:
        """Return whether cells whose meaning is not known have one of the identifiers."""
        return _mention(cells, self.values)


@dataclass(frozen=True, slots=True)
class _InRun:
    """By what the files of one run name the person.

    Attributes:
        ids: customer ids that mean the person in the run's lists.
    """

    run: RunRecord
    found: Found
    ids: set[str] = field(repr=False)

    @classmethod
    def of(cls, run: RunRecord, found: Found) -> _InRun:
        """Find the ids: a BVN may have been corrected, so an id with another one in this run stays.

        A run of loan outcomes has customers of every batch name.
        """
        anywhere = run.batch == OUTCOMES_BATCH
        ids = {customer for batch, customer in found.customers if anywhere or batch == run.batch}
        if found.whom.bvn and ids:
            mine = found.whom.rows_of(run.batch)
            for part in _in_clear(run):
                rows = read_columns(part, IDENTIFYING)
                others = rows.filter(pc.invert(mine.of_rows(rows)))
                ids -= set(others[_ID].to_pylist())
        return cls(run, found, ids)

    def filter(self, whose: Whose, journal: Journal) -> RowFilter:
        """Return what finds the person's rows in a file of the run."""
        names, batch, customers = journal.pseudonyms, self.run.batch, self.found.customers
        column = (whose.value,)
        if whose is Whose.IN_CLEAR:
            return self.found.whom.rows_of(batch)
        if whose is Whose.BY_CALL:
            person = self.found.person(journal)
            return RowFilter([(column, {(each.hex(),) for each in person.subjects})])

        def named(at: str, customer_id: str) -> list[str]:
            if whose is Whose.LISTED:
                return [customer_id]
            both = (names.customer(at, customer_id), names.customers_anywhere([customer_id]))
            return [each.hex() for each in both]

        pairs = {(at, each) for at, customer in customers for each in named(at, customer)}
        mine = {(each,) for customer in self.ids for each in named(batch, customer)}
        return RowFilter([(("batch", *column), pairs), (column, mine)])

    def theirs(self) -> Theirs:
        """Return what tells of the run's quarantine and input whose a row is."""
        return _theirs(self.ids, self.found, self.run.batch)


def _theirs(ids: set[str], found: Found, batch: str) -> Theirs:
    """Return what tells of rows as they came whether they are the person's.

    A row without a customer's id is theirs where it has one of their identifiers.
    """
    ids = {*ids, *([found.whom.customer_id] if found.whom.named_in(batch) else [])}
    own_bvn = {"bvn": {found.whom.bvn} - {""}}

    def by_columns(known: Sequence[str | None]) -> Callable[[Sequence[str]], bool]:
        places = [place for place, name in enumerate(known) if name == _ID]

        def goes(cells: Sequence[str]) -> bool:
            given = {cells[place].strip() for place in places if place < len(cells)} - {""}
            if given & ids or _mention(cells, own_bvn):
                return True
            return not given and found.mentioned(cells)

        return goes

    return Theirs(
        by_columns, lambda cells: any(e.strip() in ids for e in cells) or found.mentioned(cells)
    )


def _mention(cells: Sequence[str], values: Mapping[str, set[str]]) -> bool:
    """Return whether a record as it came has one of some identifiers."""
    bvns, emails = values.get("bvn", set()), values.get("email", set())
    accounts = {each.rpartition("-")[2] for each in values.get("account", set())}
    phones = {each[-_PHONE_DIGITS:] for each in values.get("phone", set())}
    for cell in cells:
        text = _BLANKS.sub("", cell)
        digits = _NOT_DIGITS.sub("", cell)
        if any(bvn in text for bvn in bvns) or text in accounts:
            return True
        if digits[-_PHONE_DIGITS:] in phones or cell.strip().casefold() in emails:
            return True
    return False


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
    found = Found(whom, [run for run in runs if Path(run.folder).is_dir()])
    found.absent = len(runs) - len(found.runs)
    if whom.customer_id:
        names = {*customers.batches(), *(run.batch for run in runs), TRANSACTIONS}
        found.customers = {(name, whom.customer_id) for name in names if whom.named_in(name)}
    if whom.bvn:
        found.values["bvn"] = {whom.bvn}
        found.subjects.add(journal.pseudonyms.subject("bvn", whom.bvn))
    _learn(journal, found, runs, inbox)
    for run in found.runs:
        in_run = _InRun.of(run, found)
        for declared in declared_as(Whose.LISTED, Whose.BY_PSEUDONYM):
            mine = in_run.filter(declared.whose, journal)
            for file in declared.files(Path(run.folder)):
                _count(file, declared, in_run, mine)
    found.shared_with = _others(found)
    _recall(journal, found)
    found.held = Erasures.of(journal).held_of(found.person(journal))
    if not found.anything:
        raise InputError(
            "nothing is held of this person; write the customer_id as the file has it, leading "
            "zeros included, or give the BVN"
        )
    _refuse_held(journal, found)
    _refuse_live(journal, found, runs)
    return found


def _learn(journal: Journal, found: Found, runs: Sequence[RunRecord], inbox: Path | None) -> None:
    """Learn the person's identifiers from rows in clear, and then from rows as they came."""
    for run in found.runs:
        mine = found.whom.rows_of(run.batch)
        for part in _in_clear(run):
            rows = read_columns(part, IDENTIFYING)
            theirs = rows.filter(mine.of_rows(rows)).to_pylist()
            found.take(theirs, run.batch, journal)
            found.rows += len(theirs)
            found.in_runs.update([run.run_id] if theirs else [])
    for file in [*_quarantines(found), *inbox_files(runs, inbox)]:
        if file.run is not None and _needs_no_look(file, found):
            continue
        going = what_goes(file, _theirs_of(file, found))
        if not going.anything:
            continue
        found.take(going.rows, file.batch, journal)
        found.rows += len(going.spans)
        found.workbooks += [file.place] if going.is_workbook else []
        found.unread += [file.place] if going.is_unread else []
        if file.run is not None:
            found.in_runs.add(file.run.run_id)
        found.given.append(file)
        if file.path.name != QUARANTINE:
            _require_at_rest(file)


def _quarantines(found: Found) -> Iterator[GivenFile]:
    for run in found.runs:
        path = Path(run.folder) / QUARANTINE
        if path.exists():
            yield GivenFile(path, run.batch, run)


def _needs_no_look(file: GivenFile, found: Found) -> bool:
    """Return whether all rows of a run's own file are in its results, and none is the person's.

    It saves reading every input again, which takes longer than all the rest.
    """
    run = file.run
    assert run is not None  # noqa: S101 - asked of runs' files alone
    if file.path.name == QUARANTINE or run.run_id in found.in_runs or not _in_clear(run):
        return False
    refused = ((run.report or {}).get("rows") or {}).get("quarantined", 1)
    return not refused or (Path(run.folder) / QUARANTINE).exists()


def _theirs_of(file: GivenFile, found: Found) -> Theirs:
    if file.run is not None:
        return _InRun.of(file.run, found).theirs()
    ids = {customer for batch, customer in found.customers if batch == file.batch}
    return _theirs(ids, found, file.batch)


def _count(file: Path, declared: Output, in_run: _InRun, mine: RowFilter) -> None:
    """Count the person's rows in a file, and note a workbook that names them."""
    found, run_id = in_run.found, in_run.run.run_id
    if declared.erasing is Erasing.DELETE:
        words = _goes_whole(file, in_run, mine)
        found.workbooks += [f"{run_id}/{file.name}"] if words == "named" else []
        found.unread += [f"{run_id}/{file.name}"] if words == "unread" else []
        number = int(bool(words))
    else:
        number = mine.count(file)
        found.rows += number
    if number:
        found.in_runs.add(run_id)


def _goes_whole(workbook: Path, in_run: _InRun, mine: RowFilter) -> str:
    """Return why a workbook goes: `named`, `unread`, or empty where it stays.

    It was made of the rows of the list beside it, which is quicker to read.
    """
    beside = workbook.with_name(DECISIONS_CSV)
    if beside.exists():
        return "named" if mine.count(beside) else ""
    try:
        return "named" if names_person(workbook, in_run.theirs().mentions) else ""
    except InputError:
        return "unread"


def _recall(journal: Journal, found: Found) -> None:
    """Learn the identifiers that the person was once seen with, also where no file tells them."""
    for name, batches in found.person(journal).anywhere.items():
        seen = Sightings.of(journal).of_customers([name], batches)
        found.subjects.update(each.identifier for each in seen)
        for model in KINDS:
            if model.everywhere:
                held = Records.of(journal, model).of_customers([name])
                found.subjects.update(*(each.subjects for each in held if each.batch in batches))


def _in_clear(run: RunRecord) -> list[Path]:
    """Return the tables of a run that have identifiers in clear beside the customer's id."""
    declared = declared_as(Whose.IN_CLEAR)
    return [part for each in declared for part in each.files(Path(run.folder))]


def _others(found: Found) -> int:
    """Return how many other customers have one of the person's identifiers."""
    others: set[tuple[str, str]] = set()
    sharing = found.sharing()
    for run in found.runs:
        for part in _in_clear(run):
            rows = read_columns(part, IDENTIFYING)
            mine = found.whom.rows_of(run.batch).of_rows(rows)
            found_here = rows.filter(pc.and_(sharing.of_rows(rows), pc.invert(mine)))
            others.update((run.batch, each) for each in found_here[_ID].to_pylist())
    return len(others - found.customers)


def _refuse_held(journal: Journal, found: Found) -> None:
    batches = {batch for batch, _ in found.customers}
    held = Erasures.of(journal).holds()
    for run in found.runs:
        unknown = not _in_clear(run) and run.batch in batches
        if run.run_id in held and (run.run_id in found.in_runs or unknown):
            raise InputError(
                f"run {run.run_id} is under legal hold and involves this person; a hold goes "
                f"first: nightscreen purge --release {run.run_id}"
            )


def _refuse_live(journal: Journal, found: Found, runs: Sequence[RunRecord]) -> None:
    for run in runs:
        if run.state == RUNNING and _involves(journal, run, found):
            raise InputError(
                f"run {run.run_id} is under way and may involve this person; erase again after it"
            )


def _involves(journal: Journal, run: RunRecord, found: Found) -> bool:
    """Return whether a living run has the person, or cannot be shown not to.

    Its rows are known once it has planned; on another machine they cannot be seen from here.
    """
    folders = list((journal.home / "work").glob(f"{run.run_id}@*"))
    if not any((folder / "needed.sealed").exists() for folder in folders):
        return True
    wanted = RowFilter([*found.whom.rows_of(run.batch).any_of, *found.sharing().any_of])
    for folder in folders:
        workspace = Workspace(folder, folder.name, journal.sealer)
        for piece in sorted(folder.glob("rows-*.sealed")):
            if pc.any(wanted.of_rows(workspace.get(piece.stem))).as_py():
                return True
    return False


def _require_at_rest(file: GivenFile) -> None:
    if is_at_work(file):
        raise InputError(
            "a file in the inbox that may hold this person is being written or screened; erase "
            "again after it"
        )


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
    person = found.person(journal)
    number = erasures.erase(person)
    emptied = leave_no_trace(journal)
    sweep_workspaces(journal.home, journal.holders.alive)
    drop_asked(journal.home)
    drop_sealed(journal.home / UPLOADS)
    went = _Gone()
    folders = _rewrite(journal, found, went)
    at = instant_text(journal.clock()) or ""
    files = went.files + sum(folder.finish(at) for folder in folders)
    rows = went.rows + sum(folder.rows for folder in folders)
    _refuse_left_out(folders, found)
    erasures.finish(number, file_rows=rows, files=files)
    return {
        "answers": found.held.answers,
        "calls": found.held.calls,
        "states": found.held.states,
        "sightings": found.held.sightings,
        "cost": naira_text(found.held.cost_micro),
        "rows": rows,
        "files": files,
        "shared_with": found.shared_with,
        "absent_folders": found.absent,
        "workbooks_removed_whole": went.workbooks,
        "removed_unread": went.unread,
        "log_emptied": emptied,
    }


@dataclass(slots=True)
class _Gone:
    """What went of files that no run's manifest counts, and the files that went whole."""

    files: int = 0
    rows: int = 0
    workbooks: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)


def _rewrite(journal: Journal, found: Found, went: _Gone) -> list[RunFiles]:
    """Take the person out of every file, rows in clear last: they tell whose the others are."""
    resting = [run for run in found.runs if not journal.runs.held_elsewhere(run.run_id)]
    in_runs = [_InRun.of(run, found) for run in resting]
    folders = {run.run_id: RunFiles.of(Path(run.folder), ERASURE) for run in resting}
    for folder in folders.values():
        folder.sweep()

    def through(*whose: Whose) -> None:
        for declared in declared_as(*whose):
            for each in in_runs:
                folder = folders[each.run.run_id]
                mine = each.filter(declared.whose, journal)
                for file in declared.files(folder.path):
                    _take_out(file, declared, each, mine, folder, went)

    through(Whose.LISTED, Whose.BY_PSEUDONYM, Whose.BY_CALL)
    for file in found.given:
        if file.run is None or not journal.runs.held_elsewhere(file.run.run_id):
            own = None if file.run is None else folders.get(file.run.run_id)
            _take_out_given(file, found, own, went)
    through(Whose.IN_CLEAR)
    return [*folders.values()]


def _take_out(
    file: Path,
    declared: Output,
    in_run: _InRun,
    mine: RowFilter,
    folder: RunFiles,
    went: _Gone,
) -> None:
    """Take the person out of a file as it is declared."""
    match declared.erasing:
        case Erasing.DROP_ROWS:
            if folder.drop(file, mine) and declared.beside and not rows_in(file):
                file.unlink()
        case Erasing.BLANK:
            folder.blank(file, mine, _NAMELESS)
        case Erasing.DELETE:
            if why := _goes_whole(file, in_run, mine):
                folder.remove([file])
                place = f"{in_run.run.run_id}/{file.name}"
                (went.workbooks if why == "named" else went.unread).append(place)


def _take_out_given(file: GivenFile, found: Found, own: RunFiles | None, went: _Gone) -> None:
    """Take the person out of a file as the lender gave it.

    Raises:
        InputError: it is being written or screened by now.
    """
    if not file.path.exists():
        return
    if file.path.name != QUARANTINE:
        _require_at_rest(file)
        forget_dropped_name(file, found.mentioned)
    going = what_goes(file, _theirs_of(file, found))
    if not going.anything:
        return
    if own is not None and file.path.is_relative_to(own.path):
        own.touch(file.path)
    else:
        went.files += 1
    went.rows += len(going.spans)
    went.workbooks += [file.place] if going.is_workbook else []
    went.unread += [file.place] if going.is_unread else []
    rewrite(file, going)


def _refuse_left_out(folders: Sequence[RunFiles], found: Found) -> None:
    done = {folder.path for folder in folders}
    for run in found.runs:
        if run.run_id in found.in_runs and Path(run.folder) not in done:
            raise InputError(
                f"run {run.run_id} was resumed meanwhile, so that its files were left as "
                "they are; erase again after it"
            )
