"""How each kind of record is shown to the customer it is about: one view a kind, one loop over all.

A kind says under which name its records stand (`section`); a kind that is a part of another is
shown within it.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from nightscreen.journal.customers import Customers
from nightscreen.journal.records import Records
from nightscreen.journal.schema import KINDS
from nightscreen.operations.bvn.access import shown_request
from nightscreen.operations.consents.access import own_figures, own_grant, own_link, own_pull
from nightscreen.operations.loans.access import shown_offer, shown_outcome
from nightscreen.privacy.contests import contest_document
from nightscreen.results.tracked_state import rests_on
from nightscreen.schemas.clock import instant_text, to_instant, to_micros
from nightscreen.schemas.contests import WAITS
from nightscreen.schemas.records import RecordKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from nightscreen.config.settings import Retention
    from nightscreen.journal import Journal
    from nightscreen.privacy.lookup_subject import Subject
    from nightscreen.schemas.cases import OpenCase
    from nightscreen.schemas.contests import CustomerAction, Review, ToldNotice
    from nightscreen.schemas.decisions import KnownCustomer
    from nightscreen.schemas.records import JournalRecord


def shown_records(
    journal: Journal,
    people: Sequence[Subject],
    kinds: Iterable[type[JournalRecord]] = KINDS,
    *,
    retention: Retention | None = None,
) -> dict[str, list[dict[str, Any]]]:
    """Return what is held of a customer in some batch names, by section, oldest first.

    Args:
        journal: the journal.
        people: the customer in each batch name.
        kinds: which kinds of records.
        retention: says until when each record is kept; left out, that is not shown.
    """
    anywhere = journal.pseudonyms.customers_anywhere([people[0].customer_id])
    found: dict[str, list[dict[str, Any]]] = {}
    for model in kinds:
        if model.section:
            here = [anywhere] if model.everywhere else [person.pseudonym for person in people]
            found[model.section] = [
                {**_kept_until(record, since, retention), **VIEWS[model.kind](journal, record)}
                for record, since in Records.of(journal, model).with_periods(here)
            ]
    return found


def _kept_until(
    record: JournalRecord, since: int, retention: Retention | None
) -> dict[str, str | None]:
    if retention is None:
        return {}
    if record.searched_state in record.waiting:
        return {"kept_until": None}
    return {"kept_until": kept_until(since, getattr(retention, f"{record.ground.value}_days"))}


def kept_until(at: int, days: int) -> str | None:
    """Return the end of a period that begins at an instant."""
    return instant_text(to_micros(to_instant(at) + timedelta(days=days)))


def review_document(review: Review, known: KnownCustomer | None, now: int) -> dict[str, Any]:
    """Return a review and whether it still stands."""
    return {
        "run_id": review.run_id,
        "listed": review.listed,
        "decision": review.decision,
        "overrides": review.overrides,
        "reviewer": review.reviewer,
        "confirmed_by": review.confirmed_by or None,
        "imported_by": review.imported_by or None,
        "waits_for_second_person": review.state == WAITS,
        "note": review.note,
        "reviewed_at": instant_text(review.reviewed_at),
        "until": instant_text(review.until),
        "stands": rests_on(review, known) and review.until > now and not review.state,
    }


def _shown_review(journal: Journal, review: Review) -> dict[str, Any]:
    known = Customers.of(journal).known([review.customer]).get(review.customer)
    return review_document(review, known, journal.clock())


def _told(_: Journal, told: ToldNotice) -> dict[str, Any]:
    return {
        "batch": told.batch,
        "run_id": told.run_id,
        "reason_code": told.reason_code,
        "told_at": instant_text(told.told_at),
        "told_how": told.told_how,
        "told_by": told.told_by or None,
    }


def _action(_: Journal, action: CustomerAction) -> dict[str, Any]:
    return {
        "batch": action.batch,
        "at": instant_text(action.at),
        "by": action.by,
        "action": action.action,
    }


def _open_case(_: Journal, case: OpenCase) -> dict[str, Any]:
    return {
        "batch": case.batch,
        "run_id": case.run_id,
        "opened_at": instant_text(case.at),
        "decision": case.decision,
        "branch": case.branch,
        "officer": case.officer,
    }


VIEWS: Mapping[RecordKind, Callable[[Journal, Any], dict[str, Any]]] = {
    RecordKind.REVIEW: _shown_review,
    RecordKind.OPEN_CASE: _open_case,
    RecordKind.CONTEST: lambda journal, contest: contest_document(contest, journal.clock()),
    RecordKind.TOLD: _told,
    RecordKind.ACTION: _action,
    RecordKind.BVN_REQUEST: lambda _, request: shown_request(request),
    RecordKind.GRANT: lambda _, grant: own_grant(grant),
    RecordKind.PULL: lambda _, pull: own_pull(pull),
    RecordKind.CONSENT_LINK: lambda _, link: own_link(link),
    RecordKind.CASH_FLOW: lambda _, figures: own_figures(figures),
    RecordKind.OFFER: shown_offer,
    RecordKind.OUTCOME: lambda _, outcome: shown_outcome(outcome),
}
