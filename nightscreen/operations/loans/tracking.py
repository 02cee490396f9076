"""Following loans: every open reference is asked about, and what differs is reported once.

A loan has ended where its word is one of `CLOSED_WORDS`; any other word, a new one too, is kept and
followed. A view and its changes are saved together, so that two runs at once never report the same
change; what a dead run saw is reported by the next. `loans.parquet` names customers by their
`customer_id`, since the lender must know whose loan it is; `changes.parquet` by pseudonym and
reference; the report holds numbers and status words alone.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from nightscreen.client import loans
from nightscreen.client.response_parser import parse_answer
from nightscreen.files.outputs import CHANGES_FILE, LOANS_FILE
from nightscreen.journal.engine import writing
from nightscreen.journal.loan_offers import linked_offers, loan_history
from nightscreen.journal.records import Records
from nightscreen.journal.runs import KILLED
from nightscreen.journal.schema import records
from nightscreen.operations.loans.offers import bring_up_to_date
from nightscreen.operations.person_run import (
    FAILED,
    PENDING,
    Account,
    Person,
    PersonRun,
    write_rows,
)
from nightscreen.schemas.calls import LookupStatus
from nightscreen.schemas.checks import Operation, Outcome, SubjectKind
from nightscreen.schemas.clock import to_instant
from nightscreen.schemas.enriched import WORD
from nightscreen.schemas.loans import LoanState
from nightscreen.schemas.offers import (
    CLOSED_WORDS,
    LoanNews,
    LoanSnapshot,
    LoanWord,
    Offer,
    TrackLoans,
)
from nightscreen.schemas.rows import INSTANT, NAIRA

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from nightscreen.calling.caller import Caller
    from nightscreen.calling.lookup_task import LookupTask
    from nightscreen.calling.run import Run
    from nightscreen.operations.person_run import CallEnd

_TOO_MUCH = Decimal(10) ** 15  # an amount beyond what a column of naira holds is no amount of money

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
_NOTHING = frozenset({None, "0.00", "true"})  # values that are no news at the first view of a loan


@dataclass(slots=True, kw_only=True)
class Followed(Person):
    """One loan there is a reference for; its word is a `LoanWord`."""

    offer: Offer = field(repr=False)


class LoanTracking(PersonRun[TrackLoans, Followed]):
    """A run that follows loans, in the order they were offered."""

    flow, name, batch = "track_loans", "loans", "loan-tracking"
    operation, kind = Operation.LOAN_VIEW, SubjectKind.LOAN

    def __init__(self, run: Run, parameters: TrackLoans) -> None:
        super().__init__(run, parameters)
        self._offers = Records.of(run.journal, Offer)
        self._news = Records.of(run.journal, LoanNews)

    def find(self) -> list[Followed]:
        """Find every loan with a reference, and take over what dead runs did not report."""
        bring_up_to_date(self.run.journal)
        run_id, now = self.run.run_id, self.run.clock()
        told = [each for each in self._news.run_ids() if each != run_id and self._is_dead(each)]
        with writing(self.run.journal.engine) as connection:
            # of two that take over, one has each of them
            reported = self._news.read(connection, records.c.run_id.in_(told))
            ours = [each.model_copy(update={"run_id": run_id}) for each in reported]
            self._news.update(connection, ours, now)
        found = [
            Followed(
                subject=offer.loan or b"",
                offer=offer,
                word=PENDING if offer.closed_at is None else LoanWord.CLOSED,
            )
            for offer in linked_offers(self.run.journal)
        ]
        self.rows_read = len(found)
        return found

    def _is_dead(self, run_id: str) -> bool:
        found = self.run.journal.runs.find(run_id)
        return found is None or found.state == KILLED

    async def ask(self, caller: Caller) -> None:
        """Ask about every open loan.

        The first is asked about alone: a key that may not ask is reported by one call. If it gets
        no answer it is asked about again with the others, which show whether the service fails.
        """
        due = self.due()
        await self.ask_each(caller, due[:1])
        if len(due) > 1 and (first := due[0].task) is not None:
            is_failing = first.reading is not None and first.reading.retry
            if is_failing and first.status is LookupStatus.FAILED:
                self.again()
        await super().ask(caller)

    def begin(self, person: Followed) -> bool:  # noqa: ARG002 - a view changes nothing
        """Ask whoever else does."""
        return True

    def call(self, caller: Caller, person: Followed) -> LookupTask:
        """Return the call that shows a loan."""
        request = loans.loan(person.offer.held.reference or "")
        return caller.task(request, kind=self.kind, subject=person.subject)

    def learn(self, person: Followed, end: CallEnd | None) -> None:
        """Write down what was seen of a loan, with what is new of it.

        Where another process has seen it meanwhile, that one reports what it saw.
        """
        before, now = person.offer, self.run.clock()
        seen = None if end is None else _seen(before, end)
        if seen is None:
            if person.task is not None and person.task.status is not LookupStatus.WAITING:
                person.word = FAILED
            return
        person.word = LoanWord.FOLLOWED if seen.known else LoanWord.UNKNOWN_REFERENCE
        person.offer = _after(before, seen, now)
        news = _news(self.run.run_id, before, seen, now)
        with writing(self.run.journal.engine) as connection:
            is_ours = self._offers.swap(connection, person.offer, before, now)
            if is_ours and news is not None:
                self._news.insert(connection, [news])
        if not is_ours:
            person.offer = self._offers.find(before.key) or person.offer

    def write(self) -> Account:
        """Write the loans and what changed."""
        history = loan_history(self.run.journal)
        rows = (_record(each, history.get(each.offer.subject, [])) for each in self.people)
        write_rows(self.run.folder, LOANS_FILE, rows, LOANS)
        changes = list(self._changes())
        write_rows(self.run.folder, CHANGES_FILE, changes, LOAN_CHANGES)
        counts = Counter(str(each.word) for each in self.people)
        unknown = counts[LoanWord.UNKNOWN_REFERENCE]
        if unknown:
            self.run.stops.notices.append(
                f"{unknown:,} references are not known to the service: ask its support, and see "
                f"state unknown_reference in {LOANS_FILE}"
            )
        statuses = Counter(each.offer.status for each in self.people if each.offer.status)
        return Account(
            {self.operation: {"found": counts[LoanWord.FOLLOWED], "not_found": unknown}},
            {
                "followed": {word.value: counts[word] for word in LoanWord},
                "statuses": dict(sorted(statuses.items())),
                "changes": _account(changes),
            },
        )

    def _changes(self) -> Iterator[dict[str, Any]]:
        """Yield one record for each field that differed, in the order it was seen."""
        offers = {each.offer.subject: each.offer for each in self.people}
        for news in self._news.of_run(self.run.run_id):
            offer = offers.get(news.subject)
            if offer is not None:
                yield from _change_rows(news, offer)


def _seen(offer: Offer, end: CallEnd) -> LoanSnapshot | None:
    """Return what an answer says of a loan; None if there was none."""
    if not end.is_answered:
        return None
    before = offer.held.seen
    if end.outcome == Outcome.NOT_FOUND:
        return replace(before, known=False) if before else LoanSnapshot(known=False)
    loan = parse_answer(Operation.LOAN_VIEW, end.body)
    if not isinstance(loan, LoanState) or not loan.status:
        return None
    return LoanSnapshot(
        status=loan.status,
        loan_amount=_text(loan.loan_amount),
        amount_disbursed=_text(loan.amount_disbursed),
        paid=_text(loan.paid),
        reject_reason=loan.reject_reason,
        can_request=loan.can_request,
        can_cancel=loan.can_cancel,
    )


def _text(amount: Decimal | None) -> str | None:
    """Return an amount as decimal text, the same however many zeros it came with."""
    if amount is None or abs(amount) >= _TOO_MUCH:
        return None
    return f"{amount.quantize(Decimal('0.01')):f}"


def _after(offer: Offer, seen: LoanSnapshot, now: int) -> Offer:
    """Return an offer as it is after its loan was seen."""
    moved = seen.status != offer.status
    return offer.model_copy(
        update={
            "held": replace(offer.held, seen=seen),
            "status": seen.status,
            "status_at": now if moved else offer.status_at,
            "followed_at": now,
            "closed_at": now if has_ended(seen) else None,
        }
    )


def has_ended(seen: LoanSnapshot) -> bool:
    """Return whether a loan is not to be asked about any more."""
    return seen.known and (seen.status or "").strip().upper() in CLOSED_WORDS


def _news(run_id: str, offer: Offer, seen: LoanSnapshot, now: int) -> LoanNews | None:
    """Return the changes of a view; None if nothing differs."""
    before = offer.held.seen
    if seen == before:
        return None
    return LoanNews(
        subject=offer.subject,
        customer=offer.customer,
        run_id=run_id,
        at=now,
        now=seen,
        before=before,
        before_at=offer.followed_at,
    )


# --- tables ---


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


def _record(loan: Followed, history: Sequence[LoanNews]) -> dict[str, Any]:
    offer = loan.offer
    seen = offer.held.seen
    return {
        REFERENCE: offer.held.reference,
        "customer_id": offer.held.customer_id,
        "product_id": offer.product_id,
        "product_name": offer.held.product_name,
        "state": str(loan.word),
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
