"""Marked people: a batch whose every value can be recognised wherever it turns up.

Half of them are people of the simulator, who get real answers; the others select its faults.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from nightscreen.sandbox import test_identifiers
from nightscreen.sandbox.people import account_name, holder_of, person_of_bvn

HEADINGS = (
    *("customer_id", "first_name", "middle_name", "last_name", "bvn", "account_number"),
    *("bank_code", "phone", "email", "domain", "exposure", "consent_reference", "consented_at"),
)
LIVING = 60  # more than the faulty: where only they were left, the service would count as silent
STOPPING = {
    *("mock_response", "empty_object", "denied", "unpriced", "low_wallet"),
    *("foreign_404", "redirect", "huge", "not_offered", "mock_message"),
}
"""Faults that end a run or only cost time: a batch with one of them would meet no other."""


@dataclass(frozen=True)
class Marked:
    """A batch on disk, and every value of it that is somebody's."""

    file: Path
    values: frozenset[str]


def mark(file: Path, *, fillers: int = 0) -> Marked:
    """Write the batch, with unmarked rows at its end where it must be long."""
    people = [person for pair in zip_longest(_living(), _faulty()) for person in pair if person]
    rows = [_row(number, *person) for number, person in enumerate(people)]
    with file.open("w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(HEADINGS)
        writer.writerows(rows)
        writer.writerow(["MARKED-TOO-FEW-FIELDS", "Zqxbroken-Firstname"])
        writer.writerow(["", "Zqxwithoutid", "", "Zqxwithoutid-Surname", "2221234567O", "", ""])
        writer.writerows([f"F{number:06d}", *[""] * 12] for number in range(fillers))
    values = {value for row in rows for value in (*row[:6], *row[7:9]) if value}
    values |= {"MARKED-TOO-FEW-FIELDS", "Zqxbroken-Firstname", "Zqxwithoutid-Surname"}
    values |= {name for row in rows for name in _holders(row[6], row[5])}
    return Marked(file, frozenset(value for value in values if value))


def _living() -> list[tuple[str, str, str, str, str]]:
    found = []
    for number in range(LIVING):
        person = person_of_bvn(f"22{5_300_177 * (number + 3):09d}")
        found.append(
            (person.bvn, person.account_number, person.bank_code, person.phone, person.email)
        )
    return found


def _faulty() -> list[tuple[str, str, str, str, str]]:
    return [
        (row.bvn, row.account_number, test_identifiers.BANK_CODE, row.phone, row.email)
        for row in test_identifiers.TABLE
        if row.fault not in STOPPING
    ]


def _row(number: int, bvn: str, account: str, bank: str, phone: str, email: str) -> list[str]:
    return [
        f"MARKED-ID-{number:04d}",
        f"Zqxfirst{number:03d}-Adéọlá",
        f"Zqxmiddle{number:03d}",
        f"Zqxlast{number:03d}-Ɗanjuma",
        bvn,
        account,
        bank,
        phone,
        email,
        "",
        f"{2000 - number}",
        f"CNS-{number:04d}",
        "2026-01-05T09:00:00",
    ]


def _holders(bank_code: str, account_number: str) -> list[str]:
    """Return the name that the service would answer with, which is somebody's too."""
    holder = holder_of(bank_code, account_number)
    if holder is None:
        return []
    return [account_name(holder, bank_code, account_number)]
