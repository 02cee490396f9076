"""Track loans: ask about every open reference, and report each change once.

A loan has ended if its status is one of `CLOSED_WORDS`; any other status, even an unknown one, is
saved and tracked further. An offer stores each view with a change, and the run that reports it, so
that two runs at once never report the same change; the next run reports what a dead run has seen.
`loans.parquet` has customers by `customer_id`, since the lender must know whose loan it is;
`changes.parquet` has pseudonym and reference; the report has only numbers and statuses.
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
    CLOSED_WORDS,
    LoanSnapshot,
    LoanView,
    LoanWord,
    Offer,
    TrackLoans,
)
from nightscreen.schemas.rows import INSTANT, NAIRA

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from nightscreen.calling.caller import Caller
    from nightscreen.calling.lookup_task import LookupTask
    from nightscreen.calling.run import Run
    from nightscreen.client.classify import CallOutcome

_TOO_MUCH = Decimal(10) ** 15  # more than a column of naira can hold is not a valid amount

REFERENCE = "reference"
KNOWN, UNKNOWN = "known", "unknown"
_AMOUNTS, _FLAGS = ("loan_amount", "amount_disbursed", "paid"), ("can_request", "can_cancel")
_TOLD = ("status", *_AMOUNTS, "reject_reason", "can_request")
_NOTHING = frozenset({None, "0.00", "true"})  # values not reported at the first view of a loan


@dataclass(slots=True, kw_only=True)
class Followed(Person):
    """One loan with a reference; its word is a `LoanWord`."""

    offer: Offer = field(repr=False)

    @property
    def seen(self) -> LoanSnapshot:
        """Return its last view."""
        return self.offer.seen or LoanSnapshot()


class LoanChange(NamedTuple):
    """One field of a loan that changed at a view."""

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
        """Find every loan with a reference, and take over the unreported views of dead runs."""
        LoanOffers.learn_dead(self.run.journal)
        offers, runs = linked_offers(self.run.journal), self.run.journal.runs
        others = {view.run_id for offer in offers for view in offer.history} - {self.run.run_id}
        dead = {each for each in others if (run := runs.find(each)) is None or run.state == KILLED}
        found = []
        for offer in (self._taken_over(each, dead) for each in offers):
            word = PENDING if offer.closed_at is None else LoanWord.CLOSED
            found.append(Followed(subject=offer.loan or b"", offer=offer, word=word))
        self.rows_read = len(found)
        return found

    def _taken_over(self, offer: Offer, dead: Collection[str]) -> Offer:
        """Return an offer after assigning the unreported views of dead runs to this run."""
        history = tuple(
            replace(view, run_id=self.run.run_id) if view.run_id in dead else view
            for view in offer.history
        )
        if history == offer.history:
            return offer
        return self._kept(offer, offer.model_copy(update={"history": history}))

    def _kept(self, before: Offer, after: Offer) -> Offer:
        """Save an offer; return the saved one, which another process may have changed first."""
        is_ours = self._offers.replace(after, before, self.run.clock())
        return after if is_ours else self._offers.find(before.key) or after

    async def ask_person(self, caller: Caller, person: Followed) -> bool:
        """Ask about a loan, even if another process does: a view changes nothing."""
        request = wire.loan_view(person.offer.reference or "")
        task = caller.task(request, kind=self.kind, subject=person.subject)
        person.task = await caller.make_call(task)
        await asyncio.to_thread(self.save_result, person, person.task)
        return True

    def save_result(self, person: Followed, task: LookupTask) -> None:
        """Save a loan's view and its changes.

        If another process has saved a view meanwhile, that process reports its changes.
        """
        before, now = person.offer, self.run.clock()
        seen = _seen(before, task.reading)
        if seen is None:
            person.word = PENDING if task.status is LookupStatus.WAITING else FAILED
            return
        person.word = LoanWord.FOLLOWED if seen.known else LoanWord.UNKNOWN_REFERENCE
        viewed: dict[str, Any] = {
            "followed_at": now,
            "closed_at": now if has_ended(seen) else None,
        }
        if seen != before.seen:
            view = LoanView(now, self.run.run_id, seen, before.followed_at)
            viewed["history"] = (*before.history, view)
        person.offer = self._kept(before, before.model_copy(update=viewed))

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
        counts = Counter(str(each.word) for each in self.people)
        unknown = counts[LoanWord.UNKNOWN_REFERENCE]
        if unknown:
            self.run.stops.notices.append(
                f"{unknown:,} references are not known to the service: ask its support, and see "
                f"state unknown_reference in {LOANS_FILE}"
            )
        statuses = Counter(each.seen.status for each in self.people if each.seen.status)
        return ReportParts(
            {"found": counts[LoanWord.FOLLOWED], "not_found": unknown},
            {
                "followed": {word.value: counts[word] for word in LoanWord},
                "statuses": dict(sorted(statuses.items())),
                "changes": _account(changes),
            },
        )


def _seen(offer: Offer, reading: CallOutcome | None) -> LoanSnapshot | None:
    """Return a loan's view from an answer; None without an answer."""
    if reading is None or reading.verdict is not ChargeStatus.ANSWERED:
        return None
    if reading.outcome is Outcome.NOT_FOUND:
        return replace(offer.seen or LoanSnapshot(), known=False)
    loan = parse_answer(Operation.LOAN_VIEW, reading.body)
    if not isinstance(loan, LoanState) or not loan.status:
        return None
    shown: dict[str, Any] = {name: _naira(getattr(loan, name)) for name in _AMOUNTS}
    shown |= {name: getattr(loan, name) for name in ("status", "reject_reason", *_FLAGS)}
    return LoanSnapshot(**shown)


