"""Offers of loans and loans followed: words, parameters, and one offer as the journal keeps it.

What does not belong here: the service's data about a loan (`schemas/answers.py`), who gets which
offer (`operations/loans/offers.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal  # noqa: TC003 - pydantic reads it
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import Field

from nightscreen.schemas.api_runs import ApiRunParameters, ContactName, Option, QuotedRunParameters
from nightscreen.schemas.records import Ground, JournalRecord

DecisionName = Literal["approve", "review", "decline", "undecided"]

CLOSED_WORDS = frozenset({"SETTLED", "CANCELLED", "CANCELED", "REJECTED"})
"""Status words after which a loan is not asked about again, in any case of letters.

The specification shows no states of a loan. Any other word, a new one too, is kept and followed.
"""


class LinkState(StrEnum):
    """The progress of making one link, as stored in the journal."""

    STARTING = "starting"  # the call is being made, or its process died while it was
    OFFERED = "offered"
    IN_DOUBT = "in_doubt"
    """The call was sent and its answer lost: there may be a link that nobody here knows."""


class OfferWord(StrEnum):
    """The result for a customer in a run of offers (`offers.parquet`, column `state`)."""

    OFFERED = "offered"
    ALREADY_OFFERED = "already_offered"
    IN_DOUBT = "in_doubt"
    FAILED = "failed"
    NO_CONTACT = "no_contact"
    SUPERSEDED = "superseded"  # a reviewer, or a later run, has decided otherwise since
    NO_REQUEST = "no_request"
    """The customer has asked for no loan, and unsolicited offers were not chosen."""
    CONTESTED = "contested"
    """The customer contests something: nothing is offered until it is answered."""
    PENDING = "pending"  # not reached: the run stopped, or the requested number of links was made


class LoanWord(StrEnum):
    """The result for a reference in a run that tracks loans (`loans.parquet`, column `state`)."""

    FOLLOWED = "followed"
    UNKNOWN_REFERENCE = "unknown_reference"
    FAILED = "failed"
    PENDING = "pending"
    CLOSED = "closed"  # it had ended before; it was not asked about


@dataclass(frozen=True, slots=True)
class LoanSnapshot:
    """The last known state of a loan, compared from day to day; money in naira."""

    # the service's own word; the last one where the reference is not known any more
    status: str | None = None
    known: bool = True  # the service knows the reference
    loan_amount: Decimal | None = None
    amount_disbursed: Decimal | None = None
    paid: Decimal | None = None
    reject_reason: str | None = None
    can_request: bool | None = None
    can_cancel: bool | None = None


@dataclass(frozen=True, slots=True)
class LoanView:
    """A view of a loan that showed something new."""

    at: int
    run_id: str  # the run that reports what is new
    now: LoanSnapshot
    # when the service had last answered about the loan; None at the first view
    before_at: int | None = None


class Offer(
    JournalRecord,
    kind="offer",
    period_from=("closed_at", "followed_at", "offered_at", "at"),
    ground=Ground.DECISIONS,
    section="loan_offers",
    everywhere=True,
    unshown={"loan"},
):
    """One offer of one product to one customer, made `at`; instants in microseconds.

    Attributes:
        subject: pseudonym of customer, product and number; also the subject of its call.
        batch: batch name of the screening run that it rests on.
        run_id: the run that made it.
    """

    key: str = Field(default_factory=lambda found: found["subject"].hex())
    product_id: str
    number: int  # 1, and more where another link was asked for on purpose
    source_run_id: str  # the screening run that it rests on
    decision: str
    state: LinkState
    customer_id: str = Field(repr=False)
    email: str | None = Field(None, repr=False)
    phone: str | None = Field(None, repr=False)
    reference: str | None = Field(None, repr=False)
    url: str | None = Field(None, repr=False)
    history: tuple[LoanView, ...] = Field((), repr=False)  # of the loan, oldest first
    offered_at: int | None = None
    loan: bytes | None = None  # pseudonym of the reference; subject of the calls that follow it
    followed_at: int | None = None  # when the service last answered about it
    closed_at: int | None = None  # when it was seen to have ended

    @property
    def subjects(self) -> set[bytes]:
        """Return what the calls that made the link and followed the loan are found by."""
        return {self.subject, self.loan or self.subject}

    @property
    def seen(self) -> LoanSnapshot | None:
        """Return the last known state of the loan."""
        return self.history[-1].now if self.history else None

    @property
    def words(self) -> list[dict[str, Any]]:
        """Return each status word the loan has had, and when it was first seen."""
        found: list[dict[str, Any]] = []
        for view in self.history:
            word = view.now.status
            if word is not None and (not found or found[-1]["status"] != word):
                found.append({"status": word, "at": view.at})
        return found


class OfferLoans(QuotedRunParameters):
    """Who is offered which product."""

    run_dir: Annotated[
        str, Option(argument="RUN_DIR", help="Folder of a finished screening run.")
    ] = Field(
        "",
        title="Folder of the run",
        description="Folder of a finished screening run on the worker's machine. May be left out "
        "where an earlier run of offers is resumed.",
    )
    product: str = Field(
        "",
        title="Product",
        description="Id of a product of the list; see: nightscreen loans products",
        max_length=200,
    )
    decisions: Annotated[list[DecisionName], Option(names=("--decision",))] = Field(
        default=["approve"],
        title="Decisions",
        description="Customers with one of these decisions are offered the product.",
        min_length=1,
    )
    prefill: list[ContactName] = Field(
        default=["email", "phone"],
        title="Fill in for the customer",
        description="What is sent to the service about the customer, so that the form shows it.",
    )
    most: Annotated[int | None, Option(names=("--max",))] = Field(
        default=None,
        title="At most",
        description="Make no more new links than this.",
        ge=1,
    )
    unsolicited: bool = Field(
        default=False,
        title="Unsolicited offers",
        description="Offer credit to customers of a portfolio run who asked for none. Unsolicited, "
        "pre-approved credit is restricted: let counsel decide first.",
    )
    again: bool = Field(
        default=False,
        title="Another link",
        description="Make another link where the last one is in doubt, or its loan has ended. "
        "Without it nobody gets a second link for a product.",
    )


class TrackLoans(ApiRunParameters):
    """Follow every open reference; there is nothing to choose."""
