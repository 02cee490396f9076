"""People who were declined and never lent to: what is in clear of them goes sooner than the rest.

`find_declined` says who they are and changes nothing. Their rows lead to their identifiers, so the
journal's answers go first and the rows last: after a crash the next purge finds what is left.
What was decided of them, notices and consents stay, each for its own period.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from nightscreen.files.inbox import INPUT
from nightscreen.files.outputs import enriched_parts
from nightscreen.journal.erasure import Erasures
from nightscreen.journal.grant_tables import customers_who_consent
from nightscreen.journal.identifier_history import Sightings
from nightscreen.journal.loan_offers import LoanOffers
from nightscreen.journal.records import Records
from nightscreen.journal.reviews import Reviews
from nightscreen.operations.bvn.table import PARTS as BVN_PARTS
from nightscreen.privacy.erasure import IDENTIFYING
from nightscreen.privacy.erasure_files import is_in
from nightscreen.privacy.lookup_subject import subjects_of
from nightscreen.results.run_files import ID_COLUMN, matching_rows, read_columns, typed_parts
from nightscreen.schemas.cashflow import CASHFLOW_FILE
from nightscreen.schemas.checks import IdentityKind, Purpose
from nightscreen.schemas.contests import Contest, ContestState
from nightscreen.schemas.outcomes import LoanOutcome, LoanStanding
from nightscreen.schemas.policy import Decision

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from nightscreen.journal import Journal
    from nightscreen.journal.runs import RunRecord
    from nightscreen.results.run_files import RunFiles

_COLUMNS = (*IDENTIFYING, "decision")


@dataclass(frozen=True, slots=True)
class Declined:
    """Who was declined long ago and never lent to, and what goes of them.

    Attributes:
        ids: customers' ids.
        transacting: those of them whose transactions go too: no consent of theirs stands.
        subjects: pseudonyms of identifiers that nobody else has.
        customers: pseudonyms of `transacting`, one for all batch names.
        answers: how many answers go.
        rows: how many rows in clear go.
        runs: the runs whose files have them.
    """

    ids: frozenset[str] = field(default=frozenset(), repr=False)
    transacting: frozenset[str] = field(default=frozenset(), repr=False)
    subjects: tuple[bytes, ...] = field(default=(), repr=False)
    customers: tuple[bytes, ...] = field(default=(), repr=False)
    answers: int = 0
    rows: int = 0
    runs: tuple[RunRecord, ...] = ()


def find_declined(journal: Journal, runs: Sequence[RunRecord], before: int) -> Declined:
    """Return who was last declined before an instant and, as far as is known, never lent to.

    Args:
        journal: the journal.
        runs: every run, oldest first; none is under way or under legal hold.
        before: the instant.
    """
    applied = [run for run in runs if run.purpose == Purpose.ORIGINATION]
    found: dict[str, list[dict[str, Any]]] = {}
    for run in applied:
        if _ended(run) < before:
            for _, rows in _enriched(run):
                declined = rows.filter(pc.equal(rows["decision"], Decision.DECLINE.value))
                found.update((each, []) for each in declined[ID_COLUMN].to_pylist())
    if not found:
        return Declined()
    lately: set[str] = set()
    last: dict[str, str] = {}
    for run in applied:
        for _, rows in _enriched(run):
            for row in rows.filter(is_in(rows[ID_COLUMN], found)).to_pylist():
                found[row[ID_COLUMN]].append({**row, "batch": run.batch})
                last[row[ID_COLUMN]] = row["decision"]
                if _ended(run) >= before:
                    lately.add(row[ID_COLUMN])
    people = {
        customer: rows
        for customer, rows in found.items()
        if last.get(customer) == Decision.DECLINE.value and customer not in lately
    }
    for customer in _kept_by_a_person(journal, people, before) | _lent_to(journal, runs, people):
        del people[customer]
    return _going(journal, runs, people)


def _ended(run: RunRecord) -> int:
    return run.finished_at or run.started_at


def _enriched(run: RunRecord) -> Iterator[tuple[Path, pa.Table]]:
    for part in enriched_parts(Path(run.folder)):
        yield part, read_columns(part, _COLUMNS)


def _kept_by_a_person(
    journal: Journal, people: Mapping[str, Sequence[Mapping[str, Any]]], before: int
) -> set[str]:
    """Return whom a reviewer approved or judged since, and whose contest waits for an answer."""
    reviews = Reviews.of(journal)
    waiting = Records.of(journal, Contest).all(state=ContestState.OPEN.value)
    contesting = {each.customer for each in waiting}
    kept = set()
    for customer, rows in people.items():
        for batch in {row["batch"] for row in rows}:
            pseudonym = journal.pseudonyms.customer(batch, customer)
            judged = any(
                each.decision == Decision.APPROVE.value or each.at >= before
                for each in reviews.of_customer(pseudonym)
            )
            if judged or pseudonym in contesting:
                kept.add(customer)
    return kept


def _lent_to(
    journal: Journal, runs: Sequence[RunRecord], people: Mapping[str, Sequence[Mapping[str, Any]]]
) -> set[str]:
    """Return who has or had a loan, as far as is known: an offer, a loan book, or a portfolio.

    Somebody stands in a portfolio under the same id, or under another one with the same BVN.
    """
    anywhere = {_anywhere(journal, customer): customer for customer in people}
    offered = {each.customer for each in LoanOffers.of(journal).of_customers(anywhere)}
    booked = {
        each.customer
        for each in Records.of(journal, LoanOutcome).of_customers(anywhere)
        if each.last.standing is not LoanStanding.NOT_LENT
    }
    found = {anywhere[each] for each in offered | booked}
    portfolios = {run.batch for run in runs if run.purpose == Purpose.PORTFOLIO}
    owners: dict[bytes, set[str]] = {}
    for customer, rows in people.items():
        for subject in subjects_of(rows, journal.pseudonyms):
            owners.setdefault(subject, set()).add(customer)
    for seen in Sightings.of(journal).with_identifiers(sorted(owners)):
        if seen.batch not in portfolios:
            continue
        if seen.kind == IdentityKind.BVN.value:
            found |= owners[seen.identifier]
        elif anywhere.get(seen.customer) in owners[seen.identifier]:
            found.add(anywhere[seen.customer])
    return found


def _going(
    journal: Journal, runs: Sequence[RunRecord], people: Mapping[str, Sequence[Mapping[str, Any]]]
) -> Declined:
    mine = {_anywhere(journal, customer) for customer in people}
    subjects: set[bytes] = set()
    for rows in people.values():
        kinds = subjects_of(rows, journal.pseudonyms)
        # a domain is a firm's: nothing tells whose else it is
        named = {each for each, kind in kinds.items() if kind != IdentityKind.DOMAIN.value}
        used = Sightings.of(journal).with_identifiers(sorted(named))
        shared = {each.identifier for each in used if each.customer not in mine}
        if any(kinds[each] == IdentityKind.BVN.value for each in shared):
            shared |= {each for each in named if kinds[each] == IdentityKind.IMAGE.value}
        subjects |= named - shared
    live = customers_who_consent(journal.engine)
    transacting = frozenset(each for each in people if _anywhere(journal, each) not in live)
    ids = frozenset(people)
    erasures = Erasures.of(journal)
    rows_of = {
        run.run_id: sum(
            matching_rows(path, [ID_COLUMN], partial(_is_one_of, ids=meant))
            for path, meant in _clear_files(run, ids, transacting)
        )
        for run in runs
    }
    return Declined(
        ids,
        transacting,
        tuple(sorted(subjects)),
        tuple(_anywhere(journal, each) for each in sorted(transacting)),
        erasures.answers_about(sorted(subjects)),
        sum(rows_of.values()),
        tuple(run for run in runs if rows_of[run.run_id]),
    )


def _anywhere(journal: Journal, customer: str) -> bytes:
    return journal.pseudonyms.customers_anywhere([customer])


def _is_one_of(rows: pa.Table, ids: Collection[str]) -> pa.ChunkedArray:
    return is_in(rows[ID_COLUMN], ids).fill_null(fill_value=False)


def _clear_files(
    run: RunRecord, ids: Collection[str], transacting: Collection[str]
) -> Iterator[tuple[Path, Collection[str]]]:
    """Yield the files of a run that have rows in clear, each with whose rows go from it."""
    folder = Path(run.folder)
    if ids and run.purpose != Purpose.PORTFOLIO:
        for pattern in ("enriched/part-*.parquet", f"{BVN_PARTS}/part-*.parquet"):
            yield from ((path, ids) for path in sorted(folder.glob(pattern)))
        if (folder / CASHFLOW_FILE).exists():
            yield folder / CASHFLOW_FILE, transacting
        yield from ((path, transacting) for path in typed_parts(run))


def drop_declined(journal: Journal, folders: Mapping[Path, RunFiles], found: Declined) -> int:
    """Take their rows out of every run's files, and the inputs they came in; return how many.

    Args:
        journal: the journal; a run that was resumed meanwhile is left as it is.
        folders: the folders to rewrite, made where a path is asked for.
        found: who goes.
    """
    rows = 0
    for run in found.runs:
        if journal.runs.held_elsewhere(run.run_id):
            continue
        for path, meant in _clear_files(run, found.ids, found.transacting):
            typed = path.parent != Path(run.folder) and path.parent.name.startswith("pulled_on=")
            folder = folders[path.parent if typed else Path(run.folder)]
            goes = partial(_is_one_of, ids=meant)
            rows += folder.drop_rows(path, [ID_COLUMN], goes)
        if run.purpose == Purpose.ORIGINATION:
            folders[Path(run.folder)].remove(sorted(Path(run.folder).glob(f"{INPUT}/*")))
    return rows
