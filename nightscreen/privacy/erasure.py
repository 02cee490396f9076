"""Erase one person: find their rows and identifiers, then remove them from journal and outputs.

`find_person_data` finds everything and changes nothing; `erase` removes it, file by file as
`files/outputs.py` declares. The journal goes first, in one transaction. Unencrypted rows go last:
they link the person to their identifiers, so a second erasure after a crash finds whatever is left.
`person` knows how files name the person, `files/run_folder.py` rewrites them, `journal/erasure.py`
defines what a tombstone retains; `purging` deletes by age.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nightscreen.files.outputs import Erasing, Output, Whose, declared_as
from nightscreen.files.run_folder import RowFilter, RunFiles, read_columns, rows_in
from nightscreen.files.sealed_file import drop_sealed, sweep_workspaces
from nightscreen.journal.audit import Audit
from nightscreen.journal.consents import Consents
from nightscreen.journal.erasure import Erasures, Removed, scrub_database
from nightscreen.journal.identifier_history import Sightings
from nightscreen.journal.records import Records
from nightscreen.journal.schema import KINDS, TOMBSTONE
from nightscreen.privacy.given_files import DroppedFile, GivenFileMatcher, Named, dropped_files
from nightscreen.privacy.person import (
    IDENTIFYING,
    ErasureTarget,
    InRun,
    KnownPerson,
    parts_in_clear,
)
from nightscreen.privacy.purging import held_runs
from nightscreen.schemas.bvn import BvnRequest
from nightscreen.schemas.clock import instant_text
from nightscreen.schemas.consented import PULLS as TRANSACTIONS
from nightscreen.schemas.errors import InputError
from nightscreen.schemas.uploads import UPLOADS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from nightscreen.journal import Journal
    from nightscreen.journal.runs import RunRecord

ERASURE = "erasure"  # the manifest's reason why files were rewritten
ERASURE_BEGUN, ERASURE_ENDED = "erasure begun", "customer erased"  # actions in the audit
_ERASED_CELLS = {Whose.BY_CALL.value: TOMBSTONE.hex(), "consent_reference": None}
"""The cells of an erased person's calls."""


@dataclass(slots=True)
class ErasureScope:
    """Everything that is held about a person, found before anything is removed.

    Attributes:
        person: the person.
        runs: runs that still have a folder, oldest first.
        absent: the number of runs without a folder.
        rows: the number of the person's rows in files.
        in_runs: the runs that have such rows.
        whole: places of files that name the person and are deleted whole.
        unread: places of files that cannot be read and are therefore deleted whole.
        going: the files that are deleted whole.
        dropped: those of them in an inbox, outside any run's folder.
        held: the journal's data.
    """

    person: KnownPerson
    runs: list[RunRecord]
    absent: int
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

    def outputs(
        self, *whose: Whose
    ) -> Iterator[tuple[Path, Output, RunRecord, RowFilter | GivenFileMatcher]]:
        """Yield the files of runs, by declaration, each with a filter for the person's rows."""
        named = [InRun.of(run, self.person) for run in self.runs]
        for declared in declared_as(*whose):
            for each in named:
                mine = each.filter(declared.whose)
                for file in declared.files(Path(each.run.folder)):
                    yield file, declared, each.run, mine

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
        self.person.add_identifiers(named.rows, batch)
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
    person = KnownPerson(whom, journal)
    found = ErasureScope(person, there, len(runs) - len(there))
    if whom.customer_id:
        names = {*(run.batch for run in runs), TRANSACTIONS}
        person.customers = {(name, whom.customer_id) for name in names if whom.named_in(name)}
    if whom.bvn:
        person.values["bvn"] = {whom.bvn}
        person.subjects.add(journal.pseudonyms.subject("bvn", whom.bvn))
    _scan_clear(found)
    if whom.bvn:
        _resolve_bvn(journal, person)
    _scan_files(found, Whose.AS_GIVEN)
    for file in dropped_files(runs, inbox):
        _scan_dropped(file, found)
    _scan_files(found, Whose.LISTED, Whose.BY_PSEUDONYM)
    _recall(journal, person)
    found.held = Erasures(journal).held_of(person.pseudonyms())
    if not found.anything:
        raise InputError(
            "nothing is held of this person; write the customer_id as the file has it, leading "
            "zeros included, or give the BVN"
        )
    _refuse_held(journal, found)
    return found


def _scan_clear(found: ErasureScope) -> None:
    """Add the person's identifiers from unencrypted rows."""
    for run in found.runs:
        mine = found.person.whom.rows_of(run.batch)
        for part in parts_in_clear(run):
            rows = read_columns(part, IDENTIFYING)
            theirs = rows.filter(mine.of_rows(rows)).to_pylist()
            found.person.add_identifiers(theirs, run.batch)
            found.rows += len(theirs)
            found.in_runs.update([run.run_id] if theirs else [])


