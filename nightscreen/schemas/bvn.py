"""BVN consent in two calls: states, parameters, and a request as the journal stores it.

`operations/bvn.py` derives a state from an answer. No shape here holds a one-time password.
"""

from __future__ import annotations

import secrets
from datetime import date  # noqa: TC003 - pydantic reads it
from enum import StrEnum
from functools import partial
from typing import Annotated

from pydantic import Field, field_validator

from nightscreen.schemas.api_runs import ApiRunParameters, ContactName, Option
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
"""The searched state of a request with a call under way."""


class Doubt(StrEnum):
    """Which of the two calls was sent without an answer."""

    START = "start"
    FINISH = "finish"


class BvnRequest(
    JournalRecord,
    kind="bvn_request",
    period_from=("at",),
    ground=Ground.CONSENTS,
    section="bvn_requests",
    everywhere=True,
    unshown={"finish_run_id", "finishing"},
):
    """One request to a customer, made `at`; instants in microseconds, money in micro-naira.

    Attributes:
        subject: pseudonym of the BVN.
        run_id: the run that made it.
    """

    key: str = Field(default_factory=partial(secrets.token_hex, 16))
    consent_reference: str | None
    consent_ends_at: int  # the instant at which the customer's consent ends
    state: BvnState
    doubt: Doubt | None = None  # the call whose answer was lost, if any
    trouble: str | None = None  # why the last call has no answer
    attempts: int = 0  # passwords that the service did not accept
    settled_at: int | None = None
    finish_run_id: str | None = None  # the run whose second call was last answered
    # the run that makes the second call now, or was making it when its process died
    finishing: str | None = None
    cost_micro: int = 0  # the known cost of its calls
    # the lender's data about the customer; the contact is where the service sends the password
    customer_id: str = Field(repr=False)
    bvn: str = Field(repr=False)
    contact: str = Field(repr=False)  # phone number or email
    phone: str | None = Field(None, repr=False)
    first_name: str | None = Field(None, repr=False)
    middle_name: str | None = Field(None, repr=False)
    last_name: str | None = Field(None, repr=False)
    full_name: str | None = Field(None, repr=False)
    date_of_birth: date | None = Field(None, repr=False)
    # the contact the password was sent to, or the registered contact after a refusal, both masked
    # by the service
    masked_contact: str | None = Field(None, repr=False)

    @property
    def searched_state(self) -> str:
        """Return its state, or `UNDER_WAY` if a call is under way or its process died."""
        starting = self.state is BvnState.REQUESTED and self.doubt is None
        return UNDER_WAY if self.finishing or starting else self.state.value

    @property
    def is_open(self) -> bool:
        """Return whether a password may still be supplied."""
        return self.state in OPEN_STATES and self.doubt is not Doubt.FINISH


class RequestBvns(ApiRunParameters):
    """The customers to ask for BVN consent."""

    input: Annotated[str, Option(argument="INPUT", help="CSV, XLSX or Parquet file.")] = Field(
        "",
        title="Input file",
        description="Path of the CSV, XLSX or Parquet file on the worker's machine. "
        "May be left out if an earlier run is resumed.",
    )
    batch: str = Field(
        "",
        title="Batch name",
        description="The name in reports. Default: the file's name without a date.",
        max_length=80,
    )
    _no_identifier = field_validator("batch")(refuse_identifiers)

    mapping: str = Field(
        "", title="Mapping file", description="TOML file that renames, merges or defaults columns."
    )
    contact: ContactName = Field(
        "phone",
        title="Contact",
        description="Where the service sends the password; if it is missing, the other is used.",
    )
    again: bool = Field(
        default=False,
        title="Ask again",
        description="Send a new password to every customer of the file, also to those who were "
        "asked before. Otherwise only those without a request are asked.",
    )
    _no_identifier_in_name = field_validator("input")(refuse_named_after_somebody)


class ConfirmBvns(ApiRunParameters):
    """The passwords that customers supplied."""

    input: Annotated[
        str,
        Option(
            argument="OTPS", help="File with customer_id,otp; remove it once the run has ended."
        ),
    ] = Field(
        "",
        title="File of passwords",
        description="Path of a file with the columns customer_id and otp. It is read and not "
        "copied; remove it once the run has ended, not while it waits for approval.",
    )
    _no_identifier_in_name = field_validator("input")(refuse_named_after_somebody)
