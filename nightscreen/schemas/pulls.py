"""Pulls of what customers consented to: parameters, outcomes by customer, changes.

What does not belong here: reading records, comparing them, or keeping them (`operations/`,
`journal/`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from pydantic import Field

from nightscreen.schemas.api_runs import ApiRunParameters
from nightscreen.schemas.consented import PULLS
from nightscreen.schemas.records import Ground, JournalRecord


class PullTransactions(ApiRunParameters):
    """Parameters of the flows that pull transactions, or linked accounts."""

    grants: list[str] = Field(
        [],
        title="Grants",
        description="Ids of grants, as `nightscreen consent list` shows them. Empty: every live "
        "grant with the scope that is needed.",
    )


class PulledKind(StrEnum):
    """The kind of a record of a customer who consented; the word is stored in the journal."""

    TRANSACTION = "transaction"
    BANK_ACCOUNT = "bank_account"
    PROFILE = "profile"

    @property
    def folder(self) -> str:
        """Return the folder beside the runs' folders that holds its typed records alone."""
        return _FOLDERS[self]

    @property
    def is_state(self) -> bool:
        """Return whether the records show a present state, so that each pull writes all of them."""
        return self is not PulledKind.TRANSACTION


_FOLDERS = {
    PulledKind.TRANSACTION: "transactions",
    PulledKind.BANK_ACCOUNT: "accounts",
    PulledKind.PROFILE: "profiles",
}


class PullOutcome(StrEnum):
    """The outcome for one customer in a pull."""

    DUE = "due"
    PULLED = "pulled"
    SUSPICIOUS_SHORT = "suspicious_short"
    """The list lacks so much that removals wait until another pull confirms them."""
    SUPERSEDED = "superseded"  # another run has kept a later answer meanwhile
    TOKEN_REFUSED = "token_refused"  # noqa: S105 - a word for an outcome, not a secret
    """A token fresh from the service was refused too."""
    REFRESH_REFUSED = "refresh_refused"
    """No new token was given, and nothing shows that the key is not to blame."""
    LAPSED = "lapsed"  # no new token was given: the customer must consent again
    ENDED = "ended"  # the grant ended, or its scope went, before the customer's turn
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


UNCHANGED = "unchanged"  # the word of an unchanged record, where a pull writes all records


@dataclass(frozen=True, slots=True)
class Answered:
    """One record of a list, ready to be stored."""

    key: bytes  # pseudonym of its id, or of its content where it has none
    content: bytes  # keyed hash of all it holds
    raw: bytes = field(repr=False)  # the record as JSON text, numbers to the letter
    occurred_at: int | None = None  # microseconds; None if it cannot be read
    place: int = 0  # its index in the list, from 0
    problem: str | None = None  # stable word for why it cannot be read; None if it can
    column: str = ""  # the field at fault


@dataclass(frozen=True, slots=True)
class Known:
    """One record as it was kept by an earlier pull."""

    record_id: int
    key: bytes
    content: bytes
    occurred_at: int | None


@dataclass(frozen=True, slots=True)
class Difference:
    """The differences between a list and the last one of the same customer."""

    added: tuple[Answered, ...] = ()  # not known before
    # known, with other content, each beside what was known
    modified: tuple[tuple[Known, Answered], ...] = ()
    # not in the list any more, and the list can be trusted to say so
    removed: tuple[Known, ...] = ()
    held: int = 0  # removals that wait for another pull, since the list lacks suspiciously much
    out_of_reach: int = 0  # known records that are older than what the service lists


class Pulled(
    JournalRecord,
    kind="pull",
    ground=Ground.CONSENTS,
    section="pulls",
    everywhere=True,
    unshown={"summary"},
):
    """How one customer was pulled in one run, begun `at`."""

    batch: str = PULLS
    grant_id: str
    pulled: PulledKind  # what was pulled first of all
    state: PullOutcome = PullOutcome.DUE
    answered_at: int | None = None  # orders the answers about one customer, microseconds
    # by kind of record, of what it was pulled with too: counts, codes and names of fields, or the
    # outcome where nothing was answered; nothing personal
    summary: dict[str, dict[str, Any]] = Field(default_factory=dict)
