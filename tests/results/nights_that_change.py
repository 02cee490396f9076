"""Nights of one batch between which anything may change, for tests of what is kept between them."""

from __future__ import annotations

import random
from dataclasses import dataclass

from nightscreen.schemas.clock import DAY_MICROS, system_clock
from tests.screening import CONSENT, customer, days_ago

ROWS = 40


@dataclass
class Clock:
    """The present instant, and days on top of it."""

    days: int = 0

    def __call__(self) -> int:
        """Return the instant."""
        return system_clock() + self.days * DAY_MICROS


def person(number: int) -> dict[str, str]:
    """Return a customer with all that any check asks for."""
    row = customer(number, **CONSENT)
    row["image_url"] = f"https://images.example/{number % 7}.jpg"
    row["phone"], row["email"] = f"0803{number:07d}", f"c{number}@example.ng"
    row["date_of_birth"] = f"19{70 + number % 30}-05-0{1 + number % 9}"
    return row


def changed(rows: list[dict[str, str]], rng: random.Random) -> list[dict[str, str]]:
    """Return the next night's rows: some changed, gone, new, or in another place."""
    found = [dict(row) for row in rows]
    for row in rng.sample(found, rng.randrange(len(found) // 2)):
        other = person(rng.randrange(1, 2 * ROWS))
        match rng.randrange(7):
            case 0:
                row["last_name"] = other["last_name"]
            case 1:
                row["account_number"], row["bank_code"] = other["account_number"], "058"
            case 2:
                row["consent_withdrawn_at"] = days_ago(30)
            case 3:
                row["bvn"] = other["bvn"]
            case 4:
                row["bvn"] = "123"
            case 5:
                row["date_of_birth"] = other["date_of_birth"]
            case _:
                row["first_name"], row["last_name"] = row["last_name"], row["first_name"]
    kept = [row for row in found if rng.random() > 0.05]
    fresh = [person(rng.randrange(1, 2 * ROWS)) for _ in range(rng.randrange(20))]
    for place, row in enumerate(fresh):
        row["customer_id"] = f"N{rng.randrange(10**9)}-{place}"
    kept += fresh
    if rng.random() < 0.3:
        rng.shuffle(kept)
    return kept
