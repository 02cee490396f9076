"""The files and the report of a run that follows loans: each loan, what changed, and the account.

`loans.parquet` names customers by their `customer_id`, since the lender must know whose loan it
is; `changes.parquet` by pseudonym and reference; the report holds numbers and status words alone.
"""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from nightscreen.files.outputs import CHANGES_FILE, LOANS_FILE
from nightscreen.report.api_run import OperationEnds, close_api_run
from nightscreen.runs.run_report import run_end
from nightscreen.schemas.checks import Operation
from nightscreen.schemas.clock import to_instant
from nightscreen.schemas.enriched import WORD
from nightscreen.schemas.offers import LoanWord
from nightscreen.schemas.rows import INSTANT, NAIRA

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from nightscreen.operations.loans.tracking import Followed, Tracking
    from nightscreen.schemas.offers import LoanNews, LoanSnapshot, Offer

LOANS = pa.schema(
    [
        pa.field("reference", pa.string()),
        pa.field("customer_id", pa.string()),
        pa.field("product_id", WORD),
        pa.field("product_name", WORD),
        pa.field("state", WORD),
        pa.field("status", WORD),
        pa.field("status_at", INSTANT),
        pa.field("loan_amount", NAIRA),
        pa.field("amount_disbursed", NAIRA),
        pa.field("paid", NAIRA),
        pa.field("reject_reason", pa.string()),
        pa.field("can_request", pa.bool_()),
        pa.field("can_cancel", pa.bool_()),
        pa.field("offered_at", INSTANT),
        pa.field("asked_at", INSTANT),
        pa.field("closed_at", INSTANT),
        pa.field(
            "history",
            pa.list_(pa.struct([pa.field("status", pa.string()), pa.field("at", INSTANT)])),
        ),
        pa.field("batch", WORD),
        pa.field("screening_run_id", WORD),
        pa.field("offer_run_id", WORD),
    ]
)

LOAN_CHANGES = pa.schema(
    [
        pa.field("customer", pa.string()),
        pa.field("reference", pa.string()),
        pa.field("product_id", WORD),
        pa.field("field", WORD),
        pa.field("old", pa.string()),
        pa.field("new", pa.string()),
        pa.field("previous_at", INSTANT),
        pa.field("seen_at", INSTANT),
        pa.field("batch", WORD),
        pa.field("run_id", WORD),
    ]
)

REFERENCE = "reference"
KNOWN, UNKNOWN = "known", "unknown"
_TOLD = ("status", "loan_amount", "amount_disbursed", "paid", "reject_reason", "can_request")
_BLOCK = 4096
_NOTHING = frozenset({None, "0.00", "true"})
"""Values that are no news at the first view of a loan."""


def close_tracking(tracking: Tracking) -> dict[str, Any]:
    """Write loans, changes, calls, report and manifest; note the end, and return the report."""
    run = tracking.run
    _write_loans(tracking)
    changes = list(_changes(tracking))
    run.folder.write_parquet(CHANGES_FILE, LOAN_CHANGES, _tables(changes, LOAN_CHANGES))
    counts = Counter(each.word for each in tracking.loans)
    answers = {
        "found": counts[LoanWord.FOLLOWED],
        "not_found": counts[LoanWord.UNKNOWN_REFERENCE],
    }
    unknown = counts[LoanWord.UNKNOWN_REFERENCE]
    if unknown:
        run.stops.notices.append(
            f"{unknown:,} references are not known to the service: ask its support, and see state "
            f"unknown_reference in {LOANS_FILE}"
        )
    number = len(tracking.loans)
    return close_api_run(
        run_end(run),
        rows={"read": number, "screened": number, "quarantined": 0},
        operations={Operation.LOAN_VIEW: OperationEnds(tracking.ended, answers)},
        more={
            "followed": {word.value: counts[word] for word in LoanWord},
            "statuses": _statuses(tracking.loans),
            "changes": _account(changes),
        },
    )


def _statuses(loans: Sequence[Followed]) -> dict[str, int]:
    """Return how many loans have which of the service's status words."""
    words = Counter(loan.offer.status or "" for loan in loans)
    return dict(sorted((word, number) for word, number in words.items() if word))


