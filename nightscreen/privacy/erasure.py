"""Erase one person: find their rows and identifiers, then remove them from journal and outputs.

`find_person_data` finds everything and changes nothing; `erase` removes it, file by file as
`files/outputs.py` declares. The journal goes first, in one transaction. Unencrypted rows go last:
they link the person to their identifiers, so a second erasure after a crash finds what is left.
`given_files` reads the lender's own files, `files/run_folder.py` rewrites ours. What a tombstone
retains is defined by `journal/erasure.py`; `purging` deletes by age.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from nightscreen.files.outputs import Output, Whose, declared_as
from nightscreen.files.run_folder import (
    RowFilter,
    RunFiles,
    read_columns,
    rows_in,
    sweep_partial_files,
)
from nightscreen.files.sealed_file import drop_sealed, sweep_workspaces
from nightscreen.journal.audit import Audit
from nightscreen.journal.consents import Consents
from nightscreen.journal.customers import Sightings
from nightscreen.journal.erasure import Erasures, Removed, scrub_database
from nightscreen.journal.records import Records
from nightscreen.journal.schema import KINDS, TOMBSTONE, ErasedPseudonyms
from nightscreen.privacy.given_files import (
    ID_COLUMN,
    SEARCHED,
    GivenFileMatcher,
    Named,
    dropped_files,
    is_searchable,
)
from nightscreen.privacy.lookup_subject import subjects_of
from nightscreen.privacy.purging import held_runs
from nightscreen.reading.mapping_file import read_mapping
from nightscreen.schemas.bvn import BvnRequest
from nightscreen.schemas.columns import CUSTOMERS, IDENTIFIERS, LOAN_DAYS
from nightscreen.schemas.consented import PULLS as TRANSACTIONS
from nightscreen.schemas.errors import InputError, SettingsError
from nightscreen.schemas.outcomes import OUTCOMES_BATCH, OUTCOMES_FLOW
from nightscreen.schemas.uploads import UPLOADS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from nightscreen.journal import Journal
    from nightscreen.journal.runs import RunRecord

ERASURE = "erasure"  # the manifest's reason why files were rewritten
ERASURE_BEGUN, ERASURE_ENDED = "erasure begun", "customer erased"  # actions in the audit
_ERASED_CELLS = {Whose.BY_CALL.value: TOMBSTONE.hex(), "consent_reference": None}
"""The cells of an erased person's calls."""
_IDENTIFYING = (ID_COLUMN, *(name for each in IDENTIFIERS.values() for name in each.columns))


@dataclass(frozen=True, slots=True)
class ErasureTarget:
    """The person to erase: a customer (in one batch or in all), a BVN, or both."""

    # as the lender gives it; empty if only a BVN is given
    customer_id: str = field(default="", repr=False)
    batch: str = ""  # the batch of the customer; empty for every one
    # every row with this BVN is erased; empty if only a customer is given
    bvn: str = field(default="", repr=False)

    def named_in(self, batch: str) -> bool:
        """Return whether the customer id is this person's in a batch."""
        return bool(self.customer_id) and self.batch in ("", batch)

    def rows_of(self, batch: str) -> RowFilter:
        """Return a filter for this person among unencrypted rows of a batch."""
        ids = {(self.customer_id,)} if self.named_in(batch) else set()
        return RowFilter([((ID_COLUMN,), ids), (("bvn",), {(self.bvn,)} if self.bvn else set())])


