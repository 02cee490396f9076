"""Customers' consents, their tokens, and the pulls of records under them (area A).

The fields of transactions, bank accounts and profiles are not in the specification: a record is
stored as received, and `operations/` makes typed views of known fields.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from nightscreen.schemas.answers import Record, Text, read_text
from nightscreen.schemas.api_runs import ApiRunParameters
from nightscreen.schemas.records import Ground, JournalRecord

if TYPE_CHECKING:
    from collections.abc import Mapping

PULLS: Final = "transactions"
"""Batch name of pulls: an erasure in it, or in every batch, removes all that consent brought."""

_ELSEWHERE = ("transactions", "records", "items", "accounts")
"""Fields where a list may be if the envelope changes: area A is in beta."""


def _scope(value: object) -> str | None:
    return "" if value == "" else read_text(value)


class TokenAnswer(Record):
    """An access token (specification, access-token response)."""

    access_token: Text = None
    token_type: Text = None
    username: Text = None
    refresh_token: Text = None  # only after the exchange of a code; a refresh returns none
    # granted scopes, separated by blanks; empty if the field is there and names none
    scope: Annotated[str | None, BeforeValidator(_scope)] = None

    @property
    def scopes(self) -> tuple[str, ...] | None:
        """Return the named scopes; None if all that was asked is granted (OAuth 2.0, 5.1)."""
        if self.scope is None:
            return () if "scope" in self.extra else None  # it was there and could not be read
        return tuple(dict.fromkeys(self.scope.replace(",", " ").split()))


class GrantState(StrEnum):
    """The state of a grant."""

    LIVE = "live"
    LAPSED = "lapsed"
    """The service no longer accepts it, or it was replaced: the customer must consent again."""
    REVOKED = "revoked"  # withdrawn by the customer, or given up by the lender


class Tokens(BaseModel):
    """The tokens of a live grant; `generation` is the number of its access tokens so far."""

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)

    access_token: str = Field(repr=False)
    refresh_token: str = Field(repr=False)
    generation: int


class Grant(
    JournalRecord,
    kind="grant",
    period_from=("ended_at",),
    ground=Ground.CONSENTS,
    section="consents",
    waiting={GrantState.LIVE.value},
    everywhere=True,
    unshown={"tokens", "holder", "lease"},
):
    """A customer's consent, given `at`; instants in microseconds.

    Attributes:
        customer: pseudonym of the customer, the same in every batch name.
    """

    key: str = Field(default_factory=partial(secrets.token_hex, 12))
    batch: str = PULLS
    customer_id: str = Field(repr=False)  # the lender's
    scopes: tuple[str, ...]  # granted; no other scope may be used (authentication 4)
    asked_scopes: tuple[str, ...]  # requested
    state: GrantState = GrantState.LIVE
    refreshed_at: int | None = None
    ended_at: int | None = None  # when it lapsed or was revoked; `reason` says why
    reason: str | None = None
    # how consent was given: channel, redirect address, username and the like
    evidence: dict[str, Any] = Field(repr=False)
    tokens: Tokens | None = Field(None, repr=False)  # None once it has ended
    holder: str | None = None  # the process that is refreshing it; `lease` is its task
    lease: str | None = None

    @property
    def grant_id(self) -> str:
        """Return its id, the consent reference of its calls."""
        return self.key

    def allows(self, scope: str) -> bool:
        """Return whether the grant is live and has a scope."""
        return self.state is GrantState.LIVE and scope in self.scopes


class ConsentLink(
    JournalRecord,
    kind="consent_link",
    period_from=("expires_at",),
    ground=Ground.JOURNAL_ANSWERS,
    section="consent_links",
    everywhere=True,
):
    """A link to consent, or one redirect from it: whose it is, when it expires; it works once."""

    batch: str = PULLS
    customer_id: str = Field(repr=False)
    scopes: tuple[str, ...]
    expires_at: int
    used_at: int | None = None


class CashFigures(
    JournalRecord,
    kind="cash_flow",
    period_from=("at",),
    ground=Ground.JOURNAL_ANSWERS,
    section="cash_flow",
    everywhere=True,
):
    """A customer's newest cash flow, from records that the service sent `at`.

    Attributes:
        key: names the customer, so that newer figures replace older ones.
        run_id: the pull that computed them.
    """

    batch: str = PULLS
    scopes: tuple[str, ...]  # scopes that the consent must cover for them to be shown
    # by column of `schemas.enriched.FEATURES`; amounts and dates as text
    figures: dict[str, Any]


@dataclass(frozen=True, slots=True)
class RawRecords:
    """Records as received, with exact numbers; entries that are no JSON objects are included."""

    records: tuple[object, ...] = field(repr=False)
    # their place in the document, such as `data` or `data.transactions`; a change is reported
    shape: str = "data"

    def is_blank(self) -> bool:
        """Return False: an empty list is an answer."""
        return False


def find_records(document: Mapping[str, object], *, only_lists: bool) -> RawRecords | None:
    """Return the records of a document; None if it has none in any known shape.

    With `only_lists`, a single object under `data` does not count.
    """
    data = document.get("data")
    if isinstance(data, list):
        return RawRecords(tuple(data))
    if isinstance(data, dict):
        lists = {name: value for name, value in data.items() if isinstance(value, list)}
        if len(lists) == 1 and only_lists:
            name, entries = next(iter(lists.items()))
            return RawRecords(tuple(entries), f"data.{name}")
        return None if only_lists else RawRecords((data,))
    if "data" not in document:
        for name in _ELSEWHERE:
            records = document.get(name)
            if isinstance(records, list):
                return RawRecords(tuple(records), name)
    return None if only_lists else RawRecords(())


# --- pulls ---


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
