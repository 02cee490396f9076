"""Known columns of input files, their identifiers, and flaws of these."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntFlag
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from nightscreen.schemas.checks import IdentityKind

if TYPE_CHECKING:
    from collections.abc import Mapping

NAME_FIELDS = ("first_name", "middle_name", "last_name", "full_name")
TEXT_COLUMNS = (
    *("customer_id", "bvn", "account_number", "bank_code", "bank_name"),
    *("phone", "email", "domain", *NAME_FIELDS, "image_url"),
    *("consent_reference", "consent_purpose", "consent_channel"),
)
names_of = itemgetter(*NAME_FIELDS)  # returns the four names of a row, in this order
INSTANT_COLUMNS = ("consented_at", "consent_expires_at", "consent_withdrawn_at")
REQUESTED = ("requested_amount", "requested_tenor_days", "requested_instalment")
"""The loan an applicant requests: naira, days, naira per month."""
KNOWN_COLUMNS = (*TEXT_COLUMNS, "date_of_birth", "exposure", *REQUESTED, *INSTANT_COLUMNS)
"""Every known column of a customer file."""

LOAN_DAY_COLUMNS = (
    *("loan_id", "customer_id", "disbursed_at", "principal", "maturity_date", "due", "paid"),
    *("outstanding", "days_past_due", "status", "written_off_at", "restructured", "as_of"),
)
"""Every known column of a file with one row per loan and day."""


@dataclass(frozen=True, slots=True)
class InputKind:
    """The kind of a file's rows, which decides its known columns."""

    headings: str  # the use of its headings in `data/headings.csv`
    columns: tuple[str, ...]  # the known columns
    required: tuple[str, ...]  # columns that must be there
    # columns that differ by person, so that no default can be right for all rows
    personal: frozenset[str]


CUSTOMERS = InputKind(
    "customers",
    KNOWN_COLUMNS,
    ("customer_id",),
    frozenset(
        {"customer_id", "bvn", "account_number", "phone", "email", "image_url", "date_of_birth"}
    ),
)
LOAN_DAYS = InputKind(
    "loan_days",
    LOAN_DAY_COLUMNS,
    ("customer_id", "loan_id", "disbursed_at", "as_of"),
    frozenset({"customer_id", "loan_id"}),
)
OTPS = InputKind(
    "otps", ("customer_id", "otp"), ("customer_id",), frozenset({"customer_id", "otp"})
)


class Flaw(IntFlag):
    """Which identifiers of a row are malformed (present, but unusable); a bit for each."""

    NONE = 0
    BVN = 1
    ACCOUNT = 2
    BANK = 4
    PHONE = 8
    EMAIL = 16
    DOMAIN = 32
    IMAGE = 64
    CONSENT = 128  # a consent time that cannot be read: the consent is not valid
    BANK_UNKNOWN = 256
    """A bank the service does not know: nothing is malformed, but no lookup is possible."""


@dataclass(frozen=True, slots=True)
class Identifier:
    """The columns and flaws of a kind of identifier."""

    # the columns that form the identifier, joined by `-` (an account is `058-0123456789`:
    # specification, karma identifier kinds)
    columns: tuple[str, ...]
    flaws: Flaw  # flaws with which it has no pseudonym and is not asked about

    def of(self, row: Mapping[str, Any]) -> str | None:
        """Return the identifier of a row in the service's form; None if a part is absent."""
        parts = [row.get(name) for name in self.columns]
        return "-".join(map(str, parts)) if all(parts) else None


IDENTIFIERS: Mapping[IdentityKind, Identifier] = {
    IdentityKind.BVN: Identifier(("bvn",), Flaw.BVN),
    IdentityKind.PHONE: Identifier(("phone",), Flaw.PHONE),
    IdentityKind.EMAIL: Identifier(("email",), Flaw.EMAIL),
    IdentityKind.DOMAIN: Identifier(("domain",), Flaw.DOMAIN),
    IdentityKind.NUBAN: Identifier(
        ("bank_code", "account_number"), Flaw.ACCOUNT | Flaw.BANK | Flaw.BANK_UNKNOWN
    ),
    IdentityKind.IMAGE: Identifier(("image_url",), Flaw.IMAGE),
}