@dataclass(slots=True)
class ErasureScope:
    """A person's known identifiers, and everything held about them, before anything is removed.

    Attributes:
        journal: the journal, which makes pseudonyms.
        whom: the person to erase.
        runs: runs that still have a folder, oldest first.
        absent: the number of runs without a folder.
        customers: batch and customer id of the person's data.
        values: the person's identifiers, by the columns of `SEARCHED`.
        subjects: pseudonyms of all identifiers.
        rows: the number of the person's rows in files.
        in_runs: the runs that have such rows.
        whole: places of files that name the person and are deleted whole.
        unread: places of files that cannot be read and are therefore deleted whole.
        going: the files that are deleted whole.
        dropped: those of them in an inbox, outside any run's folder.
        held: the journal's data.
    """

    journal: Journal = field(repr=False)
    whom: ErasureTarget
    runs: list[RunRecord]
    absent: int
    customers: set[tuple[str, str]] = field(default_factory=set, repr=False)
    values: dict[str, set[str]] = field(default_factory=dict, repr=False)
    subjects: set[bytes] = field(default_factory=set, repr=False)
    rows: int = 0
    in_runs: set[str] = field(default_factory=set)
    whole: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    going: set[Path] = field(default_factory=set, repr=False)
    dropped: list[Path] = field(default_factory=list, repr=False)
    held: Removed = field(default_factory=Removed)

    @property
    def anything(self) -> bool:
        """Return whether anything is held about the person; unreadable files do not count."""
        return bool(self.rows or self.whole or any(self.held))

    def document(self) -> dict[str, Any]:
        """Return what would be erased as a JSON document without personal data."""
        return {
            **self.held.numbers(),
            "runs": len(self.in_runs),
            "absent_folders": self.absent,
            "rows": self.rows,
            "removed_whole": self.whole,
            "removed_unread": self.unread,
        }

    # --- identifiers ---

    def pseudonyms(self) -> ErasedPseudonyms:
        """Return all pseudonyms of the person, including those in the audit."""
        names = self.journal.pseudonyms
        anywhere: dict[bytes, set[str]] = {}
        for batch, customer in self.customers:
            anywhere.setdefault(names.customers_anywhere([customer]), set()).add(batch)
        pulled = [name for name, batches in anywhere.items() if TRANSACTIONS in batches]
        mine = [names.customer(*each) for each in sorted(self.customers)]
        ids = {*(customer for _, customer in self.customers), self.whom.customer_id} - {""}
        audited = [Audit(self.journal).customer(each) for each in sorted(ids)]
        return ErasedPseudonyms({*self.subjects, *pulled}, [*mine, *pulled], anywhere, audited)

    def add_identifiers(self, rows: Iterable[Mapping[str, Any]], batch: str) -> None:
        """Add the identifiers in some of the person's rows."""
        for row in rows:
            self.subjects.update(subjects_of([row], self.journal.pseudonyms))
            if row.get(ID_COLUMN):
                self.customers.add((batch, row[ID_COLUMN]))
            for name in SEARCHED:
                if (value := row.get(name)) and is_searchable(name, value):
                    self.values.setdefault(name, set()).add(value)

    def ids_in(self, run: RunRecord) -> set[str]:
        """Return the customer ids in a run, except ids that have another BVN there.

        The BVN may have been corrected. A run of loan outcomes has customers of every batch.
        """
        anywhere = run.batch == OUTCOMES_BATCH
        ids = {customer for batch, customer in self.customers if anywhere or batch == run.batch}
        if self.whom.bvn and ids:
            mine = self.whom.rows_of(run.batch)
            named = RowFilter([((ID_COLUMN,), {(each,) for each in ids})])
            for part in _parts_in_clear(run):
                rows = read_columns(part, _IDENTIFYING)
                others = pc.and_(named.of_rows(rows), pc.invert(mine.of_rows(rows)))
                ids -= set(rows.filter(others)[ID_COLUMN].to_pylist())
        return ids

    # --- files ---

    def outputs(
        self, *whose: Whose
    ) -> Iterator[tuple[Path, Output, RunRecord, RowFilter | GivenFileMatcher]]:
        """Yield the files of runs, by declaration, each with a filter for the person's rows."""
        named = [(run, self.ids_in(run)) for run in self.runs]
        for declared in declared_as(*whose):
            for run, ids in named:
                mine = self._filter(declared.whose, run, ids)
                for file in declared.files(Path(run.folder)):
                    yield file, declared, run, mine

    def _filter(self, whose: Whose, run: RunRecord, ids: set[str]) -> RowFilter | GivenFileMatcher:
        """Return a filter for the person, who has some customer ids, in a file of a run."""
        names, column = self.journal.pseudonyms, (whose.value,)
        if whose is Whose.IN_CLEAR:
            return self.whom.rows_of(run.batch)
        if whose is Whose.AS_GIVEN:
            return self.matcher(run.batch, ids, run)
        if whose is Whose.BY_CALL:
            subjects = self.pseudonyms().subjects
            return RowFilter([(column, {(each.hex(),) for each in subjects})])

        def named(batch: str, customer_id: str) -> list[str]:
            if whose is Whose.LISTED:
                return [customer_id]
            both = (names.customer(batch, customer_id), names.customers_anywhere([customer_id]))
            return [each.hex() for each in both]

        pairs = {(batch, each) for batch, one in self.customers for each in named(batch, one)}
        mine = {(each,) for one in ids for each in named(run.batch, one)}
        return RowFilter([(("batch", *column), pairs), (column, mine)])

    def matcher(self, batch: str, ids: set[str], run: RunRecord | None = None) -> GivenFileMatcher:
        """Return a matcher for the person, by customer ids of a batch, in a lender's own file.

        `run` is the run that read the file, if one did.
        """
        known = ids | ({self.whom.customer_id} if self.whom.named_in(batch) else set())
        kind = LOAN_DAYS if run is not None and run.flow == OUTCOMES_FLOW else CUSTOMERS
        mapping = None
        with suppress(SettingsError):  # the lender may have moved it since
            if run is not None and (given := run.parameters.get("mapping")):
                mapping = read_mapping(Path(given), kind)
        return GivenFileMatcher(known, {"bvn": {self.whom.bvn} - {""}}, self.values, kind, mapping)

    def add_match(self, file: Path, named: Named, place: str) -> bool:
        """Add a file to those deleted whole if it must be; return whether it is."""
        self.rows += len(named.rows)
        self.whole += [place] if named.anywhere else []
        self.unread += [place] if named.unread else []
        self.going.update([file] if named.anywhere or named.unread else [])
        return file in self.going

    def scan_given(self, file: Path, mine: GivenFileMatcher, place: str, batch: str) -> bool:
        """Add the person's identifiers in a lender's file; return whether the file goes."""
        named = mine.scan(file)
        self.add_identifiers(named.rows, batch)
        return self.add_match(file, named, place)


