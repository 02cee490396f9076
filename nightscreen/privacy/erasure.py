"""Erasing one person: whose rows and identifiers they are, then journal and past outputs in turn.

`find_person_data` finds everything and changes nothing; `erase` removes it, file by file as
`files/outputs.py` declares them. The journal goes first, in one transaction; rows in clear, which
tell whose identifiers are meant, go last, so that after a crash erasing again finds what is left.
By what a file names the person is in `person`, how it is rewritten in `files/run_folder.py`, what a
tombstone keeps in `journal/erasure.py`; retention by age is `purging`.
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

ERASURE = "erasure"  # why files were rewritten, as their manifest says
ERASURE_BEGUN, ERASURE_ENDED = "erasure begun", "customer erased"  # what the audit says
_NAMELESS = {Whose.BY_CALL.value: TOMBSTONE.hex(), "consent_reference": None}
"""What stands in the calls of an erased person."""


@dataclass(slots=True)
class ErasureScope:
    """All that is known of a person before anything is removed.

    Attributes:
        person: who they are.
        runs: runs whose folder is there, oldest first.
        absent: how many runs have no folder any more.
        rows: the person's rows in files.
        in_runs: the runs that have such rows.
        whole: where files lie that name the person, and go whole.
        unread: where files lie that nobody can read, and so go whole.
        going: the files that go whole.
        dropped: those of them that lie in an inbox, and in no run's folder.
        held: what the journal holds.
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
        """Return whether anything is held of the person; what nobody can read tells of nobody."""
        return bool(self.rows or self.whole or any(self.held))

    def document(self) -> dict[str, Any]:
        """Return what would go as JSON has it; nothing in it is personal."""
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
        """Yield the files of runs, one declaration after the other, and what is theirs in each."""
        named = [InRun.of(run, self.person) for run in self.runs]
        for declared in declared_as(*whose):
            for each in named:
                mine = each.filter(declared.whose)
                for file in declared.files(Path(each.run.folder)):
                    yield file, declared, each.run, mine

    def add_match(self, file: Path, named: Named, place: str) -> bool:
        """Note a file that goes whole, if it does; tell whether."""
        self.rows += len(named.rows)
        self.whole += [place] if named.anywhere else []
        self.unread += [place] if named.unread else []
        self.going.update([file] if named.anywhere or named.unread else [])
        return file in self.going

    def scan_given(self, file: Path, mine: GivenFileMatcher, place: str, batch: str) -> bool:
        """Learn the person's identifiers of a file as it was given; tell whether it goes."""
        named = mine.scan(file)
        self.person.add_identifiers(named.rows, batch)
        return self.add_match(file, named, place)


def find_person_data(
    journal: Journal, whom: ErasureTarget, *, inbox: Path | None = None
) -> ErasureScope:
    """Find all that is held of a person; nothing is changed.

    The inboxes that runs came from are known; the present one is given.

    Raises:
        InputError: nothing is held, a run is under way, a file of the inbox that waits names the
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
    """Learn the person's identifiers from rows in clear."""
    for run in found.runs:
        mine = found.person.whom.rows_of(run.batch)
        for part in parts_in_clear(run):
            rows = read_columns(part, IDENTIFYING)
            theirs = rows.filter(mine.of_rows(rows)).to_pylist()
            found.person.add_identifiers(theirs, run.batch)
            found.rows += len(theirs)
            found.in_runs.update([run.run_id] if theirs else [])


def _scan_files(found: ErasureScope, *whose: Whose) -> None:
    """Count what is the person's in files of runs, and learn what those as given tell of them."""
    for file, declared, run, mine in found.outputs(*whose):
        place = f"{run.run_id}/{declared.pattern}"
        if isinstance(mine, GivenFileMatcher):
            others = not declared.section and _has_only_others(run, found)
            number = int(not others and found.scan_given(file, mine, place, run.batch))
        elif declared.erasing is not Erasing.DELETE:
            number = mine.count(file)
            found.rows += number
        else:
            parts = parts_in_clear(run)  # who was only refused has no line in a workbook
            known = run.run_id in found.in_runs and any(map(mine.count, parts))
            goes = Named(anywhere=known, unread=not parts)
            number = int(found.add_match(file, goes, place))
        if number:
            found.in_runs.add(run.run_id)


def _resolve_bvn(journal: Journal, person: KnownPerson) -> None:
    """Find whose consents, pulls and cash flow go: they name customers by their ids alone.

    They are those that rows or BVN requests give the BVN, or that consented and were seen with it;
    a customer who was last seen with another BVN is not the one who is meant.
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
    """Return whether all rows of a run's input are in its results, and none is the person's.

    Then the input is not read: reading every one again takes longer than all the rest.
    """
    if run.run_id in found.in_runs or not parts_in_clear(run):
        return False
    refused = ((run.report or {}).get("rows") or {}).get("quarantined", 1)
    quarantines = (each for each in declared_as(Whose.AS_GIVEN) if each.section)
    return not refused or any(each.files(Path(run.folder)) for each in quarantines)


def _scan_dropped(file: DroppedFile, found: ErasureScope) -> None:
    """Look into a file of an inbox.

    Raises:
        InputError: it names the person, and is not screened yet.
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
    """Learn the identifiers that the person was once seen with, also where no file tells them."""
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
    """Erase a person; return what went, in numbers alone.

    Args:
        journal: the journal.
        found: what `find_person_data` found.
        more: others are erased after this one, and the caller empties the journal's file of all of
            them together (`scrub_database`).

    Raises:
        InputError: a run has begun meanwhile; erase again after it.
        OutputError: a file cannot be rewritten; erase again once that is mended.
    """
    journal.calls.recover()
    audit = Audit(journal)
    # first, so that an erasure that is cut short anywhere is known to have begun
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
    beside = [path for path in found.dropped if path.exists()]
    for path in beside:
        path.unlink()
    _remove_from_files(found, folders, Whose.IN_CLEAR)  # last: they tell whose the others are
    at = instant_text(journal.clock()) or ""
    files = len(beside) + sum(folder.finish(at) for folder in folders.values())
    for run_id in found.in_runs - folders.keys():
        raise InputError(
            f"run {run_id} was resumed meanwhile, so that its files were left as they are; erase "
            "again after it"
        )
    audit.write_by_command(ERASURE_ENDED, rows=found.rows, answers=found.held.answers, files=files)
    return {**found.document(), "files": files, "log_emptied": emptied}


def _remove_from_files(found: ErasureScope, folders: Mapping[str, RunFiles], *whose: Whose) -> None:
    """Take the person out of files of runs."""
    for file, declared, run, mine in found.outputs(*whose):
        folder = folders[run.run_id]
        if isinstance(mine, GivenFileMatcher) or declared.erasing is Erasing.DELETE:
            folder.remove({file} & found.going)
        elif declared.erasing is Erasing.BLANK:
            folder.blank(file, mine, _NAMELESS)
        elif folder.drop(file, mine) and declared.beside and not rows_in(file):
            file.unlink()
