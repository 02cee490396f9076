"""Loan offers and loan tracking: states, parameters, and an offer as the journal stores it.

`schemas/answers.py` has the service's data about a loan; `operations/loans.py` decides who
gets an offer.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal  # noqa: TC003 - pydantic reads it
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import Field

from nightscreen.schemas.api_runs import ApiRunParameters, ContactName, Option
from nightscreen.schemas.records import Ground, JournalRecord

DecisionName = Literal["approve", "review", "decline", "undecided"]

CLOSED_STATUSES = frozenset({"SETTLED", "CANCELLED", "CANCELED", "REJECTED"})
"""Statuses after which a loan is not asked about again, in upper or lower case.

The specification lists no statuses. A loan with any other status, even a new one, is tracked.
"""


class LinkState(StrEnum):
    """The progress of making one link, as stored in the journal."""

    STARTING = "starting"  # the call is being made, or its process died meanwhile
    OFFERED = "offered"
    IN_DOUBT = "in_doubt"
    """The call was sent and its answer lost: there may be a link that is not known here."""


class OfferState(StrEnum):
    """The result for a customer in a run of offers (`offers.parquet`, column `state`)."""

    OFFERED = "offered"
    ALREADY_OFFERED = "already_offered"
    IN_DOUBT = "in_doubt"
    FAILED = "failed"
    NO_CONTACT = "no_contact"
    SUPERSEDED = "superseded"  # a reviewer or a later run has changed the decision
    NO_REQUEST = "no_request"
    """The customer has asked for no loan, and unsolicited offers were not chosen."""
    CONTESTED = "contested"
    """The customer has an open contest: nothing is offered until it is answered."""
    PENDING = "pending"  # not reached: the run stopped


class TrackingState(StrEnum):
    """The result for a reference in a run that tracks loans (`loans.parquet`, column `state`)."""

    FOLLOWED = "followed"
    UNKNOWN_REFERENCE = "unknown_reference"
    FAILED = "failed"
    PENDING = "pending"
    CLOSED = "closed"  # it had ended before, so it was not asked about


@dataclass(frozen=True, slots=True)
class LoanSnapshot:
    """The last known state of a loan, compared from day to day; money in naira."""

    # the service's own; the last known if the service no longer knows the reference
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
    """A view of a loan that showed a change."""

    at: int
    run_id: str  # the run that reports the change
    now: LoanSnapshot
    # when the service last answered about the loan before; None at the first view
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
        batch: batch name of the screening run that it is based on.
        run_id: the run that made it.
    """

    key: str = Field(default_factory=lambda values: values["subject"].hex())
    product_id: str
    number: int  # from 1; higher if another link was requested (`again`)
    source_run_id: str  # the screening run that it is based on
    decision: str
    state: LinkState
    customer_id: str = Field(repr=False)
    email: str | None = Field(None, repr=False)
    phone: str | None = Field(None, repr=False)
    reference: str | None = Field(None, repr=False)
    url: str | None = Field(None, repr=False)
    history: tuple[LoanView, ...] = Field((), repr=False)  # of the loan, oldest first
    offered_at: int | None = None
    loan: bytes | None = None  # pseudonym of the reference; subject of the calls that track it
    followed_at: int | None = None  # when the service last answered about it
    closed_at: int | None = None  # when it was seen to have ended

    @property
    def subjects(self) -> set[bytes]:
        """Return the subjects of the calls that made the link and tracked the loan."""
        return {self.subject, self.loan or self.subject}

    @property
    def seen(self) -> LoanSnapshot | None:
        """Return the last known state of the loan."""
        return self.history[-1].now if self.history else None

    @property
    def status_history(self) -> list[dict[str, Any]]:
        """Return the loan's statuses in order, and when each was first seen."""
        statuses: list[dict[str, Any]] = []
        for view in self.history:
            status = view.now.status
            if status is not None and (not statuses or statuses[-1]["status"] != status):
                statuses.append({"status": status, "at": view.at})
        return statuses


class OfferLoans(ApiRunParameters):
    """Parameters of a run that offers a loan product."""

    run_dir: Annotated[
        str, Option(argument="RUN_DIR", help="Folder of a finished screening run.")
    ] = Field(
        "",
        title="Folder of the run",
        description="Folder of a finished screening run on the worker's machine. May be left out "
        "if an earlier run of offers is resumed.",
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
        description="The customer's data that are sent to the service to fill in the form; empty: "
        "none.",
    )
    unsolicited: bool = Field(
        default=False,
        title="Unsolicited offers",
        description="Offer credit to customers of a portfolio run who did not apply. Unsolicited, "
        "pre-approved credit is restricted: let counsel decide first.",
    )
    again: bool = Field(
        default=False,
        title="Another link",
        description="Make another link if the last one is in doubt, or its loan has ended. "
        "Otherwise nobody gets a second link for a product.",
    )


class TrackLoans(ApiRunParameters):
    """Parameters of a run that tracks every open reference."""