def find_person_data(
    journal: Journal, whom: ErasureTarget, *, inbox: Path | None = None
) -> ErasureScope:
    """Find everything that is held about a person, without changing anything.

    The journal knows the inboxes that runs came from; `inbox` is the current one.

    Raises:
        InputError: nothing is held, a run is under way, a waiting file of the inbox names the
            person, or a run that involves them is under legal hold.
    """
    runs = journal.runs.newest(limit=None)[::-1]
    with journal.database.reading() as connection:
        Erasures(journal).require_rest(connection)
    there = [run for run in runs if Path(run.folder).is_dir()]
    found = ErasureScope(journal, whom, there, len(runs) - len(there))
    names = {*(run.batch for run in runs), TRANSACTIONS}
    found.customers = {(name, whom.customer_id) for name in names if whom.named_in(name)}
    if whom.bvn:
        found.values["bvn"] = {whom.bvn}
        found.subjects.add(journal.pseudonyms.subject("bvn", whom.bvn))
    for run in there:
        mine = whom.rows_of(run.batch)
        for part in _parts_in_clear(run):
            rows = read_columns(part, _IDENTIFYING)
            theirs = rows.filter(mine.of_rows(rows)).to_pylist()
            found.add_identifiers(theirs, run.batch)
            found.rows += len(theirs)
            found.in_runs.update([run.run_id] if theirs else [])
    if whom.bvn:
        _resolve_bvn(journal, found)
    _scan_files(found, Whose.AS_GIVEN)
    for path, batch, screened in dropped_files(runs, inbox):
        matcher = found.matcher(batch, {each for name, each in found.customers if name == batch})
        if screened:  # its own name may contain personal data
            folder = "/".join(path.parent.parts[-2:])
            found.dropped += [path] if found.scan_given(path, matcher, folder, batch) else []
        elif matcher.scan(path).anywhere:
            raise InputError(
                "a file in the inbox that is not screened yet names this person: take it out, or "
                "their rows out of it, or let it be screened; then erase again"
            )
    _scan_files(found, Whose.LISTED, Whose.BY_PSEUDONYM)
    _recall(journal, found)
    found.held = Erasures(journal).held_of(found.pseudonyms())
    if not found.anything:
        raise InputError(
            "nothing is held of this person; write the customer_id as the file has it, leading "
            "zeros included, or give the BVN"
        )
    _refuse_held(journal, found)
    return found


def _parts_in_clear(run: RunRecord) -> list[Path]:
    """Return the tables of a run with customer ids and unencrypted identifiers."""
    declared = declared_as(Whose.IN_CLEAR)
    return [part for each in declared for part in each.files(Path(run.folder))]


def _scan_files(found: ErasureScope, *whose: Whose) -> None:
    """Count the person's rows in files of runs, and add identifiers from lenders' files."""
    for file, declared, run, mine in found.outputs(*whose):
        place = f"{run.run_id}/{declared.pattern}"
        if isinstance(mine, GivenFileMatcher):
            others = not declared.section and _has_only_others(run, found)
            number = int(not others and found.scan_given(file, mine, place, run.batch))
        elif not declared.erased_whole:
            number = mine.count(file)
            found.rows += number
        else:
            parts = _parts_in_clear(run)  # a refused row is not in a workbook
            known = run.run_id in found.in_runs and any(map(mine.count, parts))
            goes = Named(anywhere=known, unread=not parts)
            number = int(found.add_match(file, goes, place))
        if number:
            found.in_runs.add(run.run_id)


