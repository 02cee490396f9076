"""Offers of loans and loans followed: words, parameters, and one offer as the journal keeps it.

What does not belong here: what the service says of a loan (`schemas/loans.py`), who is offered
what (`steps/loans/offering.py`), and how an offer is kept (`storage/journal/loan_offers.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from nightscreen.schemas.api_runs import ApiRunParameters
from nightscreen.schemas.parameters import Option

DecisionName = Literal["approve", "review", "decline", "undecided"]
ContactName = Literal["email", "phone"]

OFFER_FLOW, TRACK_FLOW = "offer_loans", "track_loans"
OFFER_BATCH, TRACK_BATCH = "loan-offers", "loan-tracking"
OFFERS_FILE, OFFERS_CSV, LOANS_FILE = "offers.parquet", "offers.csv", "loans.parquet"

CLOSED_WORDS = frozenset({"SETTLED", "CANCELLED", "CANCELED", "REJECTED"})
"""Status words after which a loan is not asked about again, in any case of letters.

The specification shows no states of a loan. Any other word, a new one too, is kept and followed.
"""


class LinkState(StrEnum):
    """How far the making of one link has come, as the journal has it."""

    STARTING = "starting"
    """The call is being made, or its process died while it was."""
    OFFERED = "offered"
    IN_DOUBT = "in_doubt"
    """The call was sent and its answer lost: there may be a link that nobody here knows."""


class OfferWord(StrEnum):
    """What became of a customer in a run of offers (`offers.parquet`, column `state`)."""

    OFFERED = "offered"
    ALREADY_OFFERED = "already_offered"
    IN_DOUBT = "in_doubt"
    FAILED = "failed"
    NO_CONTACT = "no_contact"
    SUPERSEDED = "superseded"
    """A reviewer, or a later run, has decided otherwise since."""
    NO_REQUEST = "no_request"
    """The customer has asked for no loan, and unsolicited offers were not chosen."""
    CONTESTED = "contested"
    """The customer contests something: nothing is offered until it is answered."""
    PENDING = "pending"
    """Not reached: the run stopped, or as many links as asked for were made."""


class LoanWord(StrEnum):
    """What became of a reference in a run that follows loans (`loans.parquet`, column `state`)."""

    FOLLOWED = "followed"
    UNKNOWN_REFERENCE = "unknown_reference"
    FAILED = "failed"
    PENDING = "pending"
    CLOSED = "closed"
    """It had ended before; it was not asked about."""


@dataclass(frozen=True, slots=True)
class LoanSnapshot:
    """What was last seen of a loan, as it is compared from day to day; money as decimal text.

    Attributes:
        status: the service's own word; the last one where the reference is not known any more.
        known: the service knows the reference.
    """

    status: str | None = None
    known: bool = True
    loan_amount: str | None = None
    amount_disbursed: str | None = None
    paid: str | None = None
    reject_reason: str | None = None
    can_request: bool | None = None
    can_cancel: bool | None = None


@dataclass(frozen=True, slots=True)
class HeldOffer:
    """What is sealed of an offer: who it is for, the link, and what was last seen of the loan."""

    customer_id: str
    product_name: str | None = None
    email: str | None = None
    phone: str | None = None
    reference: str | None = None
    url: str | None = None
    seen: LoanSnapshot | None = None

    def __repr__(self) -> str:
        """Name the shape without the person."""
        return "HeldOffer(***)"


@dataclass(frozen=True, slots=True)
class Offer:
    """One offer of one product to one customer; instants in microseconds.

    Attributes:
        offer_id: pseudonym of customer, product and number; also the subject of its call.
        customer: pseudonym of the customer, the same in every batch name.
        batch: batch name of the screening run that it rests on.
        number: 1, and more where another link was asked for on purpose.
        run_id: the run that made it.
        source_run_id: the screening run.
        renewed: another link was asked for on purpose.
        loan: pseudonym of the reference; subject of the calls that follow it.
        status: the service's last word for the loan.
        status_at: when that word was first seen.
        followed_at: when the service last answered about it.
        closed_at: when it was seen to have ended.
    """

    offer_id: bytes
    customer: bytes
    batch: str
    product_id: str
    number: int
    run_id: str
    source_run_id: str
    decision: str
    state: LinkState
    started_at: int
    held: HeldOffer = field(repr=False)
    offered_at: int | None = None
    renewed: bool = False
    loan: bytes | None = None
    status: str | None = None
    status_at: int | None = None
    followed_at: int | None = None
    closed_at: int | None = None


@dataclass(frozen=True, slots=True)
class LoanNews:
    """What differed at one view of a loan.

    Attributes:
        seen_at: when.
        before: as it was seen before; None at the first view.
        before_at: when that was.
    """

    offer_id: bytes
    customer: bytes
    run_id: str
    seen_at: int
    now: LoanSnapshot = field(repr=False)
    before: LoanSnapshot | None = field(default=None, repr=False)
    before_at: int | None = None


class OfferLoans(ApiRunParameters):
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
        title="Fill in beforehand",
        description="What the service is told of the customer, so that the form shows it.",
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
    include_stopped: bool = Field(
        default=False,
        title="Stopped runs too",
        description="Take rows of a run that was stopped early; what it decided is complete.",
    )


class TrackLoans(ApiRunParameters):
    """Follow every open reference; there is nothing to choose."""
