"""Outcomes of loans: a loan's day as in a file, what counts as bad, what is stored.

An outcome is a kind of `journal/records.py`: one for each loan, tied to the decision that
was valid when the money was paid out. Reports about outcomes are in `results/outcomes.py`.
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
    YOUNG = "young"  # not bad so far, and not old enough to be good


class OutcomeSource(StrEnum):
    """Who says so: the lender's own file, or the loan was followed here."""

    FILE = "file"
    FOLLOWED = "followed"


class BadLoan(BaseModel):
    """What counts as bad; each of the parts is enough."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    days_past_due: int = Field(30, ge=1, le=3650)  # so many days past due ...
    within_days: int = Field(60, ge=1, le=3650)  # ... reached within so many days of the due date
    # nothing at all paid so many days after the first of several payments was due; 0 switches it
    # off
    first_payment_days: int = Field(7, ge=0, le=3650)
    written_off: bool = True
    restructured: bool = False


class Arrears(BaseModel):
    """A time without a break in which a loan was past due.

    A loan that is K days past due on day D has been so since D - K: that is why a file a week is as
    good as one a day.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    since: date  # when the oldest unpaid amount was due
    days: int  # the most days past due that were seen of it
    unpaid_days: int = 0  # the most days past due at which nothing at all had been paid


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
        """Return what the day says of being past due; nothing where the loan is not."""
        if self.days_past_due <= 0:
            return ()
        since = self.as_of - timedelta(days=self.days_past_due)
        unpaid = self.days_past_due if self.paid is not None and not self.paid else 0
        return (Arrears(since=since, days=self.days_past_due, unpaid_days=unpaid),)


class DecisionAsOf(BaseModel):
    """The decision that was valid when the money was paid out."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    batch: str
    run_id: str  # the last run that had decided about the customer by then
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
    """What is known of one loan; `key` is the pseudonym of its id."""

    customer_id: str = Field(repr=False)
    loan_id: str = Field(repr=False)
    source: OutcomeSource
    disbursed_at: int  # when the money was paid out, microseconds
    last: LoanDay  # the newest day
    earlier: tuple[Arrears, ...] = ()  # times past due from days before the newest one
    ever_restructured: bool = False  # any day said so
    # the decision that was valid; None if no run had decided about the customer
    stood: DecisionAsOf | None = None

    @property
    def state(self) -> LoanStanding:
        """Return the loan's status."""
        return self.last.standing

    @property
    def arrears(self) -> tuple[Arrears, ...]:
        """Return every time the loan was past due."""
        return merged((*self.earlier, *self.last.arrears))

    def with_day(self, day: LoanDay) -> LoanOutcome:
        """Return the outcome with one more day: a later one replaces, an earlier one is added.

        The same day again is a correction.
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
        """Return the outcome with all that a new one adds about the same loan.

        The decision is kept as it was first found: its evidence may have been purged since.
        """
        earlier = merged((*self.earlier, *new.earlier))
        found = self.model_copy(update={"earlier": earlier}).with_day(new.last)
        restructured = found.ever_restructured or new.ever_restructured
        found = found.model_copy(update={"ever_restructured": restructured})
        if found.last is not new.last:
            return found
        same = (self.customer, self.disbursed_at) == (new.customer, new.disbursed_at)
        known = self.stood is not None and same
        names = ("customer", "customer_id", "source", "disbursed_at")
        changed = {name: getattr(new, name) for name in names}
        if not known:
            changed |= {name: getattr(new, name) for name in ("stood", "batch", "run_id")}
        return found.model_copy(update=changed)

    def judge(self, bad: BadLoan) -> OutcomeClass | None:
        """Return what the loan counts as; None where it is no outcome.

        The due date is the maturity date; without one, and for a payment before it, the day since
        which the loan is past due. A loan is good once it is paid back, or when the time in which
        it can become bad has passed.
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
        """Return the naira that were not paid back; None where the file does not say."""
        if self.last.outstanding is not None:
            return self.last.outstanding
        if self.last.principal is None or self.last.paid is None:
            return None
        return max(self.last.principal - self.last.paid, Decimal(0))


def merged(spells: Iterable[Arrears]) -> tuple[Arrears, ...]:
    """Return times past due, each once; of one that is seen again the most days count."""
    found: dict[date, Arrears] = {}
    for each in spells:
        same = found.get(each.since, each)
        found[each.since] = Arrears(
            since=each.since,
            days=max(same.days, each.days),
            unpaid_days=max(same.unpaid_days, each.unpaid_days),
        )
    return tuple(found.values())
