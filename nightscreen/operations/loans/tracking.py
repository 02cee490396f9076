"""Tracking loans: ask the service about every open reference, and report each change once.

A loan has ended if its status is one of `CLOSED_STATUSES`; a loan with any other status, even an
unknown one, is tracked. An offer stores each view that showed a change with the run that reports
it, so that two concurrent runs never report the same change. The next run reports what a dead run
saw. `loans.parquet` has the `customer_id`, since the lender must know whose loan it is;
`changes.parquet` has pseudonyms and references; the report has numbers and statuses only.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field, replace
from decimal import Decimal
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from nightscreen.client import wire
from nightscreen.client.response_parser import parse_answer
from nightscreen.client.response_rules import ChargeStatus
from nightscreen.files.outputs import CHANGES_FILE, LOANS_FILE
from nightscreen.journal.records import Records
from nightscreen.journal.runs import KILLED
from nightscreen.operations.loans.offers import LoanOffers
from nightscreen.operations.person_run import (
    FAILED,
    PENDING,
    OutputTable,
    Person,
    PersonRun,
    ReportParts,
)
from nightscreen.results.outcomes import linked_offers
from nightscreen.schemas.answers import LoanState
from nightscreen.schemas.calls import LookupStatus
from nightscreen.schemas.checks import Operation, Outcome, SubjectKind
from nightscreen.schemas.enriched import WORD
from nightscreen.schemas.offers import (
    CLOSED_STATUSES,
    LoanSnapshot,
    LoanView,
    Offer,
    TrackingState,
    TrackLoans,
)
from nightscreen.schemas.rows import INSTANT, NAIRA

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from nightscreen.calling.caller import Caller
    from nightscreen.calling.lookup_task import LookupTask
    from nightscreen.calling.run import Run
    from nightscreen.client.classify import CallOutcome

_TOO_LARGE = Decimal(10) ** 15  # amounts from here on do not fit a column of naira

REFERENCE = "reference"
KNOWN, UNKNOWN = "known", "unknown"
_AMOUNTS, _FLAGS = ("loan_amount", "amount_disbursed", "paid"), ("can_request", "can_cancel")
_REPORTED = ("status", *_AMOUNTS, "reject_reason", "can_request")
_INITIAL = frozenset({None, "0.00", "true"})  # values not reported at the first view of a loan


@dataclass(slots=True, kw_only=True)
class Followed(Person):
    """One loan with a reference; its state is a `TrackingState`."""

    offer: Offer = field(repr=False)

    @property
    def seen(self) -> LoanSnapshot:
        """Return the loan as last seen."""
        return self.offer.seen or LoanSnapshot()


class LoanChange(NamedTuple):
    """One field of a loan that had changed when the loan was viewed."""

    view: LoanView
    offer: Offer
    name: str
    old: str | None
    new: str | None


class LoanTracking(PersonRun[TrackLoans, Followed]):
    """A run that tracks loans, in the order they were offered."""

    flow, name, batch = "track_loans", "loans", "loan-tracking"
    operation, kind = Operation.LOAN_VIEW, SubjectKind.LOAN

    def __init__(self, run: Run, parameters: TrackLoans) -> None:
        super().__init__(run, parameters)
        self._offers = Records(run.journal, Offer)

    def load_people(self) -> list[Followed]:
        """Return every loan with a reference, with the views that dead runs did not report."""
        LoanOffers.recover_dead_calls(self.run.journal)
        offers, runs = linked_offers(self.run.journal), self.run.journal.runs
        others = {view.run_id for offer in offers for view in offer.history} - {self.run.run_id}
        dead = {each for each in others if (run := runs.find(each)) is None or run.state == KILLED}
        loans = []
        for offer in (self._take_over_views(each, dead) for each in offers):
            state = PENDING if offer.closed_at is None else TrackingState.CLOSED
            loans.append(Followed(subject=offer.loan or b"", offer=offer, state=state))
        self.rows_read = len(loans)
        return loans

    def _take_over_views(self, offer: Offer, dead: Collection[str]) -> Offer:
        """Assign an offer's views of dead runs to this run, which will report them."""
        history = tuple(
            replace(view, run_id=self.run.run_id) if view.run_id in dead else view
            for view in offer.history
        )
        if history == offer.history:
            return offer
        return self._save(offer, offer.model_copy(update={"history": history}))

    def _save(self, before: Offer, after: Offer) -> Offer:
        """Save a changed offer; return it, or another process's version if that was faster."""
        is_ours = self._offers.replace(after, before, self.run.clock())
        return after if is_ours else self._offers.find(before.key) or after

    async def ask_person(self, caller: Caller, person: Followed) -> bool:
        """Ask about a loan; another process may do the same, since a view changes nothing."""
        request = wire.loan_view(person.offer.reference or "")
        task = caller.task(request, kind=self.kind, subject=person.subject)
        person.task = await caller.make_call(task)
        await asyncio.to_thread(self.save_result, person, person.task)
        return True

    def save_result(self, person: Followed, task: LookupTask) -> None:
        """Save a view of a loan, in its history if anything changed.

        If another process has viewed it meanwhile, that process reports the change.
        """
        before, now = person.offer, self.run.clock()
        seen = _seen(before, task.reading)
        if seen is None:
            person.state = PENDING if task.status is LookupStatus.WAITING else FAILED
            return
        person.state = TrackingState.FOLLOWED if seen.known else TrackingState.UNKNOWN_REFERENCE
        viewed: dict[str, Any] = {
            "followed_at": now,
            "closed_at": now if has_ended(seen) else None,
        }
        if seen != before.seen:
            view = LoanView(now, self.run.run_id, seen, before.followed_at)
            viewed["history"] = (*before.history, view)
        person.offer = self._save(before, before.model_copy(update=viewed))

    def write(self) -> ReportParts:
        """Write the loans and their changes."""
        LOANS.write(self.run.folder, LOANS_FILE, self.people)
        changes = [
            LoanChange(view, each.offer, *different)
            for each in self.people
            for view, before in zip(each.offer.history, (None, *each.offer.history), strict=False)
            if view.run_id == self.run.run_id
            for different in differences(None if before is None else before.now, view.now)
        ]
        changes.sort(key=lambda change: change.view.at)
        LOAN_CHANGES.write(self.run.folder, CHANGES_FILE, changes)
        counts = Counter(str(each.state) for each in self.people)
        unknown = counts[TrackingState.UNKNOWN_REFERENCE]
        if unknown:
            self.run.stops.notices.append(
                f"{unknown:,} references are not known to the service: ask its support, and see "
                f"state unknown_reference in {LOANS_FILE}"
            )
        statuses = Counter(each.seen.status for each in self.people if each.seen.status)
        return ReportParts(
            {"found": counts[TrackingState.FOLLOWED], "not_found": unknown},
            {
                "followed": {state.value: counts[state] for state in TrackingState},
                "statuses": dict(sorted(statuses.items())),
                "changes": _change_counts(changes),
            },
        )


