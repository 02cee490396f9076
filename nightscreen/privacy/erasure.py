"""Erasing one person: whose rows and identifiers they are, then journal and past outputs in turn.

`look` finds everything and changes nothing; `erase` removes it. The journal goes first, in one
transaction; the enriched rows, which tell whose identifiers are meant, go last, so that after a
crash erasing again finds what is left. How files are rewritten is in `results/run_files.py`, what a
tombstone keeps in `journal/erasure.py`; retention by age is `purging`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from nightscreen.files.outputs import DECISIONS_CSV, DECISIONS_WORKBOOK, QUARANTINE
from nightscreen.files.sealed_file import drop_sealed
from nightscreen.files.workspace import Workspace, sweep_workspaces
from nightscreen.journal.desk_file import UPLOADS
from nightscreen.journal.erasure import (
    ERASURE,
    ErasedPseudonyms,
    Erasures,
    Removed,
    leave_no_trace,
)
from nightscreen.journal.grant_tables import BATCH as TRANSACTIONS
from nightscreen.journal.identifier_history import Sightings
from nightscreen.journal.records import KINDS, Records
from nightscreen.journal.runs import RUNNING
from nightscreen.operations.bvn.table import PARTS as BVN_PARTS
from nightscreen.planning.rings import RINGS_FILE
from nightscreen.privacy.contests import drop_asked
from nightscreen.privacy.erasure_files import is_in, of_hex, rewrite_calls, rewrite_typed
from nightscreen.privacy.erasure_inbox import (
    DroppedFile,
    Going,
    dropped_files,
    forget_dropped_name,
    require_at_rest,
    rewrite_dropped,
    what_goes,
)
from nightscreen.privacy.erasure_loans import loan_rows, rewrite_loans
from nightscreen.privacy.lookup_subject import subjects_of
from nightscreen.reading.mapping import read_mapping
from nightscreen.reading.tables import open_source
from nightscreen.results.backtest import SHADOW_FILE
from nightscreen.results.changes import CHANGES_FILE
from nightscreen.results.notice_file import NOTICES_FILE
from nightscreen.results.run_files import (
    ID_COLUMN,
    RunFiles,
    matching_rows,
    read_columns,
    records,
    typed_parts,
)
from nightscreen.schemas.cashflow import CASHFLOW_FILE
from nightscreen.schemas.clock import instant_text
from nightscreen.schemas.columns import CUSTOMERS, IDENTIFIERS, LOAN_DAYS
from nightscreen.schemas.errors import InputError
from nightscreen.schemas.money import naira_text
from nightscreen.schemas.outcomes import OUTCOMES_BATCH, OUTCOMES_FLOW

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from nightscreen.journal import Journal
    from nightscreen.journal.customers import Customers
    from nightscreen.journal.runs import RunRecord

IDENTIFYING = (ID_COLUMN, *(name for each in IDENTIFIERS.values() for name in each.columns))
_SHARED = ("bvn", "phone", "email", "domain")
_BLANKS = re.compile(r"[\s\-().]")
_PHONE_DIGITS = 10
_NOT_DIGITS = re.compile(r"\D")


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

    def mask(self, rows: pa.Table, batch: str) -> pa.ChunkedArray:
        """Tell of each row of a batch name whether it is this person's."""
        found = _none(rows)
        if self.named_in(batch):
            found = pc.or_(found, pc.equal(rows[ID_COLUMN], self.customer_id))
        if self.bvn and "bvn" in rows.column_names:
            found = pc.or_(found, pc.equal(rows["bvn"], self.bvn).fill_null(fill_value=False))
        return found.fill_null(fill_value=False)


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
        rows: rows in enriched parts, quarantine and lists.
        in_runs: the runs that have such rows.
        dropped: the files in inboxes that have such rows.
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
    dropped: list[DroppedFile] = field(default_factory=list, repr=False)
    shared_with: int = 0
    held: Removed = field(default_factory=Removed)

    @property
    def anything(self) -> bool:
        """Return whether anything is held of the person."""
        return bool(self.rows or any(self.held))

    def pseudonyms(self, journal: Journal, batch: str | None = None) -> list[bytes]:
        """Return the person's pseudonyms as a customer, in one batch name or in all."""
        meant = sorted(each for each in self.customers if batch in (None, each[0]))
        mine = [journal.pseudonyms.customer(name, customer) for name, customer in meant]
        pulled = [customer for name, customer in meant if name == TRANSACTIONS]
        return [*mine, *(journal.pseudonyms.customers_anywhere([each]) for each in pulled)]

    def person(self, journal: Journal) -> ErasedPseudonyms:
        """Return all pseudonyms of the person."""
        anywhere: dict[bytes, set[str]] = {}
        for batch, customer in self.customers:
            name = journal.pseudonyms.customers_anywhere([customer])
            anywhere.setdefault(name, set()).add(batch)
        pulled = [name for name, batches in anywhere.items() if TRANSACTIONS in batches]
        return ErasedPseudonyms({*self.subjects, *pulled}, self.pseudonyms(journal), anywhere)

    def take(self, rows: Sequence[dict[str, Any]], batch: str, journal: Journal) -> None:
        """Learn the identifiers of some of the person's rows."""
        self.subjects.update(subjects_of(rows, journal.pseudonyms))
        for row in rows:
            if row.get(ID_COLUMN):
                self.customers.add((batch, row[ID_COLUMN]))
            for name in _SHARED:
                if row.get(name):
                    self.values.setdefault(name, set()).add(row[name])
            if row.get("bank_code") and row.get("account_number"):
                account = f"{row['bank_code']}-{row['account_number']}"
                self.values.setdefault("account", set()).add(account)

    def shares(self, rows: pa.Table) -> pa.ChunkedArray:
        """Tell of each row whether it has one of the person's identifiers."""
        found = _none(rows)
        for name in _SHARED:
            if self.values.get(name) and name in rows.column_names:
                found = pc.or_(found, is_in(rows[name], self.values[name]))
        if self.values.get("account") and {"bank_code", "account_number"} <= {*rows.column_names}:
            text = [rows[name].cast(pa.string()) for name in ("bank_code", "account_number")]
            account = pc.binary_join_element_wise(*text, "-")
            found = pc.or_(found, is_in(account, self.values["account"]))
        return found


