"""Outcomes of loans: a loan's state on a day, what counts as bad, and the stored record.

An outcome is a kind of `journal/records.py`: one per loan, with the decision that was valid when
the money was paid out. `results/outcomes.py` reports on them.
"""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field

from nightscreen.schemas.records import Ground, JournalRecord

if TYPE_CHECKING:
    from collections.abc import Iterable

OUTCOMES_BATCH = "loan-outcomes"  # batch name of imports, and of outcomes without a known decision
OUTCOMES_FLOW = "import_outcomes"


class LoanStanding(StrEnum):
    """The status of a loan on a day (column `outcome` of `data/loan_statuses.csv`)."""

    OPEN = "open"
    PAST_DUE = "past_due"
    RESTRUCTURED = "restructured"
    CLOSED = "closed"
    WRITTEN_OFF = "written_off"
    NOT_LENT = "not_lent"  # reversed, declined, never paid out: no outcome


class OutcomeClass(StrEnum):
    """What a loan counts as."""

    GOOD = "good"
    BAD = "bad"
    YOUNG = "young"  # not bad so far, but too recent to count as good


class OutcomeSource(StrEnum):
    """The source: the lender's own file, or loan tracking."""

    FILE = "file"
    FOLLOWED = "followed"


class BadLoan(BaseModel):
    """What counts as a bad loan; any one condition is enough."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    days_past_due: int = Field(30, ge=1, le=3650)  # bad if this many days past due ...
    within_days: int = Field(60, ge=1, le=3650)  # ... within this many days of the due date
    # bad if nothing was paid this many days after the first of several payments was due; 0: off
    first_payment_days: int = Field(7, ge=0, le=3650)
    written_off: bool = True
    restructured: bool = False


class Arrears(BaseModel):
    """A continuous period in which a loan was past due.

    A loan that is K days past due on day D has been so since D - K, so a weekly file is as good as
    a daily one.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    since: date  # when the oldest unpaid amount was due
    days: int  # the most days past due that were seen
    unpaid_days: int = 0  # the most days past due at which nothing had been paid


class LoanDay(BaseModel):
    """The state of a loan on a day; money in naira, None if it is not known."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    as_of: date
    standing: LoanStanding
    status: str = ""
    principal: Decimal | None = None
    maturity_date: date | None = None
    due: Decimal | None = None
    paid: Decimal | None = None
    outstanding: Decimal | None = None
    days_past_due: int = 0
    written_off_at: date | None = None
    restructured: bool = False

    @property
    def arrears(self) -> tuple[Arrears, ...]:
        """Return the period past due that the day shows; empty if the loan is not past due."""
        if self.days_past_due <= 0:
            return ()
        since = self.as_of - timedelta(days=self.days_past_due)
        unpaid = self.days_past_due if self.paid is not None and not self.paid else 0
        return (Arrears(since=since, days=self.days_past_due, unpaid_days=unpaid),)


class DecisionAsOf(BaseModel):
    """The decision that was valid when the money was paid out."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    batch: str
    run_id: str  # the customer's last run by then
    decision: str
    decided_by: str = "policy"  # `policy` or `review`
    reasons: tuple[str, ...] = ()
    policy: str | None = None


