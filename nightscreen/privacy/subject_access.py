"""Subject access: everything that is held about one person, without other people's data.

An answer about an account or a history that contradicts the customer may be about another person:
it is marked as withheld. `gather` collects the data, `access_page` makes the page; both are for the
customer, so the customer's own data are not masked.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from nightscreen.checks.karma import KarmaListings
from nightscreen.checks.registry import CHECKS
from nightscreen.client.response_parser import parse_answer
from nightscreen.config.declarations import NOTHING_DECLARED, Declarations
from nightscreen.files.outputs import OUTPUTS, Whose
from nightscreen.journal.calls import UNREAD
from nightscreen.journal.customers import Customers, Sightings
from nightscreen.journal.schema import KINDS
from nightscreen.operations.bvn_table import PERSONAL, is_theirs, requests_to
from nightscreen.operations.pulled_records import PullStore
from nightscreen.privacy.explaining import (
    kept_until,
    last_answered,
    lookup,
    plain,
    seen,
    shown_changes,
    shown_records,
)
from nightscreen.privacy.lookup_subject import runs_of, shown_rows, subjects_of
from nightscreen.report.page import templates
from nightscreen.schemas.answers import BvnDetails, Record
from nightscreen.schemas.checks import HITS
from nightscreen.schemas.clock import instant_text
from nightscreen.schemas.columns import KNOWN_COLUMNS
from nightscreen.schemas.consented import PulledKind
from nightscreen.schemas.contests import Review

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from sqlalchemy import Row

    from nightscreen.config.settings import Retention
    from nightscreen.journal import Journal
    from nightscreen.journal.answers import OpenedAnswer
    from nightscreen.journal.runs import RunRecord
    from nightscreen.privacy.lookup_subject import Subject

WITHHELD = "(withheld: about another person, or not shown to be about this one)"
_UNTIL_ERASED = "while the consent is valid, then as long as answers of the service"
_OTHERS = ("guarantor", "next_of_kin", "nextofkin", "referee", "spouse", "officer", "agent")
_OF_CUSTOMERS = tuple(model for model in KINDS if model is not Review)
"""Kinds that are shown for the customer as a whole; reviews are shown by batch."""


def gather(
    journal: Journal,
    people: Sequence[Subject],
    retention: Retention,
    declarations: Declarations = NOTHING_DECLARED,
) -> dict[str, Any]:
    """Return everything that is held about a customer in every batch.

    Each part has the end of its retention period; a legal hold on a run extends it.
    """
    files: dict[str, list[dict[str, Any]]] = {each.section: [] for each in OUTPUTS if each.section}
    own: list[dict[str, Any]] = []
    for person, run in [(each, run) for each in people for run in runs_of(journal, each)]:
        checks = run.parameters.get("checks", ())
        for declared, rows in shown_rows(person, run):
            kept = _of_run(run, getattr(retention, f"{declared.ground}_days"))
            if declared.whose is not Whose.BY_PSEUDONYM:
                shown = [{**kept, "row": own_row(row, checks)} for row in rows]
            else:
                shown = [{**kept, declared.section: shown_changes(rows)}] if rows else []
            files[declared.section] += shown
            own += rows if declared.whose is Whose.IN_CLEAR else []
    asked = requests_to(journal, people[0].customer_id)
    subjects = list({*subjects_of(own, journal.pseudonyms), *(each.subject for each in asked)})
    own += [each.model_dump() for each in asked]  # answers are judged by them, too
    now, days = journal.clock(), retention.journal_answers_days
    held = {
        "customer_id": people[0].customer_id,
        "made_at": instant_text(now),
        "batches": [
            {
                **_batch(journal, person),
                **shown_records(journal, [person], [Review], retention=retention),
            }
            for person in people
        ],
        **files,
        **shown_records(journal, people, _OF_CUSTOMERS, retention=retention),
        "lookups": [
            own_lookup(call, own, days, declarations) for call in journal.runs.calls_about(subjects)
        ],
        "answers": [own_answer(answer, own, days) for answer in journal.answers.about(subjects)],
        "sightings": _sightings(journal, people, retention.decisions_days),
        **_pulled_records(journal, people[0].customer_id),
    }
    return plain(held)


def _pulled_records(journal: Journal, customer_id: str) -> dict[str, list[dict[str, Any]]]:
    """Return every version of every record pulled for a customer, as JSON documents."""
    customer = journal.pseudonyms.customers_anywhere([customer_id])
    records: dict[str, list[dict[str, Any]]] = {kind.folder: [] for kind in PulledKind}
    for stored, raw in PullStore(journal).of_customer(customer):
        records[PulledKind(stored.kind).folder].append(
            {
                "first_seen_at": instant_text(stored.first_seen_at),
                "ended_at": instant_text(stored.ended_at),
                "ended_as": stored.ended_as,
                "record": json.loads(raw, parse_float=str),
                "kept_until": _UNTIL_ERASED,
            }
        )
    return records


def _batch(journal: Journal, person: Subject) -> dict[str, Any]:
    customers = Customers(journal)
    known = customers.known([person.pseudonym]).get(person.pseudonym)
    return {
        "batch": person.batch,
        "pseudonym": person.pseudonym.hex(),
        "last_answered": last_answered(known),
        "earlier_states": [last_answered(each) for each in customers.history(person.pseudonym)],
    }


def _sightings(journal: Journal, people: Sequence[Subject], days: int) -> list[dict[str, Any]]:
    """Return the identifiers that recognise the customer in later batches, and nobody else's."""
    customer = journal.pseudonyms.customers_anywhere([people[0].customer_id])
    seen = Sightings(journal).of_customers([customer], [each.batch for each in people])
    return [
        {
            "kind": each.kind,
            "pseudonym": each.identifier.hex(),
            "batch": each.batch,
            "first_seen_at": instant_text(each.first_at),
            "last_written_at": instant_text(each.last_at),
            "kept_until": kept_until(each.last_at, days),
        }
        for each in seen
    ]


