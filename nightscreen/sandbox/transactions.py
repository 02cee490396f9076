"""Transactions and bank accounts of area A, day by day.

A customer's records depend only on the person, their life and the day, so that a test can compute
every list in advance. `sandbox.lives` makes the entries; here each entry becomes a record with a
history: the day on which it first appears, the days on which it changes, and for some the day on
which it is gone.
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from decimal import Decimal
from functools import lru_cache
from hashlib import blake2b
from operator import itemgetter
from typing import Final, NamedTuple
from uuid import UUID

from nightscreen.sandbox.fiction import BANK_NAMES, SeededRandom, drawn_account
from nightscreen.sandbox.lives import Entry, Life, entries_of, everyday, life_of
from nightscreen.sandbox.people import (
    BVN_DIGITS,
    FIRST_DAY,
    LINKED_PREFIX,
    Person,
    Record,
    is_digits,
    person_of_bvn,
    timestamp,
)
from nightscreen.sandbox.test_identifiers import by_customer

LIVELY_DAYS: Final = 30
"""Only records of the last so many days before day 0 change or vanish; older ones are settled."""
RECORD_CHANGE_DAYS: Final = 20  # a record changes only within so many days after it appears
BACKDATED_SHARE: Final = 0.10
"""Share of new records that have a date up to three days before the day they appear."""
MOST_LATE: Final = 3
RECORD_GONE_SHARE: Final = 0.15
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
    places = [
        person.account,
        *(drawn_account(draw) for _ in range(draw.pick((0, 0, 0, 1, 1, 2)))),
    ]
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
    last = FIRST_DAY + timedelta(days=day)
    month = (last.year - FIRST_DAY.year) * 12 + last.month - FIRST_DAY.month  # that of day 0 is 0
    records = [
        story.on(day)
        for story in _stories(customer, owner or owner_of(customer), month)
        if story.born <= day and (story.gone is None or day < story.gone)
    ]
    return sorted(records, key=lambda record: str(record["transaction_date"]), reverse=True)


@lru_cache(maxsize=256)
def _stories(customer: str, owner: Owner, newest_month: int) -> list[_Story]:
    """Write a customer's stories from their first month to `newest_month`, in their order.

    Balances run on from record to record.
    """
    kind = by_customer(customer).word
    accounts = _opened_accounts(customer, owner.person)
    balances = [FIRST_BALANCE] * len(accounts)
    written: Counter[int] = Counter()  # entries by the day on which they appear
    stories = []
    for appears_on, entry in _entries(customer, owner.life, newest_month):
        names = customer, str(appears_on), str(written[appears_on])
        written[appears_on] += 1
        draw = SeededRandom("transaction", *names)
        place = 0 if entry.tag else draw.below(len(accounts))
        balances[place] += entry.kobo
        record = _record(draw, appears_on, entry, accounts[place], balances[place])
        if draw.share() < EXTRA_SHARE or kind == "extra-fields":
            record["category"] = draw.pick(("food", "transport", "rent", "family", None))
            record["location"] = {"city": draw.pick(("Lagos", "Kano", "Aba", "Jos"))}
        events: tuple[_Event, ...] = ()
        gone = None
        if entry.day > -LIVELY_DAYS and not entry.tag:
            events = _events(draw, appears_on, record)
            if draw.share() < RECORD_GONE_SHARE:
                gone = appears_on + draw.between(1, RECORD_CHANGE_DAYS)
        for again in range(entry.times):  # each time under another id
            if again:
                draw = SeededRandom("again", *names, str(again))
                record = {**record, "id": _uuid(draw)}
            stories.append(_Story(appears_on, record, events, gone))
    if kind in ("no-ids", "twins"):
        for story in stories:
            del story.record["id"]
    if kind == "twins":
        alike = stories[0].record
        stories[0:1] = [_Story(0, alike, (), None), _Story(0, dict(alike), (), None)]
    return stories


def _entries(customer: str, life: Life, newest_month: int) -> list[tuple[int, Entry]]:
    """Return a customer's entries, each after the day on which it is first in the list."""
    kind = by_customer(customer).word
    if kind == "no-transactions":
        return []
    is_many = kind == "ten-thousand"
    entries = [(0, entry) for entry in everyday(customer, *_MANY)] if is_many else []
    for month in range(-life.months, newest_month + 1):
        for entry in entries_of(customer, life, month):
            appears_on = _appears_on(customer, entry)
            if appears_on or not is_many:
                entries.append((appears_on, entry))
    return sorted(entries, key=itemgetter(0))


def _appears_on(customer: str, entry: Entry) -> int:
    """Return the day on which an entry is first in the list: a few days late for some."""
    if entry.day <= 0:
        return 0
    draw = SeededRandom("late", customer, str(entry.day), str(entry.second), entry.narration)
    return entry.day + (draw.between(1, MOST_LATE) if draw.share() < BACKDATED_SHARE else 0)


def _record(
    draw: SeededRandom, born: int, entry: Entry, account: Record, balance_kobo: int
) -> Record:
    amount = _text(abs(entry.kobo))
    reference = f"{draw.below(10**15):015d}"
    moment = _at_second(entry.day, entry.second, draw)
    seen = max(moment, _moment(born, draw)) if born else moment
    return {
        "id": _uuid(draw),
        "account_number": account["account_number"],
        "currency": "NGN",
        "amount": amount,
        "balance": _text(balance_kobo),
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


def _events(draw: SeededRandom, born: int, record: Record) -> tuple[_Event, ...]:
    """Draw what becomes of a record; one that is to succeed later is pending at first."""
    events = []
    kinds = ["note", "status", "narration"]
    for _ in range(draw.pick(_CHANGES)):
        kind = kinds.pop(draw.below(len(kinds)))
        day = born + draw.between(1, RECORD_CHANGE_DAYS)
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
    return timestamp(FIRST_DAY + timedelta(days=day), seconds, draw.between(1, 999))


_SHORT: Final = 3
_ID: Final = "00000000-0000-4000-8000-00000000000"
_RENAMED: Final = {"amount": "value", "transaction_date": "date", "entry_type": "type"}


def malformed(customer: str, day: int, records: list[Record]) -> object:
    """Change a list of transactions as its magic customer asks; others get it unchanged."""
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
