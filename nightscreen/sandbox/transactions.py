"""Transactions and bank accounts of area A, day by day.

A customer's records depend on who they are, their life and the day alone, so that a test can
compute every list in advance. `sandbox.lives` makes the entries; here each entry becomes a record
with a history: the day on which it first appears, the days on which something about it changes, and
for some the day on which it is gone.
"""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from functools import cache, lru_cache, partial
from hashlib import blake2b
from typing import Final, NamedTuple
from uuid import UUID

from nightscreen.sandbox import banks
from nightscreen.sandbox.banks import BANK_NAMES, BANKS_BY_WEIGHT
from nightscreen.sandbox.lives import Entry, Life, entries_of, everyday, life_of
from nightscreen.sandbox.people import (
    BVN_DIGITS,
    FIRST_DAY,
    LINKED_PREFIX,
    Person,
    Record,
    is_digits,
    person_of_bvn,
)
from nightscreen.sandbox.seeded_random import SeededRandom
from nightscreen.sandbox.test_identifiers import by_customer

LIVELY_DAYS: Final = 30
"""Only records of the last so many days before day 0 change or vanish; older ones are settled."""
CHANGE_DAYS: Final = 20  # a record changes only within so many days after it appears
BACKDATED_SHARE: Final = 0.10
"""Share of new records that have a date up to three days before the day they appear."""
MOST_LATE: Final = 3
GONE_SHARE: Final = 0.15
EXTRA_SHARE: Final = 0.05
FIRST_BALANCE: Final = 250_000_00  # kobo on each account before the first record

_MANY: Final = (900, 10_000)  # days and records of the customer with very many
_KOBO: Final = Decimal("0.01")
_CHANGES: Final = (0, 0, 0, 1, 1, 1, 1, 2)
_NOTES: Final = ("Rent", "For school fees", "Shop stock", "Mama", "Family", "Refund expected")


class _Event(NamedTuple):
    day: int
    kind: str
    when: str
    text: str


class Owner(NamedTuple):
    """Whose records they are: the person behind a username, and their life."""

    person: Person
    life: Life


class _Story(NamedTuple):
    born: int
    record: Record
    events: tuple[_Event, ...]
    gone: int | None

    def on(self, day: int) -> Record:
        """Return the record as it is on a day."""
        record = dict(self.record)
        for event in self.events:
            if event.day <= day:
                record[event.kind] = event.text
                record["modified_on"] = event.when
        return record


def owner_of(customer: str) -> Owner:
    """Return who is behind a username that nobody planted."""
    return Owner(person_of_customer(customer), life_of(customer))


def person_of_customer(customer: str) -> Person:
    """Return who signs in under a username; a BVN as username is that person."""
    if is_digits(customer, BVN_DIGITS):
        return person_of_bvn(customer)
    return person_of_bvn(f"{LINKED_PREFIX}{SeededRandom('customer', customer).below(10**9):09d}")


def bank_accounts_of(customer: str, day: int = 0, owner: Owner | None = None) -> list[Record]:
    """Return which bank accounts a customer has linked, each with its balance on a day."""
    owner = owner or owner_of(customer)
    newest = {}
    for record in reversed(transactions_of(customer, day, owner)):
        found = {"balance": record["balance"], "last_balance_time": record["transaction_date"]}
        newest[record["account_number"]] = found
    opened = _opened_accounts(customer, owner.person)
    return [{**account, **newest.get(account["account_number"], {})} for account in opened]


def _opened_accounts(customer: str, person: Person) -> list[Record]:
    """List the accounts as they were linked: one to three, in a stable order."""
    draw = SeededRandom("linked accounts", customer)
    places = [(person.bank_code, person.account_number)]
    for _ in range(draw.pick((0, 0, 0, 1, 1, 2))):
        code = draw.pick(BANKS_BY_WEIGHT)
        places.append((code, banks.account_number(code, draw.below(10**9))))
    name = " ".join(part for part in (person.first_name, person.last_name) if part).upper()
    return [linked_account(customer, code, number, name) for code, number in places]


def linked_account(customer: str, code: str, number: str, name: str, day: int = 0) -> Record:
    """Write one linked bank account, first seen on a day."""
    draw = SeededRandom("linked account", customer, code, number)
    opened = _moment(day or -3 * LIVELY_DAYS, draw)
    return {
        "id": _uuid(draw),
        "account_name": name,
        "account_number": number,
        "balance": _text(FIRST_BALANCE),
        "currency": "NGN",
        "last_balance_time": opened,
        "last_synced": opened,
        "data_source": draw.pick((["bank"], ["email"], ["email", "sms"], ["sms"])),
        "description": draw.pick((None, None, "Salary account", "Shop", "Savings")),
        "bank": {
            "id": f"{SeededRandom('bank', code).below(1 << 128):032x}",
            "name": BANK_NAMES.get(code, "Bank"),
            "short_code": code,
            "long_code": f"{SeededRandom('long code', code).below(10**6):06d}",
            "icon": f"https://images.example/banks/{code}.png",
        },
        **_audit(opened, customer),
    }


