"""Look up one customer: pseudonyms, runs, and rows in their files.

`explaining` and `subject_access` make the documents from them.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nightscreen.files.outputs import OUTPUTS, Whose
from nightscreen.files.quarantine import named_records
from nightscreen.files.run_folder import RowFilter
from nightscreen.journal.customers import Customers
from nightscreen.operations.bvn_table import requests_to
from nightscreen.results.enriched import find_row
from nightscreen.schemas.columns import IDENTIFIERS
from nightscreen.schemas.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from nightscreen.files.outputs import Output
    from nightscreen.files.sealing import Pseudonyms
    from nightscreen.journal import Journal
    from nightscreen.journal.runs import RunHead, RunRecord

_AT_ONCE = 20  # runs: bounds memory, since each has its report


@dataclass(frozen=True, slots=True)
class Subject:
    """A customer in one batch."""

    customer_id: str  # as the lender gives it
    batch: str  # the batch name
    pseudonym: bytes  # of the customer in that batch
    runs: tuple[RunHead | RunRecord, ...]  # the batch's runs, newest first


def lookup_subject(journal: Journal, customer_id: str, *, batch: str = "") -> list[Subject]:
    """Return the customer in each batch that has it, most recently screened first.

    Raises:
        InputError: no batch has the customer.
    """
    heads_by_batch: dict[str, list[RunHead]] = {}
    for head in journal.runs.heads():
        heads_by_batch.setdefault(head.batch, []).append(head)
    found, customers = [], Customers(journal)
    asked = {each.batch for each in requests_to(journal, customer_id)}
    for name in [batch] if batch else heads_by_batch:
        pseudonym = journal.pseudonyms.customer(name, customer_id)
        heads = heads_by_batch.get(name, [])
        if (
            name in asked
            or customers.known([pseudonym])
            or any(find_row(run, customer_id) for run in journal.runs.find_all(heads[:1]))
        ):
            found.append(Subject(customer_id, name, pseudonym, tuple(heads)))
    if not found:
        where = f"in batch {batch}" if batch else "in any batch"
        raise InputError(
            f"no such customer {where}; write the customer_id as the file has it, leading zeros "
            "included"
        )
    return found


def runs_of(journal: Journal, person: Subject) -> Iterator[RunRecord]:
    """Yield a customer's runs, newest first, a few at a time: their reports are long."""
    for start in range(0, len(person.runs), _AT_ONCE):
        yield from journal.runs.find_all(person.runs[start : start + _AT_ONCE])


def newest_row(journal: Journal, person: Subject) -> tuple[RunRecord, dict[str, Any]] | None:
    """Return the newest run whose files have the customer's row, and the row."""
    for run in runs_of(journal, person):
        row = find_row(run, person.customer_id)
        if row is not None:
            return run, row
    return None


def shown_rows(
    person: Subject, run: RunRecord, section: str = ""
) -> Iterator[tuple[Output, list[dict[str, Any]]]]:
    """Yield a customer's rows in each file of a run that subject access shows.

    In a quarantine they are the rows with the customer's id in any column. `section` limits the
    files to one section.
    """
    for declared in OUTPUTS:
        if declared.section and section in ("", declared.section):
            yield declared, list(_rows_of(declared, person, run))


def _rows_of(declared: Output, person: Subject, run: RunRecord) -> Iterator[dict[str, Any]]:
    whose, customer_id = declared.whose, person.customer_id
    if whose is Whose.IN_CLEAR:
        yield from filter(None, [find_row(run, customer_id)])
        return
    name = person.pseudonym.hex() if whose is Whose.BY_PSEUDONYM else customer_id
    for file in declared.files(Path(run.folder)):
        if whose is Whose.AS_GIVEN:
            yield from (row for row, _ in named_records(file) if customer_id in row.values())
        else:
            yield from RowFilter([((whose.value,), {(name,)})]).found(file)


def subjects_of(rows: Sequence[Mapping[str, Any]], pseudonyms: Pseudonyms) -> dict[bytes, str]:
    """Return the pseudonym of every identifier of some rows, with its kind.

    Every pair of identifiers is included, since a check, even one no longer installed, may ask by
    both; the kind is then that of the second.
    """
    subjects: dict[bytes, str] = {}
    for row in rows:
        held = {kind.value: each.of(row) for kind, each in IDENTIFIERS.items()}
        known = {kind: identity for kind, identity in held.items() if identity}
        for kind, identity in known.items():
            subjects[pseudonyms.subject(kind, identity)] = kind
        for (kind, identity), (other, second) in permutations(known.items(), 2):
            subjects[pseudonyms.subject(kind, identity, second)] = other
    return subjects