def _resolve_bvn(journal: Journal, found: ErasureScope) -> None:
    """Find the customers of a BVN, whose consents, pulls and cash flow have only customer ids.

    They are the customers with that BVN in rows or BVN requests, and those who consented and were
    seen with it. A customer who was last seen with another BVN is not this person.
    """
    bvn = journal.pseudonyms.subject("bvn", found.whom.bvn)
    last = Sightings(journal).last_seen_with("bvn", bvn)
    requests = Records(journal, BvnRequest).of_subjects([bvn])
    ids = {customer for _, customer in found.customers}
    ids |= {each.customer_id for each in requests}
    ids |= {each.customer_id for each in Consents(journal).grants() if last.get(each.customer)}
    for customer_id in ids:
        if last.get(journal.pseudonyms.customers_anywhere([customer_id]), True):
            found.customers.add((TRANSACTIONS, customer_id))


def _has_only_others(run: RunRecord, found: ErasureScope) -> bool:
    """Return whether a run's results have all rows of its input, and none of the person.

    Its input is then not read: reading all inputs again takes longer than everything else.
    """
    if run.run_id in found.in_runs or not _parts_in_clear(run):
        return False
    refused = ((run.report or {}).get("rows") or {}).get("quarantined", 1)
    quarantines = (each for each in declared_as(Whose.AS_GIVEN) if each.section)
    return not refused or any(each.files(Path(run.folder)) for each in quarantines)


def _recall(journal: Journal, found: ErasureScope) -> None:
    """Add the identifiers that the journal has seen with the person, even if no file has them."""
    for name, batches in found.pseudonyms().anywhere.items():
        seen = Sightings(journal).of_customers([name], batches)
        found.subjects.update(each.identifier for each in seen)
        for model in KINDS:
            if model.everywhere:
                held = Records(journal, model).of_customers([name])
                found.subjects.update(*(each.subjects for each in held if each.batch in batches))


def _refuse_held(journal: Journal, found: ErasureScope) -> None:
    batches = {batch for batch, _ in found.customers}
    held = held_runs(journal)
    for run in found.runs:
        unknown = not _parts_in_clear(run) and run.batch in batches
        if run.run_id in held and (run.run_id in found.in_runs or unknown):
            raise InputError(
                f"run {run.run_id} is under legal hold and involves this person; a hold goes "
                f"first: nightscreen purge --release {run.run_id}"
            )


def erase(journal: Journal, found: ErasureScope, *, more: bool = False) -> dict[str, Any]:
    """Erase a person; return what was removed, as numbers only.

    Args:
        journal: the journal.
        found: the result of `find_person_data`.
        more: other persons follow, and the caller scrubs the journal's file once at the end
            (`scrub_database`).

    Raises:
        InputError: a run has started meanwhile; erase again after it.
        OutputError: a file cannot be rewritten; erase again when that is fixed.
    """
    journal.calls.recover()
    audit = Audit(journal)
    # first, so that the audit shows an erasure that is interrupted at any point
    audit.write_by_command(ERASURE_BEGUN, **found.held.numbers())
    Erasures(journal).erase(found.pseudonyms())
    emptied = not more and scrub_database(journal)
    sweep_workspaces(journal.home, journal.holders.alive)
    drop_sealed(journal.home / UPLOADS)
    resting = [run for run in found.runs if not journal.runs.held_elsewhere(run.run_id)]
    folders = {run.run_id: RunFiles.of(Path(run.folder), ERASURE) for run in resting}
    for folder in folders.values():
        sweep_partial_files(folder.path)
    found.runs = resting
    _remove_from_files(
        found, folders, Whose.LISTED, Whose.BY_PSEUDONYM, Whose.BY_CALL, Whose.AS_GIVEN
    )
    in_inbox = [path for path in found.dropped if path.exists()]
    for path in in_inbox:
        path.unlink()
    _remove_from_files(found, folders, Whose.IN_CLEAR)  # last: they identify the others
    files = len(in_inbox) + sum(folder.finish(journal.clock()) for folder in folders.values())
    for run_id in found.in_runs - folders.keys():
        raise InputError(
            f"run {run_id} was resumed meanwhile, so that its files were left as they are; erase "
            "again after it"
        )
    audit.write_by_command(ERASURE_ENDED, rows=found.rows, answers=found.held.answers, files=files)
    return {**found.document(), "files": files, "log_emptied": emptied}


def _remove_from_files(found: ErasureScope, folders: Mapping[str, RunFiles], *whose: Whose) -> None:
    """Remove the person from files of runs."""
    for file, declared, run, mine in found.outputs(*whose):
        folder = folders[run.run_id]
        if isinstance(mine, GivenFileMatcher) or declared.erased_whole:
            folder.remove({file} & found.going)
        elif declared.whose is Whose.BY_CALL:
            folder.blank(file, mine, _ERASED_CELLS)
        elif folder.drop(file, mine) and declared.beside and not rows_in(file):
            file.unlink()
