"""Following loans: every open reference is asked about, and what differs is reported once.

A loan has ended where its word is one of `CLOSED_WORDS`; any other word, a new one too, is kept and
followed. A view and its changes are saved together, so that two runs at once never report the same
change; what a dead run saw is reported by the next. The files and the report are
`tracking_report`'s.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING

from nightscreen.calling.caller import ASKED_AGAIN
from nightscreen.client import loans
from nightscreen.client.classify import ChargeStatus
from nightscreen.client.response_parser import parse_answer
from nightscreen.journal.loan_offers import LoanOffers
from nightscreen.journal.runs import KILLED
from nightscreen.operations.loans.offer_links import bring_up_to_date
from nightscreen.runs.run import open_api_run
from nightscreen.schemas.calls import LookupStatus
from nightscreen.schemas.checks import Operation, Outcome, SubjectKind
from nightscreen.schemas.clock import system_clock
from nightscreen.schemas.loans import LoanState
from nightscreen.schemas.offers import (
    CLOSED_WORDS,
    TRACK_BATCH,
    TRACK_FLOW,
    LoanNews,
    LoanSnapshot,
    LoanWord,
    Offer,
    TrackLoans,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nightscreen.calling.caller import Caller
    from nightscreen.calling.lookup_task import LookupTask
    from nightscreen.calling.run import Run
    from nightscreen.config.settings import Settings
    from nightscreen.schemas.clock import Clock

BLOCK = 128
"""Loans asked about before what was seen of them is written down."""
_TOO_MUCH = Decimal(10) ** 15


@dataclass(slots=True)
class Followed:
    """One loan, and what became of it in this run."""

    offer: Offer = field(repr=False)
    word: LoanWord = LoanWord.PENDING


@dataclass(slots=True)
class Tracking:
    """A run that follows loans, under way.

    Attributes:
        loans: every loan there is a reference for, in the order they were offered.
        ended: calls by how they came out.
    """

    run: Run
    loans: list[Followed]
    store: LoanOffers
    ended: Counter[LookupStatus] = field(default_factory=Counter)

    @property
    def due(self) -> list[Followed]:
        """Return the loans still to be asked about."""
        return [loan for loan in self.loans if loan.word is LoanWord.PENDING]


def open_tracking(
    parameters: TrackLoans, settings: Settings, *, clock: Clock = system_clock
) -> Run:
    """Open a run that follows loans; nothing is sent.

    Raises:
        UsageError: the settings or the parameters are wrong.
        JournalError: the journal cannot be used.
    """
    return open_api_run(
        parameters,
        settings,
        flow=TRACK_FLOW,
        batch=TRACK_BATCH,
        operation=Operation.LOAN_VIEW,
        clock=clock,
    )


def take_loans(run: Run) -> Tracking:
    """Find every loan with a reference, and take over what dead runs did not report."""
    store = LoanOffers.of(run.journal)
    bring_up_to_date(run.journal)
    dead = [run_id for run_id in store.telling() if run_id != run.run_id and _is_dead(run, run_id)]
    store.hand_over(dead, run.run_id)
    found = [
        Followed(offer, LoanWord.PENDING if offer.closed_at is None else LoanWord.CLOSED)
        for offer in store.linked()
    ]
    tracking = Tracking(run, found, store)
    run.progress[Operation.LOAN_VIEW].wanted = len(tracking.due)
    return tracking


def _is_dead(run: Run, run_id: str) -> bool:
    found = run.journal.runs.find(run_id)
    return found is None or found.state == KILLED


async def follow_loans(tracking: Tracking, session: Caller) -> int:
    """Ask about every open loan and write down what was seen; return how many answered.

    The first is asked about alone: a key that may not ask is reported by one call. If it gets no
    answer it is asked about again with the others, which show whether the service fails.
    """
    due = tracking.due
    for task in await _follow(tracking, session, due[:1]):
        is_failing = task.reading is not None and task.reading.retry
        if is_failing and task.status is LookupStatus.FAILED and len(due) > 1:
            follow_again(tracking)
        else:
            due = due[1:]
    for start in range(0, len(due), BLOCK):
        if tracking.run.stops.reason is not None:
            break
        await _follow(tracking, session, due[start : start + BLOCK])
    answered = {LoanWord.FOLLOWED, LoanWord.UNKNOWN_REFERENCE}
    return sum(loan.word in answered for loan in tracking.loans)


async def _follow(
    tracking: Tracking, session: Caller, block: Sequence[Followed]
) -> list[LookupTask]:
    tasks = await session.make([_task(session, loan.offer) for loan in block])
    tracking.ended.update(task.status for task in tasks)
    await asyncio.to_thread(_note, tracking, list(zip(block, tasks, strict=True)))
    return tasks


def follow_again(tracking: Tracking) -> None:
    """Let loans that no answer came about be asked about again: a view changes nothing."""
    for loan in tracking.loans:
        if loan.word is LoanWord.FAILED:
            loan.word = LoanWord.PENDING
    lost = (*ASKED_AGAIN, LookupStatus.IN_DOUBT)
    progress = tracking.run.progress[Operation.LOAN_VIEW]
    progress.take_back(reference for reference in tracking.ended.elements() if reference in lost)
    for status in lost:
        del tracking.ended[status]


def _task(session: Caller, offer: Offer) -> LookupTask:
    assert offer.loan is not None  # noqa: S101 - it has a reference
    request = loans.loan(offer.held.reference or "")
    return session.task(request, kind=SubjectKind.LOAN, subject=offer.loan)


def _note(tracking: Tracking, made: Sequence[tuple[Followed, LookupTask]]) -> None:
    """Write down what was seen in a block, and what is new."""
    now = tracking.run.clock()
    views: list[tuple[Offer, Offer, LoanNews | None]] = []
    for loan, task in made:
        seen = _seen(loan.offer, task)
        if seen is None:
            if task.status in {LookupStatus.FAILED, LookupStatus.IN_DOUBT}:
                loan.word = LoanWord.FAILED
            continue
        loan.word = LoanWord.FOLLOWED if seen.known else LoanWord.UNKNOWN_REFERENCE
        after = _after(loan.offer, seen, now)
        views.append((loan.offer, after, _news(tracking.run.run_id, loan.offer, seen, now)))
        loan.offer = after
    written = tracking.store.follow(views)
    others = {after.offer_id for _, after, _ in views} - written
    if others:
        fresh = {offer.offer_id: offer for offer in tracking.store.linked()}
        for loan, _ in made:
            if loan.offer.offer_id in others:
                loan.offer = fresh.get(loan.offer.offer_id, loan.offer)


def _seen(offer: Offer, task: LookupTask) -> LoanSnapshot | None:
    """Return what an answer says of a loan; None if there was none."""
    reading = task.reading
    if reading is None or reading.verdict is not ChargeStatus.ANSWERED:
        return None
    before = offer.held.seen
    if reading.outcome is Outcome.NOT_FOUND:
        return replace(before, known=False) if before else LoanSnapshot(known=False)
    loan = parse_answer(Operation.LOAN_VIEW, reading.body)
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
    """Return an amount as decimal text, the same however many zeros it came with.

    One beyond what a column of naira holds is no amount of money.
    """
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
        subject=offer.offer_id,
        customer=offer.customer,
        run_id=run_id,
        at=now,
        now=seen,
        before=before,
        before_at=offer.followed_at,
    )
