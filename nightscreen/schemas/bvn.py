"""BVN consent in two calls: its states, its parameters, and one request as the journal keeps it.

How a state follows from an answer is decided in `operations/bvn/states.py`. No shape here ever
holds a one-time password.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import date  # noqa: TC003 - pydantic reads it
from enum import StrEnum
from functools import partial
from typing import Annotated

from pydantic import Field, field_validator

from nightscreen.schemas.api_runs import ContactName, Option, QuotedRunParameters
from nightscreen.schemas.naming import refuse_identifiers, refuse_named_after_somebody
from nightscreen.schemas.records import Ground, JournalRecord


class BvnState(StrEnum):
    """The progress of one customer's request."""

    REQUESTED = "requested"
    """The first call is being made, or its answer was lost: the customer may have a password."""
    AWAITING_OTP = "awaiting_otp"
    CONFIRMED = "confirmed"
    WRONG_OTP = "wrong_otp"
    EXPIRED = "expired"
    UNREACHABLE = "unreachable"
    WRONG_CONTACT = "wrong_contact"
    """The contact is not the registered one, which the service showed masked."""
    ABANDONED = "abandoned"


OPEN_STATES = (BvnState.REQUESTED, BvnState.AWAITING_OTP, BvnState.WRONG_OTP)
"""States in which a one-time password may still be supplied."""
UNDER_WAY = "under_way"
"""Stands for the state of a request with a call under way where requests are searched."""


class Doubt(StrEnum):
    """Which of the two calls was sent and its answer lost."""

    START = "start"
    FINISH = "finish"


@dataclass(frozen=True, slots=True)
class HeldCustomer:
    """The lender's data about a customer, sealed with the request."""

    customer_id: str
    bvn: str
    contact: str  # phone number or email that the service was given
    phone: str | None = None
    first_name: str | None = None
    middle_name: str | None = None
    last_name: str | None = None
    full_name: str | None = None
    date_of_birth: date | None = None
    # where the service says it sent the password; or the registered contact, as it showed it when
    # it refused another
    masked_contact: str | None = None

    def __repr__(self) -> str:
        """Name the shape without the person."""
        return "HeldCustomer(***)"

    @property
    def names(self) -> tuple[str | None, ...]:
        """Return every name field."""
        return self.first_name, self.middle_name, self.last_name, self.full_name


class BvnRequest(
    JournalRecord,
    kind="bvn_request",
    period_from=("at",),
    ground=Ground.CONSENTS,
    section="bvn_requests",
    everywhere=True,
    unshown={"finish_run_id", "finishing"},
):
    """One time a customer was asked, `at`; instants in microseconds, money in micro-naira.

    Attributes:
        subject: pseudonym of the BVN.
        run_id: the run that asked.
    """

    key: str = Field(default_factory=partial(secrets.token_hex, 16))
    consent_reference: str | None
    consent_ends_at: int  # instant from which the customer's consent is no longer valid
    state: BvnState
    held: HeldCustomer = Field(repr=False)
    doubt: Doubt | None = None  # the call whose answer was lost, if one was
    trouble: str | None = None  # why the last call has no answer
    attempts: int = 0  # passwords that were sent on and not accepted
    settled_at: int | None = None
    finish_run_id: str | None = None  # the run whose password the service last answered about
    # the run that makes the second call now, or did when its process died
    finishing: str | None = None
    cost_micro: int = 0  # the known cost of its calls

    @property
    def searched_state(self) -> str:
        """Return how it stands, or that one of its calls is under way, or was as a process died."""
        starting = self.state is BvnState.REQUESTED and self.doubt is None
        return UNDER_WAY if self.finishing or starting else self.state.value

    @property
    def is_open(self) -> bool:
        """Return whether a password may still be supplied."""
        return self.state in OPEN_STATES and self.doubt is not Doubt.FINISH


class RequestBvns(QuotedRunParameters):
    """The customers to ask for BVN consent."""

    input: Annotated[str, Option(argument="INPUT", help="CSV, XLSX or Parquet file.")] = Field(
        "",
        title="Input file",
        description="Path of the CSV, XLSX or Parquet file on the worker's machine. "
        "May be left out where an earlier run is resumed.",
    )
    batch: str = Field(
        "",
        title="Batch name",
        description="Under this name the requests are reported. Default: the file's name without a "
        "date.",
        max_length=80,
    )
    _nobodys_name = field_validator("batch")(refuse_identifiers)

    mapping: str = Field(
        "", title="Mapping file", description="TOML file that renames, merges or defaults columns."
    )
    contact: ContactName = Field(
        "phone",
        title="Contact",
        description="Where the service sends the password; the other is used where it is missing.",
    )
    again: bool = Field(
        default=False,
        title="Ask again",
        description="Send a new password to every customer of the file, also to those who were "
        "asked before. Without it only those without a request are asked.",
    )
    _nobodys_file = field_validator("input")(refuse_named_after_somebody)


class ConfirmBvns(QuotedRunParameters):
    """The passwords that customers supplied."""

    input: Annotated[
        str, Option(argument="OTPS", help="File with customer_id,otp; remove it afterwards.")
    ] = Field(
        "",
        title="File of passwords",
        description="Path of a file with the columns customer_id and otp. It is read and not "
        "copied; remove it afterwards.",
    )
    _nobodys_file = field_validator("input")(refuse_named_after_somebody)
