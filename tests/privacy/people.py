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


def mark(file: Path, *, faulty: bool = True) -> Marked:
    """Write the batch: the living and any faulty in turn, then two rows that are refused."""
    bvns = [f"22{5_300_177 * (number + 3):09d}" for number in range(LIVING)]
    living = [(x.bvn, *x.account, x.phone, x.email) for x in map(person_of_bvn, bvns)]
    selecting_faults = [
        (row.bvn, test_identifiers.BANK_CODE, row.account_number, row.phone, row.email)
        for row in test_identifiers.TABLE
        if faulty and row.fault not in STOPPING
    ]
    pairs = zip_longest(living, selecting_faults)
    people = [person for pair in pairs for person in pair if person]
    rows, values = list[list[str]](), set[str]()
    for number, (bvn, bank, account, phone, email) in enumerate(people):
        names = (f"Zqxfirst{number:03d}-Adéọlá", f"Zqxmiddle{number:03d}")
        named = [f"MARKED-ID-{number:04d}", *names, f"Zqxlast{number:03d}-Ɗanjuma", bvn, account]
        consent = (f"CNS-{number:04d}", "2026-01-05T09:00:00")
        rows.append([*named, bank, phone, email, "", f"{2000 - number}", *consent])
        values |= {*named, phone, email}
        if holder := holder_of(bank, account):  # whom the service answers with is somebody too
            values.add(account_name(holder, bank, account))
    rows.append(["MARKED-TOO-FEW-FIELDS", "Zqxbroken-Firstname"])
    rows.append(["", "Zqxwithoutid", "", "Zqxwithoutid-Surname", "2221234567O", "", ""])
    values |= {"MARKED-TOO-FEW-FIELDS", "Zqxbroken-Firstname", "Zqxwithoutid-Surname"}
    with file.open("w", encoding="utf-8", newline="") as out:
        csv.writer(out).writerows([HEADINGS, *rows])
    return Marked(file, frozenset(value for value in values if value))
