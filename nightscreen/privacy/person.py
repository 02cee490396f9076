"""One person among files: by which rows, cells and pseudonyms they are known in each.

`KnownPerson` learns identifiers as `erasure` finds their rows; `InRun` says how the files of one
run name them, `AsGiven` how those that the lender gave do: what is dropped into an inbox, what
stands beside it there, and a run's quarantine; such a file goes whole. Nothing is changed here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from nightscreen.files.inbox import DONE, FAILED, TAKEN, WAITING
from nightscreen.files.outputs import Whose, declaration_of, declared_as
from nightscreen.files.run_folder import RowFilter, read_columns
from nightscreen.journal.audit import Audit
from nightscreen.journal.schema import ErasedPseudonyms
from nightscreen.privacy.lookup_subject import subjects_of
from nightscreen.reading.open_file import records_as_given
from nightscreen.schemas.columns import IDENTIFIERS
from nightscreen.schemas.consented import PULLS as TRANSACTIONS
from nightscreen.schemas.errors import InputError
from nightscreen.schemas.naming import batch_name
from nightscreen.schemas.outcomes import OUTCOMES_BATCH
from nightscreen.values.phones import NATIONAL_DIGITS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from nightscreen.files.sealing import Pseudonyms
    from nightscreen.journal import Journal
    from nightscreen.journal.runs import RunRecord

ID_COLUMN = Whose.LISTED.value
_BLANKS = re.compile(r"[\s\-().]")
_NOT_DIGITS = re.compile(r"\D")


@dataclass(frozen=True, slots=True)
class DroppedFile:
    """A file of an inbox that is in no run's folder."""

    path: Path  # where it lies
    batch: str  # the batch name that its customers' ids are of
    screened: bool  # it was dealt with; else it is written, waits or is being screened

    @property
    def place(self) -> str:
        """Return where it lies, without its name, which may hold anything."""
        return "/".join(self.path.parent.parts[-2:])


def dropped_files(runs: Sequence[RunRecord], inbox: Path | None) -> Iterator[DroppedFile]:
    """Yield the files of the inboxes that a journal's runs came from, and of the present one.

    What lies in the folder of a run is declared in `files/outputs.py`.
    """
    roots = set() if inbox is None else {inbox.absolute()}
    batches: dict[Path, RunRecord] = {}
    for each in runs:
        folder, given = Path(each.folder), Path(each.parameters.get("input") or "")
        batches[folder] = batches[given] = each
        if folder.parent.name == DONE:
            roots.add(folder.parent.parent)
        if given.parent.parent.name in {TAKEN, WAITING, FAILED}:
            roots.add(given.parents[2])
    for root in sorted(root for root in roots if (root / TAKEN).is_dir()):
        for screened, patterns in (
            (False, ("*", f"{TAKEN}/*/*", f"{WAITING}/*/*")),
            (True, (f"{FAILED}/*/*", f"{DONE}/*/*", f"{DONE}/*/*/*")),
        ):
            for path in sorted(chain.from_iterable(map(root.glob, patterns))):
                declared = declaration_of(path.name)
                is_output = declared is not None and declared.whose is not Whose.AS_GIVEN
                is_owned = not batches.keys().isdisjoint(path.parents)
                if path.is_file() and not (path.is_symlink() or is_output or is_owned):
                    run = batches.get(path)
                    batch = batch_name(path)[:80] if run is None else run.batch
                    yield DroppedFile(path, batch, screened)


@dataclass(slots=True)
class Named:
    """What a file has of a person."""

    # their rows by the known names of the columns, as far as they can be read
    rows: list[dict[str, str]] = field(default_factory=list, repr=False)
    anywhere: bool = False  # it names the person, in a row or elsewhere
    unread: bool = False  # nobody can tell whom it names


