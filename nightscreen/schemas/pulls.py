"""Pulls of transactions and accounts: parameters, outcomes by customer, changes of records."""

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
        "grant with the required scope.",
    )


class PulledKind(StrEnum):
    """The kind of a pulled record, as stored in the journal."""

    TRANSACTION = "transaction"
    BANK_ACCOUNT = "bank_account"
    PROFILE = "profile"

    @property
    def folder(self) -> str:
        """Return the folder, next to the runs' folders, that holds only its typed records."""
        return _FOLDERS[self]

    @property
    def is_state(self) -> bool:
        """Return whether records show the present state, so that each pull writes all of them."""
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
    """So many records are missing that removals wait until another pull confirms them."""
    SUPERSEDED = "superseded"  # another run has stored a later answer meanwhile
    TOKEN_REFUSED = "token_refused"  # noqa: S105 - an outcome, not a secret
    """A new token from the service was refused too."""
    REFRESH_REFUSED = "refresh_refused"
    """The service gave no new token; the cause may be the API key."""
    LAPSED = "lapsed"  # the service gave no new token: the customer must consent again
    ENDED = "ended"  # the grant or its scope ended before the customer's turn
    FAILED = "failed"
    IN_DOUBT = "in_doubt"


KEPT = frozenset({PullOutcome.PULLED, PullOutcome.SUSPICIOUS_SHORT})
"""Outcomes with stored records."""

FINAL = KEPT | {
    PullOutcome.SUPERSEDED,
    PullOutcome.TOKEN_REFUSED,
    PullOutcome.LAPSED,
    PullOutcome.ENDED,
}
"""Outcomes that a resumed run does not repeat."""


class TransactionChange(StrEnum):
    """How a record differs from the last pull."""

    ADDED = "added"
    MODIFIED = "modified"
    REMOVED = "removed"


UNCHANGED = "unchanged"  # written for an unchanged record if a pull writes all records


@dataclass(frozen=True, slots=True)
class Answered:
    """One record of a list, ready to be stored."""

    key: bytes  # pseudonym of its id, or of its content if it has none
    content: bytes  # keyed hash of its content
    raw: bytes = field(repr=False)  # the record as JSON text, numbers unchanged
    occurred_at: int | None = None  # microseconds; None if it cannot be read
    place: int = 0  # its index in the list, from 0
    problem: str | None = None  # code for why it cannot be read; None if it can
    column: str = ""  # the field at fault


@dataclass(frozen=True, slots=True)
class Known:
    """One record as stored by an earlier pull."""

    record_id: int
    key: bytes
    content: bytes
    occurred_at: int | None


@dataclass(frozen=True, slots=True)
class Difference:
    """The differences between a list and the last one of the same customer."""

    added: tuple[Answered, ...] = ()  # not known before
    # known, with different content
    modified: tuple[tuple[Known, Answered], ...] = ()
    # no longer in a list that can be trusted
    removed: tuple[Known, ...] = ()
    held: int = 0  # removals that wait for another pull, because too many records are missing
    out_of_reach: int = 0  # known records older than the period that the service lists


class Pulled(
    JournalRecord,
    kind="pull",
    ground=Ground.CONSENTS,
    section="pulls",
    everywhere=True,
    unshown={"summary"},
):
    """The pull of one customer in one run, begun `at`."""

    batch: str = PULLS
    grant_id: str
    pulled: PulledKind  # the main kind of the pull
    state: PullOutcome = PullOutcome.DUE
    answered_at: int | None = None  # orders the answers about one customer, microseconds
    # by kind of record pulled: counts, codes and names of fields, or the outcome if there was no
    # answer; nothing personal
    summary: dict[str, dict[str, Any]] = Field(default_factory=dict)