def _audit(moment: str, who: str) -> Record:
    return {
        "created_on": moment,
        "created_by": who,
        "modified_on": moment,
        "modified_by": who,
        "deleted_on": None,
        "deleted_by": None,
    }


def profile_of(customer: str, owner: Owner | None = None) -> Record:
    """Return what a customer's profile shows."""
    person, draw = (owner or owner_of(customer)).person, SeededRandom("profile", customer)
    return {
        "id": _uuid(draw),
        "username": customer,
        "first_name": person.first_name,
        "last_name": person.last_name,
        "email": person.email,
        "phone_number": person.phone,
        "created_on": _moment(-draw.between(100, 900), draw),
    }


def transactions_of(customer: str, day: int = 0, owner: Owner | None = None) -> list[Record]:
    """Return every transaction of a customer on a day, newest first.

    The oddities of some magic customers come later (`malformed`).
    """
    records = [
        story.on(day)
        for story in _diary(customer, owner or owner_of(customer)).through(day)
        if story.born <= day and (story.gone is None or day < story.gone)
    ]
    return sorted(records, key=lambda record: str(record["transaction_date"]), reverse=True)


@lru_cache(maxsize=4096)
def _diary(customer: str, owner: Owner) -> _Diary:
    return _Diary(customer, owner)


class _Diary:
    """Writes one customer's stories, day after day; balances run on from record to record."""

    def __init__(self, customer: str, owner: Owner) -> None:
        self._customer = customer
        self._life = owner.life
        self._entries_of = cache(partial(entries_of, customer, owner.life))  # by month
        self._kind = by_customer(customer).word
        self._accounts = _opened_accounts(customer, owner.person)
        self._balances = [FIRST_BALANCE] * len(self._accounts)
        self._stories = self._history()
        self._day = 0

    def through(self, day: int) -> list[_Story]:
        """Return all stories that begin on or before a day, and perhaps some that begin later."""
        while self._day < day:
            self._day += 1
            if self._kind != "no-transactions":
                self._stories += self._new_on(self._day)
        return self._stories

    def _history(self) -> list[_Story]:
        if self._kind == "no-transactions":
            return []
        if self._kind == "ten-thousand":
            entries = everyday(self._customer, *_MANY)
        else:
            months = [self._entries_of(month) for month in range(-self._life.months, 1)]
            entries = [entry for month in months for entry in month if entry.day <= 0]
        stories = self._written(0, entries)
        if self._kind == "twins":
            alike = stories[0].record
            stories[0:1] = [_Story(0, alike, (), None), _Story(0, dict(alike), (), None)]
        return stories

    def _new_on(self, born: int) -> list[_Story]:
        since = max(1, born - MOST_LATE)
        days = [FIRST_DAY + timedelta(days=day) for day in (since, born)]
        # the month of day 0 is 0
        months = {(day.year - FIRST_DAY.year) * 12 + day.month - FIRST_DAY.month for day in days}
        lately = [
            entry
            for month in sorted(months)
            for entry in self._entries_of(month)
            if since <= entry.day <= born and entry.day + self._late(entry) == born
        ]
        return self._written(born, lately)

    def _late(self, entry: Entry) -> int:
        """Return how many days after its date an entry appears; 0 for most."""
        words = (self._customer, str(entry.day), str(entry.second), entry.narration)
        draw = SeededRandom("late", *words)
        return draw.between(1, MOST_LATE) if draw.share() < BACKDATED_SHARE else 0

    def _written(self, born: int, entries: list[Entry]) -> list[_Story]:
        stories = []
        for number, entry in enumerate(entries):
            story = self._story(born, number, entry)
            stories.append(story)
            for again in range(1, entry.times):  # the list has the same posting under another id
                draw = SeededRandom("again", self._customer, str(born), str(number), str(again))
                other = {"id": _uuid(draw)} if "id" in story.record else {}
                stories.append(story._replace(record={**story.record, **other}))
        return stories

    def _story(self, born: int, number: int, entry: Entry) -> _Story:
        draw = SeededRandom("transaction", self._customer, str(born), str(number))
        record = self._record(draw, born, entry)
        if entry.day <= -LIVELY_DAYS or entry.tag:
            return _Story(born, record, (), None)
        events = _events(draw, born, record)
        gone = born + draw.between(1, CHANGE_DAYS) if draw.share() < GONE_SHARE else None
        return _Story(born, record, events, gone)

    def _record(self, draw: SeededRandom, born: int, entry: Entry) -> Record:
        place = 0 if entry.tag else draw.below(len(self._accounts))
        account = self._accounts[place]
        self._balances[place] += entry.kobo
        amount = _text(abs(entry.kobo))
        reference = f"{draw.below(10**15):015d}"
        moment = _at_second(entry.day, entry.second, draw)
        seen = max(moment, _moment(born, draw)) if born else moment
        record: Record = {
            "id": _uuid(draw),
            "account_number": account["account_number"],
            "currency": "NGN",
            "amount": amount,
            "balance": _text(self._balances[place]),
            "reference": reference,
            "hash": blake2b(f"{reference} {amount} {moment}".encode(), digest_size=16).hexdigest(),
            "status": "success",
            "entry_type": "credit" if entry.kobo > 0 else "debit",
            "narration": entry.narration,
            "transaction_date": moment,
            "transaction_type": entry.word,
            "note": None,
            "source": "statement",
            "provider": "direct",
            "bank": account["bank"],
            **_audit(seen, "system"),
        }
        if draw.share() < EXTRA_SHARE or self._kind == "extra-fields":
            record["category"] = draw.pick(("food", "transport", "rent", "family", None))
            record["location"] = {"city": draw.pick(("Lagos", "Kano", "Aba", "Jos"))}
        if self._kind in ("no-ids", "twins"):
            del record["id"]
        return record