@dataclass(frozen=True, slots=True)
class AsGiven:
    """Finds a person in files as the lender gave them, whatever their format and headings."""

    ids: set[str] = field(repr=False)  # customer ids that mean the person
    own_bvn: Mapping[str, set[str]] = field(repr=False)  # whose every row is theirs
    values: Mapping[str, set[str]] = field(repr=False)  # identifiers by column

    def look(self, path: Path) -> Named:
        """Return what a file has of the person; nothing is changed.

        A row with an id under a heading that means one is of whoever has that id; any other row, or
        line, is theirs where it has their id or one of their identifiers.
        """
        found = Named()
        try:
            for known, cells in records_as_given(path):
                named = zip(known, cells, strict=False)
                row = {name: cell.strip() for name, cell in named if name}
                ids = {row.get(ID_COLUMN, "")} if row else {cell.strip() for cell in cells}
                is_open = not row.get(ID_COLUMN) and _mention(cells, self.values)
                if ids & self.ids or is_open or _mention(cells, self.own_bvn):
                    found.anywhere = True
                    found.rows += [row] if row else []
        except InputError:
            found.unread = not found.anywhere
        return found


def _mention(cells: Sequence[str], values: Mapping[str, set[str]]) -> bool:
    """Return whether a record as it came has one of some identifiers."""
    bvns, emails = values.get("bvn", set()), values.get("email", set())
    accounts = {each.rpartition("-")[2] for each in values.get("account", set())}
    phones = {each[-NATIONAL_DIGITS:] for each in values.get("phone", set())}
    for cell in cells:
        text = _BLANKS.sub("", cell)
        digits = _NOT_DIGITS.sub("", cell)
        if any(bvn in text for bvn in bvns) or text in accounts:
            return True
        if digits[-NATIONAL_DIGITS:] in phones or cell.strip().casefold() in emails:
            return True
    return False


# --- by what a person is known ---


IDENTIFYING = (ID_COLUMN, *(name for each in IDENTIFIERS.values() for name in each.columns))
_SHARED = ("bvn", "phone", "email", "domain")
_ACCOUNT = ("bank_code", "account_number")


@dataclass(frozen=True, slots=True)
class Whom:
    """Who is to be erased: a customer (in one batch name or in all), a BVN, or both."""

    # as the lender gives it; empty where only a BVN is given
    customer_id: str = field(default="", repr=False)
    batch: str = ""  # the batch name the customer is meant in; empty for every one
    # a BVN whose every row goes; empty where only a customer is given
    bvn: str = field(default="", repr=False)

    def named_in(self, batch: str) -> bool:
        """Return whether the customer's id means this person in a batch name."""
        return bool(self.customer_id) and self.batch in ("", batch)

    def rows_of(self, batch: str) -> RowFilter:
        """Return what finds this person's rows among rows in clear of a batch name."""
        ids = {(self.customer_id,)} if self.named_in(batch) else set()
        return RowFilter([((ID_COLUMN,), ids), (("bvn",), {(self.bvn,)} if self.bvn else set())])