def _of_run(run: RunRecord, days: int) -> dict[str, Any]:
    at = run.finished_at or run.started_at
    return {
        "run_id": run.run_id,
        "batch": run.batch,
        "purpose": run.purpose,
        "at": instant_text(at),
        "kept_until": kept_until(at, days),
    }


def own_row(row: Mapping[str, Any], checks: Collection[str] = CHECKS) -> dict[str, Any]:
    """Return a row's filled columns, those about other people withheld.

    Args:
        row: a row of the results, a list or the quarantine.
        checks: the run's checks. Columns of a check that is no longer installed are withheld, since
            nothing shows whom they are about.
    """
    strange = {name for check in CHECKS.values() for name in check.withheld(row)}
    uninstalled = tuple(f"{name}_" for name in checks if name not in CHECKS)
    strange |= {name for name in row if name.startswith(uninstalled)}
    return {
        name: WITHHELD if name in strange or _is_others(name, value) else seen(name, value)
        for name, value in row.items()
        if value not in (None, "", [])
    }


def _is_others(name: str, value: object) -> bool:
    """Return whether a column's name says that it is about another person."""
    folded = name.casefold().replace(" ", "_")
    if folded.startswith("batch_same_"):
        return not isinstance(value, bool | int)
    return any(word in folded for word in _OTHERS)


def own_lookup(
    call: Row[Any], rows: Sequence[Mapping[str, Any]], days: int, declared: Declarations
) -> dict[str, Any]:
    """Return one call; the consent of another person with the same identifier is withheld."""
    document = lookup(call, declared)
    own = {row.get("consent_reference") for row in rows}
    if call.consent_reference is not None and call.consent_reference not in own:
        document["consent_reference"] = WITHHELD
    return {**document, "kept_until": kept_until(call.intent_at, days)}


def own_answer(
    answer: OpenedAnswer, rows: Sequence[Mapping[str, Any]], days: int
) -> dict[str, Any]:
    """Return one answer of the service, with other people's data withheld."""
    said: Any = WITHHELD if answer.outcome in UNREAD else None
    if answer.outcome in HITS:
        record, said = parse_answer(answer.check, answer.body), WITHHELD
        if isinstance(record, KarmaListings):
            listings = [_shown_fields(answer.check, each, rows) for each in record.listings]
            said = {"listings": listings}
        elif isinstance(record, Record):
            said = _shown_fields(answer.check, record, rows)
    return {
        "check": answer.check,
        "outcome": answer.outcome,
        "answered_at": instant_text(answer.answered_at),
        "run_id": answer.run_id,
        "kept_until": kept_until(answer.answered_at, days),
        "said": said,
    }


def _shown_fields(check: str, record: Record, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the filled fields of an answer; those not shown to be the customer's are withheld."""
    strange = _strange_fields(check, record, rows)
    fields = record.model_dump().items()
    return {name: WITHHELD if name in strange else value for name, value in fields if value}


def _strange_fields(
    check: str, record: Record, rows: Sequence[Mapping[str, Any]]
) -> tuple[str, ...]:
    """Return the fields of an answer that are not shown to be the customer's."""
    if isinstance(record, BvnDetails):
        return () if is_theirs(record, rows) else PERSONAL
    if (declared := CHECKS.get(check)) is None:
        return ()
    judged = [{"flaws": 0} | {name: row.get(name) for name in KNOWN_COLUMNS} for row in rows]
    return declared.hidden(record, judged)


def access_page(document: Mapping[str, Any]) -> str:
    """Return a document of `gather` as a page for the customer."""
    return templates().get_template("subject_access.html.j2").render(held=document)
