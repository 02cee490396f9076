"""How records are shown to the customer they are about: one loop over all kinds.

A kind says under which name its records stand (`section`) and which fields are not shown
(`unshown`); a kind that is a part of another is shown within it.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from nightscreen.journal.customers import Customers
from nightscreen.journal.loan_offers import loan_history
from nightscreen.journal.records import Records
from nightscreen.journal.schema import KINDS
from nightscreen.privacy.contests import contest_document
from nightscreen.results.tracked_state import rests_on
from nightscreen.schemas.clock import instant_text, to_instant, to_micros
from nightscreen.schemas.consented import Grant
from nightscreen.schemas.contests import WAITS, Contest, Review
from nightscreen.schemas.money import naira_text
from nightscreen.schemas.offers import Offer

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nightscreen.config.settings import Retention
    from nightscreen.journal import Journal
    from nightscreen.privacy.lookup_subject import Subject
    from nightscreen.schemas.decisions import KnownCustomer
    from nightscreen.schemas.records import JournalRecord

_NEVER = {"key", "customer", "subject", "customer_id"}
"""Fields that no kind is shown with: pseudonyms, and the id that stands above all of it."""


def shown_records(
    journal: Journal,
    people: Sequence[Subject],
    kinds: Iterable[type[JournalRecord]] = KINDS,
    *,
    retention: Retention | None = None,
) -> dict[str, list[dict[str, Any]]]:
    """Return what is held of a customer in some batch names, by section, oldest first.

    Until when each is kept is shown where the periods are given.
    """
    anywhere = journal.pseudonyms.customers_anywhere([people[0].customer_id])
    found: dict[str, list[dict[str, Any]]] = {}
    for model in kinds:
        if model.section:
            here = [anywhere] if model.everywhere else [person.pseudonym for person in people]
            found[model.section] = [
                {**_kept_until(record, since, retention), **_shown(journal, record)}
                for record, since in Records(journal, model).with_periods(here)
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


def _shown(journal: Journal, record: JournalRecord) -> dict[str, Any]:
    """Return a record as JSON has it, with what other kinds say of it."""
    if isinstance(record, Review):
        known = Customers(journal).known([record.customer]).get(record.customer)
        return review_document(record, known, journal.clock())
    if isinstance(record, Contest):
        return contest_document(record, journal.clock())
    document = own_view(record)
    if isinstance(record, Grant):
        document["grant_id"] = record.grant_id  # by which calls name their consent
    if isinstance(record, Offer):
        news = loan_history(journal, [record.subject]).get(record.subject, [])
        document["history"] = [own_view(each) for each in news]
    return document


def own_view(record: JournalRecord) -> dict[str, Any]:
    """Return the fields of a record that its customer may see: instants as ISO text, naira."""
    fields = record.model_dump(mode="json", exclude=_NEVER | record.unshown)
    fields |= fields.pop("held", {})
    return dict(_plain(name, value) for name, value in fields.items() if name not in _NEVER)


def _plain(name: str, value: Any) -> tuple[str, Any]:  # noqa: ANN401 - any field
    if isinstance(value, int) and (name == "at" or name.endswith(("_at", "until"))):
        return name, instant_text(value)
    if name.endswith("_micro"):
        return name.removesuffix("_micro"), naira_text(value)
    return name, value
