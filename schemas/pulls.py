"""Pulls of what customers consented to: what a run is asked, what became of whom, what changed.

What does not belong here: reading records, comparing them, or keeping them (`steps/`, `storage/`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from pydantic import Field

from nightscreen.schemas.api_runs import ApiRunParameters


class PullTransactions(ApiRunParameters):
    """What the flow that pulls transactions is asked."""

    grants: list[str] = Field(
        [],
        title="Grants",
        description="Ids of grants, as `nightscreen consent list` shows them. Empty: every live "
        "grant with the scope transaction:list.",
    )


class PullAccounts(PullTransactions):
    """What the flow that pulls linked accounts is asked."""

    grants: list[str] = Field(
        [],
        title="Grants",
        description="Ids of grants, as `nightscreen consent list` shows them. Empty: every live "
        "grant with the scope bank_account:list.",
    )


class PulledKind(StrEnum):
    """What a record of a customer who consented is; the journal keeps the word."""

    TRANSACTION = "transaction"
    BANK_ACCOUNT = "bank_account"
    PROFILE = "profile"

    @property
    def folder(self) -> str:
        """Return the folder beside the runs' folders that holds its typed records alone."""
        return _FOLDERS[self]

    @property
    def is_state(self) -> bool:
        """Tell whether the records say how things stand, so that each pull writes all of them."""
        return self is not PulledKind.TRANSACTION


_FOLDERS = {
    PulledKind.TRANSACTION: "transactions",
    PulledKind.BANK_ACCOUNT: "accounts",
    PulledKind.PROFILE: "profiles",
}


class PullOutcome(StrEnum):
    """What became of one customer in a pull."""

    DUE = "due"
    PULLED = "pulled"
    SUSPICIOUS_SHORT = "suspicious_short"
    """The list lacks so much that removals wait until another pull confirms them."""
    SUPERSEDED = "superseded"
    """Another run has kept a later answer meanwhile."""
    TOKEN_REFUSED = "token_refused"  # noqa: S105 - a word for an outcome, not a secret
    """A token fresh from the service was refused too."""
    REFRESH_REFUSED = "refresh_refused"
    """No new token was given, and nothing shows that the key is not to blame."""
    LAPSED = "lapsed"
    """No new token was given: the customer must consent again."""
    ENDED = "ended"
    """The grant ended, or its scope went, before the customer's turn."""
    FAILED = "failed"
    IN_DOUBT = "in_doubt"


KEPT = frozenset({PullOutcome.PULLED, PullOutcome.SUSPICIOUS_SHORT})
"""Outcomes of an answer whose records were kept."""

FINAL = KEPT | {
    PullOutcome.SUPERSEDED,
    PullOutcome.TOKEN_REFUSED,
    PullOutcome.LAPSED,
    PullOutcome.ENDED,
}
"""Outcomes that a resumed run leaves as they are."""


class TransactionChange(StrEnum):
    """How a record differs from the last pull."""

    ADDED = "added"
    MODIFIED = "modified"
    REMOVED = "removed"


UNCHANGED = "unchanged"
"""The word of a record that stands as it did, where a pull writes all there are."""


@dataclass(frozen=True, slots=True)
class Answered:
    """One record of a list, as it is to be kept.

    Attributes:
        key: pseudonym of its id, or of its content where it has none.
        content: keyed hash of all it holds.
        raw: the record as JSON text, numbers to the letter.
        occurred_at: microseconds; None where it cannot be read.
        place: where it stood in the list, from nought.
        problem: stable word for why it cannot be read; None where it can.
        column: the field that is to blame.
    """

    key: bytes
    content: bytes
    raw: bytes = field(repr=False)
    occurred_at: int | None = None
    place: int = 0
    problem: str | None = None
    column: str = ""


@dataclass(frozen=True, slots=True)
class Known:
    """One record as it was kept by an earlier pull."""

    record_id: int
    key: bytes
    content: bytes
    occurred_at: int | None


@dataclass(frozen=True, slots=True)
class Difference:
    """What a list says beside the last one of the same customer.

    Attributes:
        added: not known before.
        modified: known, with other content, each beside what was known.
        removed: not in the list any more, and the list can be trusted to say so.
        held: removals that wait for another pull, since the list lacks suspiciously much.
        out_of_reach: known records that are older than what the service lists.
    """

    added: tuple[Answered, ...] = ()
    modified: tuple[tuple[Known, Answered], ...] = ()
    removed: tuple[Known, ...] = ()
    held: int = 0
    out_of_reach: int = 0


@dataclass(frozen=True, slots=True)
class Pulled:
    """How one customer stands in one pull, as the journal keeps it.

    Attributes:
        kind: what was pulled first of all.
        summary: counts, codes and names of fields; nothing personal. Under `beside` stand those of
            the other kinds that were pulled with it.
    """

    run_id: str
    customer: bytes
    grant_id: str
    kind: PulledKind = PulledKind.TRANSACTION
    outcome: PullOutcome = PullOutcome.DUE
    standing: int = 0
    answered_at: int | None = None
    summary: dict[str, Any] = field(default_factory=dict)