def _account(changes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what changed, in numbers."""
    moves = Counter(
        f"{change['old'] or '(none)'} > {change['new']}"
        for change in changes
        if change["field"] == "status"
    )
    return {
        "loans": len({change[REFERENCE] for change in changes}),
        **{
            name: sum(change["field"] == name for change in changes) for name in (*_TOLD, REFERENCE)
        },
        "moves": dict(sorted(moves.items())),
    }


def _changes(tracking: Tracking) -> Iterator[dict[str, Any]]:
    """Yield one record for each field that differed, in the order it was seen."""
    offers = {loan.offer.offer_id: loan.offer for loan in tracking.loans}
    for news in tracking.store.news_of(tracking.run.run_id):
        offer = offers.get(news.offer_id)
        if offer is not None:
            yield from _change_rows(news, offer)


def _change_rows(news: LoanNews, offer: Offer) -> Iterator[dict[str, Any]]:
    for name, old, new in differences(news.before, news.now):
        yield {
            "customer": offer.customer.hex(),
            REFERENCE: offer.held.reference,
            "product_id": offer.product_id,
            "field": name,
            "old": old,
            "new": new,
            "previous_at": _instant(news.before_at),
            "seen_at": _instant(news.at),
            "batch": offer.batch,
            "run_id": news.run_id,
        }


def differences(
    before: LoanSnapshot | None, now: LoanSnapshot
) -> Iterator[tuple[str, str | None, str | None]]:
    """Yield field, old and new value of all that differs.

    At a first view what is worth reporting.
    """
    was_known = True if before is None else before.known
    if was_known != now.known:
        yield REFERENCE, *((KNOWN, UNKNOWN) if was_known else (UNKNOWN, KNOWN))
    for name in _TOLD:
        old = None if before is None else _plain(getattr(before, name))
        new = _plain(getattr(now, name))
        if old != new and not (before is None and new in _NOTHING):
            yield name, old, new


def _plain(value: object) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return None if value is None else str(value)


def _write_loans(tracking: Tracking) -> None:
    history = tracking.store.history()
    records = (_record(loan, history.get(loan.offer.offer_id, [])) for loan in tracking.loans)
    tracking.run.folder.write_parquet(LOANS_FILE, LOANS, _tables(list(records), LOANS))


def _tables(records: Sequence[dict[str, Any]], schema: pa.Schema) -> Iterator[pa.Table]:
    for start in range(0, len(records), _BLOCK):
        yield pa.Table.from_pylist(list(records[start : start + _BLOCK]), schema)


def _record(loan: Followed, history: Sequence[LoanNews]) -> dict[str, Any]:
    offer = loan.offer
    seen = offer.held.seen
    return {
        REFERENCE: offer.held.reference,
        "customer_id": offer.held.customer_id,
        "product_id": offer.product_id,
        "product_name": offer.held.product_name,
        "state": loan.word.value,
        "status": offer.status,
        "status_at": _instant(offer.status_at),
        "loan_amount": _amount(seen.loan_amount if seen else None),
        "amount_disbursed": _amount(seen.amount_disbursed if seen else None),
        "paid": _amount(seen.paid if seen else None),
        "reject_reason": seen.reject_reason if seen else None,
        "can_request": seen.can_request if seen else None,
        "can_cancel": seen.can_cancel if seen else None,
        "offered_at": _instant(offer.offered_at),
        "asked_at": _instant(offer.followed_at),
        "closed_at": _instant(offer.closed_at),
        "history": list(words_of(history)),
        "batch": offer.batch,
        "screening_run_id": offer.source_run_id,
        "offer_run_id": offer.run_id,
    }


def words_of(history: Sequence[LoanNews]) -> Iterator[dict[str, Any]]:
    """Yield each status word a loan has had, and when it was first seen."""
    last: str | None = None
    for news in history:
        if news.now.status is not None and news.now.status != last:
            last = news.now.status
            yield {"status": last, "at": _instant(news.at)}


def _amount(text: str | None) -> Decimal | None:
    return None if text is None else Decimal(text)


def _instant(at: int | None) -> datetime | None:
    return None if at is None else to_instant(at)