def _none(rows: pa.Table) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array([False] * rows.num_rows, pa.bool_())])


def look(
    journal: Journal,
    customers: Customers,
    whom: Whom,
    *,
    at_desk: bool = False,
    inbox: Path | None = None,
) -> Found:
    """Find all that is held of a person; nothing is changed.

    Args:
        journal: the journal.
        customers: what is remembered of customers.
        whom: who is meant.
        at_desk: the person stands in the desk's audit, so that something is held in any case.
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
    for run in found.runs:
        _look_into(run, found, journal)
    _look_into_inboxes(runs, found, inbox)
    found.shared_with = _others(found)
    _recall(journal, found)
    found.held = Erasures.of(journal).held_of(found.person(journal))
    if not found.anything and not at_desk:
        raise InputError(
            "nothing is held of this person; write the customer_id as the file has it, leading "
            "zeros included, or give the BVN"
        )
    _refuse_held(journal, found)
    _refuse_live(journal, found, runs)
    return found


def _recall(journal: Journal, found: Found) -> None:
    """Learn the identifiers that the person was once seen with, also where no file tells them."""
    for name, batches in found.person(journal).anywhere.items():
        seen = Sightings.of(journal).of_customers([name], batches)
        found.subjects.update(each.identifier for each in seen)
        for model in KINDS:
            if model.everywhere:
                held = Records.of(journal, model).of_customers([name])
                found.subjects.update(*(each.subjects for each in held if each.batch in batches))


def _look_into(run: RunRecord, found: Found, journal: Journal) -> None:
    """Learn whatever a run's files tell of the person."""
    folder = Path(run.folder)
    number = 0
    for part in (*_parts(folder), *typed_parts(run), *_cash_flow(folder)):
        rows = read_columns(part, IDENTIFYING)
        mine = rows.filter(found.whom.mask(rows, run.batch)).to_pylist()
        found.take(mine, run.batch, journal)
        number += len(mine)
    for row in _quarantined(run, found):
        found.take([row], run.batch, journal)
        number += 1
    number += sum(1 for _ in _listed(folder, _ids(run, found)))
    number += _told(folder, found.pseudonyms(journal, run.batch))
    number += loan_rows(folder, found.customers)
    found.rows += number
    if number:
        found.in_runs.add(run.run_id)


def _look_into_inboxes(runs: Sequence[RunRecord], found: Found, inbox: Path | None) -> None:
    """Learn which files in inboxes hold the person.

    A run's own file is read where its results have the person, or there are none.
    """
    for file in dropped_files(runs, inbox):
        run = file.run
        if run is not None and run.run_id not in found.in_runs and _parts(Path(run.folder)):
            continue
        going = _what_goes(file, found)
        if going.rows or going.is_lost:
            found.dropped.append(file)
            found.rows += going.rows
            if run is not None:
                found.in_runs.add(run.run_id)
            require_at_rest(file)


def _what_goes(file: DroppedFile, found: Found) -> Going:
    ids = {customer for batch, customer in found.customers if batch == file.batch}
    if file.run is not None and Path(file.run.folder).is_dir():
        ids = _ids(file.run, found)
    if found.whom.named_in(file.batch):
        ids.add(found.whom.customer_id)
    return what_goes(
        file, lambda known: _theirs(ids, found, known), lambda cells: _named(cells, ids, found)
    )