def _seen(offer: Offer, reading: CallOutcome | None) -> LoanSnapshot | None:
    """Return the loan as an answer shows it; None without a usable answer."""
    if reading is None or reading.verdict is not ChargeStatus.ANSWERED:
        return None
    if reading.outcome is Outcome.NOT_FOUND:
        return replace(offer.seen or LoanSnapshot(), known=False)
    loan = parse_answer(Operation.LOAN_VIEW, reading.body)
    if not isinstance(loan, LoanState) or not loan.status:
        return None
    values: dict[str, Any] = {name: _naira(getattr(loan, name)) for name in _AMOUNTS}
    values |= {name: getattr(loan, name) for name in ("status", "reject_reason", *_FLAGS)}
    return LoanSnapshot(**values)


def _naira(amount: Decimal | None) -> Decimal | None:
    """Return an amount rounded to the kobo; None if it does not fit a column of naira."""
    return None if amount is None or abs(amount) >= _TOO_LARGE else round(amount, 2)


def has_ended(seen: LoanSnapshot) -> bool:
    """Return whether a loan has ended, and is not asked about any more."""
    return seen.known and (seen.status or "").strip().upper() in CLOSED_STATUSES


# --- tables ---


def _change_counts(changes: Sequence[LoanChange]) -> dict[str, Any]:
    names = Counter(change.name for change in changes)
    moves = Counter(
        f"{change.old or '(none)'} > {change.new}" for change in changes if change.name == "status"
    )
    return {
        "loans": len({change.offer.reference for change in changes}),
        **{name: names[name] for name in (*_REPORTED, REFERENCE)},
        "moves": dict(sorted(moves.items())),
    }


