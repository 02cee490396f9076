"""Operations, kinds of identifiers, purposes, outcomes and row statuses of checks."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class Operation(StrEnum):
    """An operation of the service besides the checks (specification, endpoints).

    A check's own operation has the check's name. For experimental ones the specification names a
    scope, but no path.
    """

    BVN_START = "bvn_start"
    BVN_FINISH = "bvn_finish"

    AGGREGATOR_EXCHANGE = "aggregator_exchange"
    AGGREGATOR_REFRESH = "aggregator_refresh"
    AGGREGATOR_TRANSACTIONS = "aggregator_transactions"
    AGGREGATOR_TRANSACTION = "aggregator_transaction"  # experimental
    AGGREGATOR_TRANSACTION_UPDATE = "aggregator_transaction_update"  # experimental
    AGGREGATOR_ACCOUNTS = "aggregator_accounts"  # experimental
    AGGREGATOR_ACCOUNT = "aggregator_account"  # experimental
    AGGREGATOR_ACCOUNT_ADD = "aggregator_account_add"  # experimental
    AGGREGATOR_ACCOUNT_UPDATE = "aggregator_account_update"  # experimental
    AGGREGATOR_ACCOUNT_DELETE = "aggregator_account_delete"  # experimental
    AGGREGATOR_ACCOUNT_SYNC = "aggregator_account_sync"  # experimental
    AGGREGATOR_PROFILE = "aggregator_profile"  # experimental

    LOAN_PRODUCTS = "loan_products"
    LOAN_START = "loan_start"
    LOAN_VIEW = "loan_view"


FAMILIES: Mapping[str, tuple[Operation, ...]] = {
    family: tuple(operation for operation in Operation if operation.value.startswith(prefix))
    for family, prefix in (("bvn", "bvn_"), ("aggregator", "aggregator_"), ("loans", "loan_"))
}
"""Settings name operations by family."""


def family_of(operation: str) -> str:
    """Return the name of an operation in settings: its family's, or its own."""
    return next(
        (family for family, members in FAMILIES.items() if operation in members), str(operation)
    )


class IdentityKind(StrEnum):
    """The kind of identifier of a lookup (specification, karma identifier kinds)."""

    BVN = "bvn"
    PHONE = "phone"
    EMAIL = "email"
    DOMAIN = "domain"
    NUBAN = "nuban"
    IMAGE = "image"


class SubjectKind(StrEnum):
    """The subject of a call that is not a lookup."""

    BVN = "bvn"
    CUSTOMER = "customer"
    PRODUCT = "product"
    LOAN = "loan"


class Purpose(StrEnum):
    """Why a batch is screened; it decides how old an answer may be."""

    PORTFOLIO = "portfolio"
    ORIGINATION = "origination"


DEFAULT_KARMA_IDENTITIES = {
    Purpose.PORTFOLIO: (IdentityKind.BVN,),
    Purpose.ORIGINATION: (IdentityKind.BVN, IdentityKind.PHONE, IdentityKind.EMAIL),
}


class Outcome(StrEnum):
    """The service's answer, before it is compared with the row."""

    FOUND = "found"
    NOT_FOUND = "not_found"
    LISTED = "listed"
    CLEAR = "clear"
    SCORED = "scored"
    UNREADABLE = "unreadable"
    """Answered, at a cost the answer states, but it could not be read. Its body is stored."""


HITS = frozenset({Outcome.FOUND, Outcome.LISTED, Outcome.SCORED})
"""Outcomes with a record, which are charged: no hit, no charge."""


class NoAnswer(StrEnum):
    """Why a row has no answer in a check; the first that applies is the row's status."""

    OFF = "off"
    INELIGIBLE = "ineligible"
    INVALID = "invalid"
    REFUSED = "refused"
    TEST_MODE = "test_mode"
    UNREADABLE = "unreadable"
    IN_DOUBT = "in_doubt"
    FAILED = "failed"
    PENDING = "pending"


class Source(StrEnum):
    """The source of a row's answer."""

    ASKED = "asked"
    SHARED = "shared"
    REUSED = "reused"


@dataclass(frozen=True, slots=True)
class Lookup:
    """One question to the service."""

    check: str  # the name of its check
    kind: IdentityKind  # of `identity`
    # the identifier in the service's form: a BVN of 11 digits, `+234` and 10 digits,
    # `058-0123456789` for an account, an email, a domain; for a selfie the BVN
    identity: str
    # the second identifier, if the check asks by two, such as the image address of a selfie
    together_with: str | None = None

    def __repr__(self) -> str:
        """Show no identifier."""
        return f"Lookup({self.check}, {self.kind}, identity=***)"
