"""Magic customers: usernames that choose how consent, tokens and transactions go wrong.

The table of area A and the way to recognise its customers live here. What each word does is told
by the modules that answer: the screen in `sandbox.consenting`, codes and tokens in
`sandbox.grants`, records in `sandbox.transactions`.

A magic customer signs in as `<word>@magic.example`. The words of the fault rows of
`sandbox.magic` work too, on every data call; a word of this table comes first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from nightscreen.sandbox import magic

MAIL: Final = "@magic.example"


@dataclass(frozen=True, slots=True)
class MagicCustomer:
    """One row of the table; empty text where nothing is unusual.

    Attributes:
        word: the word in the customer's username.
        meaning: what happens, for people.
        screen: at the consent screen, `denied`, `state_changed` or `state_lost`.
        code: what the code has become when it arrives, `used` or `expired`.
        refresh: `revoked` where every refresh is refused.
        token: `one_call`, `dead_at_first` or `dead`.
        withheld: a scope that the customer never grants.
        records: what is odd about the list of transactions.
        fault: name of a fault of `sandbox.faults`.
        attempts: how many attempts meet it; 0 is every one.
        at_auth: whether the token operation meets it, and not the data operations.
    """

    word: str
    meaning: str
    screen: str = ""
    code: str = ""
    refresh: str = ""
    token: str = ""
    withheld: str = ""
    records: str = ""
    fault: str = ""
    attempts: int = 0
    at_auth: bool = False

    @property
    def customer(self) -> str:
        """The row's username."""
        return self.word + MAIL

    def trouble(self, *, at_auth: bool) -> tuple[str, int] | None:
        """Name the fault that calls of this kind meet, and at how many attempts."""
        return (self.fault, self.attempts) if self.fault and self.at_auth is at_auth else None


_CONSENT = (
    MagicCustomer("denied", "the screen sends back access_denied at once", screen="denied"),
    MagicCustomer(
        "state-changed", "the redirect carries another state than was sent", screen="state_changed"
    ),
    MagicCustomer("state-lost", "the redirect carries a code and no state", screen="state_lost"),
    MagicCustomer(
        "scope-missing",
        "grants every scope asked for but `transaction:list`; the answer says so",
        withheld="transaction:list",
    ),
)
_TOKENS = (
    MagicCustomer("code-used", "the code was used already: the exchange is a 400", code="used"),
    MagicCustomer("code-expired", "the code came too late: the exchange is a 400", code="expired"),
    MagicCustomer(
        "exchange-lost",
        "the first exchange is worked out, then the connection is cut; a repeat is a replay",
        fault="cut_after_charge",
        attempts=1,
        at_auth=True,
    ),
    MagicCustomer(
        "auth-fails-twice",
        "the first two calls for a token are a 503, the third is answered",
        fault="http_503",
        attempts=2,
        at_auth=True,
    ),
    MagicCustomer(
        "refresh-revoked", "the exchange works, every refresh is a 400", refresh="revoked"
    ),
    MagicCustomer(
        "expires-mid-pull",
        "each access token answers one data call and is then expired: 403",
        token="one_call",  # noqa: S106 - a word of the table
    ),
    MagicCustomer(
        "expired-on-arrival",
        "the access token of the exchange is expired already; refreshed ones are good",
        token="dead_at_first",  # noqa: S106 - a word of the table
    ),
    MagicCustomer(
        "never-valid",
        "every access token is refused with 403, refreshed ones too",
        token="dead",  # noqa: S106 - a word of the table
    ),
)
_RECORDS = (
    MagicCustomer("slow", "the right answer to data calls, seconds late", fault="slow"),
    MagicCustomer(
        "fails-twice",
        "the first two calls of each data operation are a 503, the third is answered",
        fault="http_503",
        attempts=2,
    ),
    MagicCustomer(
        "malformed-record",
        "three records too many: one is text, one has a word for its amount, one no real date",
        records="malformed",
    ),
    MagicCustomer("ten-thousand", "some ten thousand transactions", records="ten_thousand"),
    MagicCustomer("no-transactions", "an empty list, and rightly so", records="none"),
    MagicCustomer(
        "short-answer", "on odd days the list holds the three newest only", records="short"
    ),
    MagicCustomer("empty-answer", "on odd days the list is empty by mistake", records="empty"),
    MagicCustomer("null-answer", "on odd days `data` is null", records="null"),
    MagicCustomer("no-ids", "no record has an `id`", records="no_ids"),
    MagicCustomer(
        "twins", "no record has an `id`, and two records are alike in everything", records="twins"
    ),
    MagicCustomer("repeats", "two records stand in the list twice", records="repeats"),
    MagicCustomer("shuffled", "the list is in no order", records="shuffled"),
    MagicCustomer(
        "number-amounts", "`amount` and `balance` are JSON numbers", records="number_amounts"
    ),
    MagicCustomer(
        "extra-fields", "every record has two fields that nobody knows", records="extra_fields"
    ),
    MagicCustomer(
        "list-elsewhere", "the list stands under `data.transactions`", records="elsewhere"
    ),
    MagicCustomer(
        "renamed-fields",
        "`amount` is `value`, `transaction_date` is `date`, `entry_type` is `type`",
        records="renamed",
    ),
)

TABLE: Final[tuple[MagicCustomer, ...]] = (*_CONSENT, *_TOKENS, *_RECORDS)
_BY_WORD: Final = {row.word: row for row in TABLE}


def by_word(word: str) -> MagicCustomer:
    """Find a row by its word.

    Raises:
        KeyError: the table has no such word.
    """
    return _BY_WORD[word]


def by_customer(customer: str) -> MagicCustomer | None:
    """Find the row a username belongs to, in this table or among the faults of `sandbox.magic`."""
    if not customer.endswith(MAIL):
        return None
    row = _BY_WORD.get(customer.removesuffix(MAIL))
    if row:
        return row
    other = magic.by_karma_identity(customer)
    if other is None or not other.fault or other.only:
        return None
    attempts = 1 if other.once else 0
    return MagicCustomer(other.word, other.meaning, fault=other.fault, attempts=attempts)