def _named(cells: Sequence[str], ids: Collection[str], found: Found) -> bool:
    """Return whether cells whose meaning is not known name the person."""
    return any(cell.strip() in ids for cell in cells) or _mentions(cells, found.values)


def _parts(folder: Path) -> list[Path]:
    return [
        part
        for name in ("enriched", BVN_PARTS)
        for part in sorted((folder / name).glob("part-*.parquet"))
    ]


def _cash_flow(folder: Path) -> list[Path]:
    path = folder / CASHFLOW_FILE
    return [path] if path.exists() else []


def _ids(run: RunRecord, found: Found) -> set[str]:
    """Return the ids that mean the person in a run's lists.

    A BVN may have been corrected since: an id whose row in this run has another one stays.
    """
    own = (run.batch,) if run.batch != OUTCOMES_BATCH else {batch for batch, _ in found.customers}
    ids = {customer for batch, customer in found.customers if batch in own}
    if found.whom.bvn and ids:
        for part in _parts(Path(run.folder)):
            rows = read_columns(part, IDENTIFYING)
            others = rows.filter(pc.invert(found.whom.mask(rows, run.batch)))
            ids -= set(others[ID_COLUMN].filter(is_in(others[ID_COLUMN], ids)).to_pylist())
    return ids


def _listed(folder: Path, ids: Collection[str]) -> Iterator[Sequence[str]]:
    """Yield the person's records of a run's lists."""
    for path in (folder / name for name in (DECISIONS_CSV, NOTICES_FILE, SHADOW_FILE)):
        if path.exists():
            goes = _of_ids(path, ids)
            yield from (cells for cells, _ in records(path) if goes(cells))


def _of_ids(path: Path, ids: Collection[str]) -> Callable[[Sequence[str]], bool]:
    head, _ = next(records(path), ([], ""))
    place = head.index(ID_COLUMN) if ID_COLUMN in head else 0
    return lambda cells: len(cells) > place and cells[place] in ids


def _told(folder: Path, customers: Collection[bytes]) -> int:
    """Return how many changes a run told of the person."""
    path = folder / CHANGES_FILE
    return matching_rows(path, ["customer"], of_hex("customer", customers)) if path.exists() else 0


def _quarantined(run: RunRecord, found: Found) -> Iterator[dict[str, Any]]:
    """Yield the person's rows of a run's quarantine, under the columns that are understood."""
    path = Path(run.folder) / QUARANTINE
    if not path.exists():
        return
    known = _understood(run, path)
    goes = _from_quarantine(run, found, known)
    for number, (cells, _) in enumerate(records(path)):
        if number and goes(cells):
            pairs = zip(known, cells, strict=False)
            yield {name: cell.strip() for name, cell in pairs if name in IDENTIFYING}


def _understood(run: RunRecord, path: Path) -> list[str | None]:
    """Return what each column of a run's quarantine is, as far as that can be told."""
    try:
        given = run.parameters.get("mapping")
        kind = LOAN_DAYS if run.flow == OUTCOMES_FLOW else CUSTOMERS
        mapping = read_mapping(Path(given), kind) if given else None
        source = open_source(path, mapping=mapping, kind=kind)
        return [column.known for column in source.header.columns]
    except InputError:
        head, _ = next(records(path), ([], ""))
        return [name if name in IDENTIFYING else None for name in head]


def _from_quarantine(
    run: RunRecord, found: Found, known: Sequence[str | None]
) -> Callable[[Sequence[str]], bool]:
    """Return which records of a quarantine are the person's."""
    return _theirs(_ids(run, found), found, known)


def _theirs(
    ids: Collection[str], found: Found, known: Sequence[str | None]
) -> Callable[[Sequence[str]], bool]:
    """Return which records as they came are the person's.

    A record without a customer's id is theirs where it has one of their identifiers.
    """
    places = [place for place, name in enumerate(known) if name == ID_COLUMN]
    ids = set(ids)

    def goes(cells: Sequence[str]) -> bool:
        given = {cells[place].strip() for place in places if place < len(cells)} - {""}
        if given & ids or (found.whom.bvn and _mentions(cells, {"bvn": {found.whom.bvn}})):
            return True
        return not given and _mentions(cells, found.values)

    return goes


def _mentions(cells: Sequence[str], values: dict[str, set[str]]) -> bool:
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


def _others(found: Found) -> int:
    """Return how many other customers have one of the person's identifiers."""
    others: set[tuple[str, str]] = set()
    for run in found.runs:
        for part in _parts(Path(run.folder)):
            rows = read_columns(part, IDENTIFYING)
            mine = found.whom.mask(rows, run.batch)
            sharing = rows.filter(pc.and_(found.shares(rows), pc.invert(mine)))
            others.update((run.batch, each) for each in sharing[ID_COLUMN].to_pylist())
    return len(others - found.customers)