@dataclass(slots=True)
class KnownPerson:
    """What is known of a person."""

    whom: Whom  # who is meant
    journal: Journal = field(repr=False)  # the journal, which makes pseudonyms
    # batch name and customer id of everything that is the person's
    customers: set[tuple[str, str]] = field(default_factory=set, repr=False)
    # the person's identifiers by column; an account as `bank-number`
    values: dict[str, set[str]] = field(default_factory=dict, repr=False)
    subjects: set[bytes] = field(default_factory=set, repr=False)  # pseudonyms of the identifiers

    @property
    def names(self) -> Pseudonyms:
        """Return what makes pseudonyms."""
        return self.journal.pseudonyms

    def pseudonyms(self) -> ErasedPseudonyms:
        """Return all pseudonyms of the person, those of the audit among them."""
        anywhere: dict[bytes, set[str]] = {}
        for batch, customer in self.customers:
            anywhere.setdefault(self.names.customers_anywhere([customer]), set()).add(batch)
        pulled = [name for name, batches in anywhere.items() if TRANSACTIONS in batches]
        mine = [self.names.customer(*each) for each in sorted(self.customers)]
        ids = {*(customer for _, customer in self.customers), self.whom.customer_id} - {""}
        audited = [Audit(self.journal).customer(each) for each in sorted(ids)]
        return ErasedPseudonyms({*self.subjects, *pulled}, [*mine, *pulled], anywhere, audited)

    def learn(self, rows: Iterable[Mapping[str, Any]], batch: str) -> None:
        """Learn the identifiers of some of the person's rows."""
        for row in rows:
            self.subjects.update(subjects_of([row], self.names))
            if row.get(ID_COLUMN):
                self.customers.add((batch, row[ID_COLUMN]))
            for name in _SHARED:
                if row.get(name):
                    self.values.setdefault(name, set()).add(row[name])
            if all(row.get(name) for name in _ACCOUNT):
                account = "-".join(row[name] for name in _ACCOUNT)
                self.values.setdefault("account", set()).add(account)

    def as_given(self, batch: str, ids: set[str] | None = None) -> AsGiven:
        """Return what finds the person in files as the lender gave them.

        Args:
            batch: the batch name that ids are of.
            ids: those that mean the person; all of the batch name where they are left out.
        """
        if ids is None:
            ids = {customer for name, customer in self.customers if name == batch}
        known = ids | ({self.whom.customer_id} if self.whom.named_in(batch) else set())
        return AsGiven(known, {"bvn": {self.whom.bvn} - {""}}, self.values)


@dataclass(frozen=True, slots=True)
class InRun:
    """By what the files of one run name a person."""

    run: RunRecord
    person: KnownPerson
    ids: set[str] = field(repr=False)  # customer ids that mean the person in the run's lists

    @classmethod
    def of(cls, run: RunRecord, person: KnownPerson) -> InRun:
        """Find the ids: a BVN may have been corrected, so an id with another one in this run stays.

        A run of loan outcomes has customers of every batch name.
        """
        anywhere = run.batch == OUTCOMES_BATCH
        ids = {customer for batch, customer in person.customers if anywhere or batch == run.batch}
        if person.whom.bvn and ids:
            mine = person.whom.rows_of(run.batch)
            named = RowFilter([((ID_COLUMN,), {(each,) for each in ids})])
            for part in parts_in_clear(run):
                rows = read_columns(part, IDENTIFYING)
                others = pc.and_(named.of_rows(rows), pc.invert(mine.of_rows(rows)))
                ids -= set(rows.filter(others)[ID_COLUMN].to_pylist())
        return cls(run, person, ids)

    def filter(self, whose: Whose) -> RowFilter | AsGiven:
        """Return what finds the person in a file of the run."""
        person, names, column = self.person, self.person.names, (whose.value,)
        if whose is Whose.IN_CLEAR:
            return person.whom.rows_of(self.run.batch)
        if whose is Whose.AS_GIVEN:
            return person.as_given(self.run.batch, self.ids)
        if whose is Whose.BY_CALL:
            subjects = person.pseudonyms().subjects
            return RowFilter([(column, {(each.hex(),) for each in subjects})])

        def named(batch: str, customer_id: str) -> list[str]:
            if whose is Whose.LISTED:
                return [customer_id]
            both = (names.customer(batch, customer_id), names.customers_anywhere([customer_id]))
            return [each.hex() for each in both]

        pairs = {(batch, each) for batch, one in person.customers for each in named(batch, one)}
        mine = {(each,) for one in self.ids for each in named(self.run.batch, one)}
        return RowFilter([(("batch", *column), pairs), (column, mine)])


def parts_in_clear(run: RunRecord) -> list[Path]:
    """Return the tables of a run that have identifiers in clear beside the customer's id."""
    declared = declared_as(Whose.IN_CLEAR)
    return [part for each in declared for part in each.files(Path(run.folder))]