def _scan_files(found: ErasureScope, *whose: Whose) -> None:
    """Count the person's rows in files of runs, and add identifiers from lenders' files."""
    for file, declared, run, mine in found.outputs(*whose):
        place = f"{run.run_id}/{declared.pattern}"
        if isinstance(mine, GivenFileMatcher):
            others = not declared.section and _has_only_others(run, found)
            number = int(not others and found.scan_given(file, mine, place, run.batch))
        elif declared.erasing is not Erasing.DELETE:
            number = mine.count(file)
            found.rows += number
        else:
            parts = parts_in_clear(run)  # a refused row is not in a workbook
            known = run.run_id in found.in_runs and any(map(mine.count, parts))
            goes = Named(anywhere=known, unread=not parts)
            number = int(found.add_match(file, goes, place))
        if number:
            found.in_runs.add(run.run_id)


def _resolve_bvn(journal: Journal, person: KnownPerson) -> None:
    """Find the customers of a BVN, whose consents, pulls and cash flow have only customer ids.

    They are the customers with that BVN in rows or BVN requests, and those who consented and were
    seen with it. A customer who was last seen with another BVN is not this person.
    """
    bvn = journal.pseudonyms.subject("bvn", person.whom.bvn)
    last = Sightings(journal).last_seen_with("bvn", bvn)
    requests = Records(journal, BvnRequest).of_subjects([bvn])
    ids = {customer for _, customer in person.customers}
    ids |= {each.held.customer_id for each in requests}
    ids |= {each.customer_id for each in Consents(journal).grants() if last.get(each.customer)}
    for customer_id in ids:
        if last.get(journal.pseudonyms.customers_anywhere([customer_id]), True):
            person.customers.add((TRANSACTIONS, customer_id))


def _has_only_others(run: RunRecord, found: ErasureScope) -> bool:
    """Return whether a run's results have all rows of its input, and none of the person.

    Its input is then not read: reading all inputs again takes longer than everything else.
    """
    if run.run_id in found.in_runs or not parts_in_clear(run):
        return False
    refused = ((run.report or {}).get("rows") or {}).get("quarantined", 1)
    quarantines = (each for each in declared_as(Whose.AS_GIVEN) if each.section)
    return not refused or any(each.files(Path(run.folder)) for each in quarantines)


def _scan_dropped(file: DroppedFile, found: ErasureScope) -> None:
    """Scan a file of an inbox.

    Raises:
        InputError: it names the person and has not been screened yet.
    """
    mine = found.person.as_given(file.batch)
    if file.screened:
        if found.scan_given(file.path, mine, file.place, file.batch):
            found.dropped.append(file.path)
    elif mine.scan(file.path).anywhere:
        raise InputError(
            "a file in the inbox that is not screened yet names this person: take it out, or their "
            "rows out of it, or let it be screened; then erase again"
        )


def _recall(journal: Journal, person: KnownPerson) -> None:
    """Add the identifiers that the journal has seen with the person, even if no file has them."""
    for name, batches in person.pseudonyms().anywhere.items():
        seen = Sightings(journal).of_customers([name], batches)
        person.subjects.update(each.identifier for each in seen)
        for model in KINDS:
            if model.everywhere:
                held = Records(journal, model).of_customers([name])
                person.subjects.update(*(each.subjects for each in held if each.batch in batches))


def _refuse_held(journal: Journal, found: ErasureScope) -> None:
    batches = {batch for batch, _ in found.person.customers}
    held = held_runs(journal)
    for run in found.runs:
        unknown = not parts_in_clear(run) and run.batch in batches
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
    Erasures(journal).erase(found.person.pseudonyms())
    emptied = not more and scrub_database(journal)
    sweep_workspaces(journal.home, journal.holders.alive)
    drop_sealed(journal.home / UPLOADS)
    resting = [run for run in found.runs if not journal.runs.held_elsewhere(run.run_id)]
    folders = {run.run_id: RunFiles.of(Path(run.folder), ERASURE) for run in resting}
    for folder in folders.values():
        folder.sweep()
    found.runs = resting
    _remove_from_files(
        found, folders, Whose.LISTED, Whose.BY_PSEUDONYM, Whose.BY_CALL, Whose.AS_GIVEN
    )
    in_inbox = [path for path in found.dropped if path.exists()]
    for path in in_inbox:
        path.unlink()
    _remove_from_files(found, folders, Whose.IN_CLEAR)  # last: they identify the others
    at = instant_text(journal.clock()) or ""
    files = len(in_inbox) + sum(folder.finish(at) for folder in folders.values())
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
        if isinstance(mine, GivenFileMatcher) or declared.erasing is Erasing.DELETE:
            folder.remove({file} & found.going)
        elif declared.erasing is Erasing.BLANK:
            folder.blank(file, mine, _ERASED_CELLS)
        elif folder.drop(file, mine) and declared.beside and not rows_in(file):
            file.unlink()