def differences(
    before: LoanSnapshot | None, current: LoanSnapshot
) -> Iterator[tuple[str, str | None, str | None]]:
    """Yield field, old and new value of each difference.

    At the first view, `before` is None and initial values are left out.
    """
    previous = before or LoanSnapshot()
    if previous.known != current.known:
        yield REFERENCE, *((KNOWN, UNKNOWN) if previous.known else (UNKNOWN, KNOWN))
    for name in _REPORTED:
        old, new = _as_text(getattr(previous, name)), _as_text(getattr(current, name))
        if old != new and not (before is None and new in _INITIAL):
            yield name, old, new


def _as_text(value: object) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return None if value is None else str(value)


_TEXT, _YES_OR_NO = pa.string(), pa.bool_()
_HISTORY = pa.list_(pa.struct([pa.field("status", _TEXT), pa.field("at", INSTANT)]))

LOANS = OutputTable[Followed](
    reference=(_TEXT, lambda loan: loan.offer.reference),
    customer_id=(_TEXT, lambda loan: loan.offer.customer_id),
    product_id=(WORD, lambda loan: loan.offer.product_id),
    state=(WORD, lambda loan: str(loan.state)),
    status=(WORD, lambda loan: loan.seen.status),
    status_at=(
        INSTANT,
        lambda loan: loan.offer.status_history[-1]["at"] if loan.offer.status_history else None,
    ),
    **{name: (NAIRA, attrgetter(f"seen.{name}")) for name in _AMOUNTS},
    reject_reason=(_TEXT, lambda loan: loan.seen.reject_reason),
    can_request=(_YES_OR_NO, lambda loan: loan.seen.can_request),
    can_cancel=(_YES_OR_NO, lambda loan: loan.seen.can_cancel),
    offered_at=(INSTANT, lambda loan: loan.offer.offered_at),
    asked_at=(INSTANT, lambda loan: loan.offer.followed_at),
    closed_at=(INSTANT, lambda loan: loan.offer.closed_at),
    history=(_HISTORY, lambda loan: loan.offer.status_history),
    batch=(WORD, lambda loan: loan.offer.batch),
    screening_run_id=(WORD, lambda loan: loan.offer.source_run_id),
    offer_run_id=(WORD, lambda loan: loan.offer.run_id),
)

LOAN_CHANGES = OutputTable[LoanChange](
    customer=(_TEXT, lambda change: change.offer.customer.hex()),
    reference=(_TEXT, lambda change: change.offer.reference),
    product_id=(WORD, lambda change: change.offer.product_id),
    field=(WORD, lambda change: change.name),
    old=(_TEXT, lambda change: change.old),
    new=(_TEXT, lambda change: change.new),
    previous_at=(INSTANT, lambda change: change.view.before_at),
    seen_at=(INSTANT, lambda change: change.view.at),
    batch=(WORD, lambda change: change.offer.batch),
    run_id=(WORD, lambda change: change.view.run_id),
)