def _refuse_held(journal: Journal, found: Found) -> None:
    batches = {batch for batch, _ in found.customers}
    held = Erasures.of(journal).holds()
    for run in found.runs:
        unknown = not _parts(Path(run.folder)) and run.batch in batches
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
    for folder in folders:
        workspace = Workspace(folder, folder.name, journal.sealer)
        for piece in sorted(folder.glob("rows-*.sealed")):
            rows = workspace.get(piece.stem)
            mask = pc.or_(found.whom.mask(rows, run.batch), found.shares(rows))
            if pc.any(mask).as_py():
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
    person = found.person(journal)
    traces = erasures.traces_of(person)
    number = erasures.erase(person)
    emptied = leave_no_trace(journal, traces)
    sweep_workspaces(journal.home, journal.holders.alive)
    drop_asked(journal.home)
    drop_sealed(journal.home / UPLOADS)
    dropped_rows, lost = _rewrite_dropped(journal, found)
    folders = _rewrite(journal, found)
    at = instant_text(journal.clock()) or ""
    files = sum(folder.finish(at) for folder in folders) + len(found.dropped)
    rows = sum(folder.rows for folder in folders) + dropped_rows
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
        "removed_unread": [*lost, *(name for folder in folders for name in folder.lost)],
        "log_emptied": emptied,
    }


def _rewrite_dropped(journal: Journal, found: Found) -> tuple[int, list[str]]:
    """Take the person out of files in inboxes; return how many rows, and what went whole.

    Raises:
        InputError: a file is being written or screened by now.
    """
    rows, lost = 0, list[str]()
    for file in found.dropped:
        if file.run is not None and journal.runs.held_elsewhere(file.run.run_id):
            continue  # `_refuse_left_out` tells of it
        if not file.path.exists():
            continue
        require_at_rest(file)
        going = _what_goes(file, found)
        rewrite_dropped(file, going)
        forget_dropped_name(file, lambda cells: _mentions(cells, found.values))
        rows += going.rows
        lost += [f"{file.path.parent.parent.name}/{file.path.parent.name}"] if going.is_lost else []
    return rows, lost


def _refuse_left_out(folders: Sequence[RunFiles], found: Found) -> None:
    done = {folder.path for folder in folders}
    for run in found.runs:
        if run.run_id in found.in_runs and Path(run.folder) not in done:
            raise InputError(
                f"run {run.run_id} was resumed meanwhile, so that its files were left as "
                "they are; erase again after it"
            )


def _rewrite(journal: Journal, found: Found) -> list[RunFiles]:
    """Rewrite every run's files: those that tell whose identifiers are meant come last."""
    resting = [run for run in found.runs if not journal.runs.held_elsewhere(run.run_id)]
    folders = [(run, RunFiles.of(Path(run.folder), ERASURE)) for run in resting]
    for run, folder in folders:
        folder.sweep()
        rewrite_calls(folder, found.person(journal).subjects)
        _rewrite_lists(folder, run, found, journal)
        rewrite_loans(folder, found.customers, found.person(journal).anywhere)
        quarantine = folder.path / QUARANTINE
        if quarantine.exists():
            known = _understood(run, quarantine)
            folder.drop_records(quarantine, _from_quarantine(run, found, known))
    for run, folder in folders:
        for part in (*_parts(folder.path), *_cash_flow(folder.path)):
            folder.drop_rows(part, IDENTIFYING, partial(found.whom.mask, batch=run.batch))
    days = list(rewrite_typed(resting, found.whom.mask))
    return [*(folder for _, folder in folders), *days]


def _rewrite_lists(folder: RunFiles, run: RunRecord, found: Found, journal: Journal) -> None:
    """Take the person out of the decision list, of the changes and of the rings."""
    ids = _ids(run, found)
    changes, listed, workbook = (
        folder.path / name for name in (CHANGES_FILE, DECISIONS_CSV, DECISIONS_WORKBOOK)
    )
    if changes.exists():
        customers = found.pseudonyms(journal, run.batch) if run.batch == TRANSACTIONS else []
        customers += [journal.pseudonyms.customer(run.batch, each) for each in ids]
        folder.drop_rows(changes, ["customer"], of_hex("customer", customers))
    rings = folder.path / RINGS_FILE
    if rings.exists():
        tied = [*found.person(journal).anywhere]
        folder.drop_rows(rings, ["customer"], of_hex("customer", tied))
    if workbook.exists():
        folder.drop_from_workbook(workbook, ids)
    for path in (listed, folder.path / NOTICES_FILE, folder.path / SHADOW_FILE):
        if path.exists():
            folder.drop_records(path, _of_ids(path, ids))