class LoanOutcome(
    JournalRecord,
    kind="outcome",
    ground=Ground.DECISIONS,
    section="loan_outcomes",
    everywhere=True,
    always_in=OUTCOMES_BATCH,
):
    """The known history of one loan; `key` is the pseudonym of its id."""

    customer_id: str = Field(repr=False)
    loan_id: str = Field(repr=False)
    source: OutcomeSource
    disbursed_at: int  # when the money was paid out, microseconds
    last: LoanDay  # the newest day
    earlier: tuple[Arrears, ...] = ()  # periods past due from days before the newest one
    ever_restructured: bool = False  # on any day
    # the decision that was valid; None if the customer had none
    stood: DecisionAsOf | None = None

    @property
    def state(self) -> LoanStanding:
        """Return the loan's status."""
        return self.last.standing

    @property
    def arrears(self) -> tuple[Arrears, ...]:
        """Return every period in which the loan was past due."""
        return merged((*self.earlier, *self.last.arrears))

    def with_day(self, day: LoanDay) -> LoanOutcome:
        """Return the outcome with one more day.

        A later day replaces the last one, the same day corrects it, an earlier day adds arrears.
        """
        last, earlier = self.last, self.earlier
        if day.as_of > last.as_of:
            last, earlier = day, self.arrears
        elif day.as_of == last.as_of:
            last = day
        else:
            earlier = merged((*earlier, *day.arrears))
        restructured = self.ever_restructured or day.restructured
        changed = {"last": last, "earlier": earlier, "ever_restructured": restructured}
        return self.model_copy(update=changed)

    def joined(self, new: LoanOutcome) -> LoanOutcome:
        """Return the outcome merged with a new one of the same loan.

        The decision that was found first is kept: its evidence may have been purged since.
        """
        earlier = merged((*self.earlier, *new.earlier))
        joined = self.model_copy(update={"earlier": earlier}).with_day(new.last)
        restructured = joined.ever_restructured or new.ever_restructured
        joined = joined.model_copy(update={"ever_restructured": restructured})
        if joined.last is not new.last:
            return joined
        is_same = (self.customer, self.disbursed_at) == (new.customer, new.disbursed_at)
        has_decision = self.stood is not None and is_same
        names = ("customer", "customer_id", "source", "disbursed_at")
        changed = {name: getattr(new, name) for name in names}
        if not has_decision:
            changed |= {name: getattr(new, name) for name in ("stood", "batch", "run_id")}
        return joined.model_copy(update=changed)

    def judge(self, bad: BadLoan) -> OutcomeClass | None:
        """Return what the loan counts as; None if it was not lent.

        The due date is the maturity date; without one, and for an earlier payment, it is the day
        since which the loan is past due. A loan is good once it is paid back, or when it can no
        longer become bad.
        """
        last, arrears = self.last, self.arrears
        if last.standing is LoanStanding.NOT_LENT:
            return None
        due = last.maturity_date
        late = any(
            spell.days >= bad.days_past_due
            and (spell.since - min(due or spell.since, spell.since)).days + bad.days_past_due
            <= max(bad.within_days, bad.days_past_due)
            for spell in arrears
        )
        missed = bad.first_payment_days and any(
            spell.unpaid_days >= bad.first_payment_days and due is not None and spell.since < due
            for spell in arrears
        )
        lost = bad.written_off and (
            last.standing is LoanStanding.WRITTEN_OFF or last.written_off_at is not None
        )
        if late or missed or lost or (bad.restructured and self.ever_restructured):
            return OutcomeClass.BAD
        if last.standing is LoanStanding.CLOSED:
            return OutcomeClass.GOOD
        over = due is not None and last.as_of >= due + timedelta(days=bad.within_days)
        return OutcomeClass.GOOD if over else OutcomeClass.YOUNG

    @property
    def lost(self) -> Decimal | None:
        """Return the naira that were not paid back; None if not known."""
        if self.last.outstanding is not None:
            return self.last.outstanding
        if self.last.principal is None or self.last.paid is None:
            return None
        return max(self.last.principal - self.last.paid, Decimal(0))


def merged(spells: Iterable[Arrears]) -> tuple[Arrears, ...]:
    """Return each period past due once; of a repeated one the most days count."""
    by_start: dict[date, Arrears] = {}
    for spell in spells:
        known = by_start.setdefault(spell.since, spell)
        if known is not spell:
            by_start[spell.since] = Arrears(
                since=spell.since,
                days=max(known.days, spell.days),
                unpaid_days=max(known.unpaid_days, spell.unpaid_days),
            )
    return tuple(by_start.values())
