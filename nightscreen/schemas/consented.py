"""Consents of customers, their tokens, and what the service answers under them (area A).

The fields of transactions, bank accounts and profiles are not in the specification: a record is
kept as it came, and typed views are made of it where fields are known (`operations/`).
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from nightscreen.schemas.answers import Record, Text, read_text
from nightscreen.schemas.records import Ground, JournalRecord

if TYPE_CHECKING:
    from collections.abc import Mapping

PULLS: Final = "transactions"
"""Batch name of pulls: who is erased in it, or in every one, loses all that consent brought."""

_ELSEWHERE = ("transactions", "records", "items", "accounts")
"""Where a list may be if the envelope changes: area A is in beta."""


def _scope(value: object) -> str | None:
    return None if value is None else read_text(value) or ""


class TokenAnswer(Record):
    """An access token (specification, access-token response)."""

    access_token: Text = None
    token_type: Text = None
    username: Text = None
    refresh_token: Text = None  # only after the exchange of a code; a refresh returns none
    # what was granted, separated by blanks; empty where it is there and names nothing
    scope: Annotated[str | None, BeforeValidator(_scope)] = None

    @property
    def scopes(self) -> tuple[str, ...] | None:
        """Return the scopes that are named; None where all is granted (OAuth 2.0, 5.1)."""
        if self.scope is None:
            return None
        return tuple(dict.fromkeys(self.scope.replace(",", " ").split()))


class GrantState(StrEnum):
    """The state of a grant."""

    LIVE = "live"
    LAPSED = "lapsed"
    """The service does not honour it any more, or it was replaced: consent is asked for again."""
    REVOKED = "revoked"  # the customer withdrew it, or the lender gave it up


class Tokens(BaseModel):
    """The tokens of a live grant; `generation` counts the access tokens there were."""

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
    customer_id: str = Field(repr=False)  # as the lender gives it
    scopes: tuple[str, ...]  # what was granted, and nothing else may be used (authentication 4)
    asked_scopes: tuple[str, ...]  # what the customer was asked for
    state: GrantState = GrantState.LIVE
    refreshed_at: int | None = None
    ended_at: int | None = None  # when it lapsed or was revoked; `reason` says why
    reason: str | None = None
    # how consent was given: channel, redirect address, username and the like
    evidence: dict[str, Any] = Field(repr=False)
    tokens: Tokens | None = Field(None, repr=False)  # None once it has ended
    holder: str | None = None  # the process that refreshes it now; `lease` says which of its tasks
    lease: str | None = None

    @property
    def grant_id(self) -> str:
        """Return its id, as calls name the consent that authorises them."""
        return self.key

    def allows(self, scope: str) -> bool:
        """Return whether a scope was granted, and still is."""
        return self.state is GrantState.LIVE and scope in self.scopes


class ConsentLink(
    JournalRecord,
    kind="consent_link",
    period_from=("expires_at",),
    ground=Ground.JOURNAL_ANSWERS,
    section="consent_links",
    everywhere=True,
):
    """A link to consent, or one redirect from it: whose it is, and until when it works, once."""

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
    """The newest figures of a customer; the service answered `at` what they rest on.

    Attributes:
        key: names the customer, so that newer figures take the place of older ones.
        run_id: the pull that worked them out.
    """

    batch: str = PULLS
    scopes: tuple[str, ...]  # what the consent must cover for them to be shown
    # by column of `schemas.enriched.FEATURES`, as JSON has them: amounts and dates as text
    figures: dict[str, Any]


@dataclass(frozen=True, slots=True)
class RawRecords:
    """Records as they came, numbers exact; what is no JSON object is kept among them."""

    records: tuple[object, ...] = field(repr=False)
    # where in the document they were, such as `data` or `data.transactions`; a change is reported
    shape: str = "data"

    def is_blank(self) -> bool:
        """Return whether nothing was read; an empty list says something."""
        return False


def find_records(document: Mapping[str, object], *, only_lists: bool) -> RawRecords | None:
    """Return the records of a document, or None where it holds none in any shape known.

    Where a list is wanted, a single object under `data` is no answer.
    """
    data = document.get("data")
    if isinstance(data, list):
        return RawRecords(tuple(data))
    if isinstance(data, dict):
        lists = {name: value for name, value in data.items() if isinstance(value, list)}
        if len(lists) == 1 and only_lists:
            name, found = next(iter(lists.items()))
            return RawRecords(tuple(found), f"data.{name}")
        return None if only_lists else RawRecords((data,))
    if "data" not in document:
        for name in _ELSEWHERE:
            records = document.get(name)
            if isinstance(records, list):
                return RawRecords(tuple(records), name)
    return None if only_lists else RawRecords(())