def _events(draw: SeededRandom, born: int, record: Record) -> tuple[_Event, ...]:
    """Draw what becomes of a record; one that is to succeed later is pending at first."""
    events = []
    kinds = ["note", "status", "narration"]
    for _ in range(draw.pick(_CHANGES)):
        kind = kinds.pop(draw.below(len(kinds)))
        day = born + draw.between(1, CHANGE_DAYS)
        text = draw.pick(_NOTES)
        if kind == "status":
            record["status"], text = "pending", "success"
        elif kind == "narration":
            text = f"{record['narration']} REF {draw.below(10**6):06d}"
        events.append(_Event(day, kind, _moment(day, draw), text))
    return tuple(sorted(events))


def _text(kobo: int) -> str:
    return f"{kobo * _KOBO:.2f}"


def _uuid(draw: SeededRandom) -> str:
    return str(UUID(int=draw.below(1 << 128), version=4))


def _moment(day: int, draw: SeededRandom) -> str:
    """Write a day of the simulated world with a drawn time, as ISO 8601 with milliseconds."""
    return _at_second(day, draw.below(86_400), draw)


def _at_second(day: int, seconds: int, draw: SeededRandom) -> str:
    whole, millis = FIRST_DAY + timedelta(days=day), draw.between(1, 999)
    hours, rest = divmod(seconds, 3600)
    return f"{whole.isoformat()}T{hours:02d}:{rest // 60:02d}:{rest % 60:02d}.{millis:03d}Z"


_SHORT: Final = 3
_ID: Final = "00000000-0000-4000-8000-00000000000"
_RENAMED: Final = {"amount": "value", "transaction_date": "date", "entry_type": "type"}


def malformed(customer: str, day: int, records: list[Record]) -> object:
    """Do to a list of transactions what its magic customer asks for; others get it as it is."""
    listed: object = records
    match by_customer(customer).word:
        case "malformed-record":
            other = {**records[0], "id": f"{_ID}a", "amount": "twelve", "balance": {}}
            undated = {**records[0], "id": f"{_ID}b", "transaction_date": "2026-02-31T25:61:00Z"}
            middle = [records[1], other, records[2], undated]
            listed = [records[0], "this is no record", *middle, *records[3:]]
        case "short-answer" if day % 2:
            listed = records[:_SHORT]
        case "empty-answer" if day % 2:
            listed = []
        case "null-answer" if day % 2:
            listed = None
        case "repeats":
            listed = [*records[:4], *records[2:]]
        case "shuffled":
            listed = sorted(
                records, key=lambda one: SeededRandom("shuffle", str(one["id"])).share()
            )
        case "number-amounts":
            money = ("amount", "balance")
            listed = [one | {name: Decimal(str(one[name])) for name in money} for one in records]
        case "list-elsewhere":
            listed = {"transactions": records, "count": len(records)}
        case "renamed-fields":
            listed = [{_RENAMED.get(name, name): one[name] for name in one} for one in records]
    return listed