def _naira(amount: Decimal | None) -> Decimal | None:
    """Return an amount rounded to kobo; None if a column of naira cannot hold it."""
    return None if amount is None or abs(amount) >= _TOO_MUCH else round(amount, 2)


def has_ended(seen: LoanSnapshot) -> bool:
    """Return whether a loan has ended, so that it is no longer asked about."""
    return seen.known and (seen.status or "").strip().upper() in CLOSED_WORDS


# --- tables ---


def _account(changes: Sequence[LoanChange]) -> dict[str, Any]:
    """Return the numbers of changes for the report."""
    names = Counter(change.name for change in changes)
    moves = Counter(
        f"{change.old or '(none)'} > {change.new}" for change in changes if change.name == "status"
    )
    return {
        "loans": len({change.offer.reference for change in changes}),
        **{name: names[name] for name in (*_TOLD, REFERENCE)},
        "moves": dict(sorted(moves.items())),
    }


def differences(
    before: LoanSnapshot | None, now: LoanSnapshot
) -> Iterator[tuple[str, str | None, str | None]]:
    """Yield field, old and new value of each change; at a first view only notable values."""
    was = before or LoanSnapshot()
    if was.known != now.known:
        yield REFERENCE, *((KNOWN, UNKNOWN) if was.known else (UNKNOWN, KNOWN))
    for name in _TOLD:
        old, new = _plain(getattr(was, name)), _plain(getattr(now, name))
        if old != new and not (before is None and new in _NOTHING):
            yield name, old, new


def _plain(value: object) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return None if value is None else str(value)


_TEXT, _YES_OR_NO = pa.string(), pa.bool_()
_HISTORY = pa.list_(pa.struct([pa.field("status", _TEXT), pa.field("at", INSTANT)]))

LOANS = OutputTable[Followed](
    reference=(_TEXT, lambda loan: loan.offer.reference),
    customer_id=(_TEXT, lambda loan: loan.offer.customer_id),
    product_id=(WORD, lambda loan: loan.offer.product_id),
    state=(WORD, lambda loan: str(loan.word)),
    status=(WORD, lambda loan: loan.seen.status),
    status_at=(INSTANT, lambda loan: loan.offer.words[-1]["at"] if loan.offer.words else None),
    **{name: (NAIRA, attrgetter(f"seen.{name}")) for name in _AMOUNTS},
    reject_reason=(_TEXT, lambda loan: loan.seen.reject_reason),
    can_request=(_YES_OR_NO, lambda loan: loan.seen.can_request),
    can_cancel=(_YES_OR_NO, lambda loan: loan.seen.can_cancel),
    offered_at=(INSTANT, lambda loan: loan.offer.offered_at),
    asked_at=(INSTANT, lambda loan: loan.offer.followed_at),
    closed_at=(INSTANT, lambda loan: loan.offer.closed_at),
    history=(_HISTORY, lambda loan: loan.offer.words),
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
