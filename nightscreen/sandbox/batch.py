"""Sample batches: files like those of a lender, with some damaged rows.

The file depends only on rows, seed, damage and the day for which it is made. Seen from that day,
consents are valid, expired or not yet given.
"""

from __future__ import annotations

import csv
import random
from collections import deque
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Final

from nightscreen.sandbox import test_identifiers
from nightscreen.sandbox.fiction import BANK_NAMES, SERIALS
from nightscreen.sandbox.people import LINKED_PREFIX, Person, person_of_bvn

if TYPE_CHECKING:
    from pathlib import Path

KINDS: Final = (
    *("bvn_short", "bvn_long", "bvn_letters", "bvn_scientific", "account_short"),
    *("customer_id_missing", "customer_id_duplicate", "absent_value"),
    *("name_misspelt", "name_reordered", "too_few_fields", "too_many_fields"),
)
"""Every kind of damage, each as likely as the others."""
REFUSING: Final = (
    *("customer_id_missing", "customer_id_duplicate", "too_few_fields", "too_many_fields"),
)
"""Kinds that make a row unusable as a whole."""
COLUMNS: Final = (
    *("customer_id", "first_name", "middle_name", "last_name", "bvn", "account_number"),
    *("bank_code", "bank_name", "phone", "email", "date_of_birth", "exposure"),
    *("consent_reference", "consented_at", "consent_expires_at", "consent_withdrawn_at"),
    *("branch", "loan_officer"),
)
ABSENT_WORDS: Final = ("NIL", "N/A", "0", "-", "null", "00000000000")
BRANCHES: Final = ("Ikeja", "Kano Central", "Port Harcourt", "Enugu", "Ibadan", "Abuja Wuse")
OFFICERS: Final = tuple(f"Officer {number:02d}" for number in range(1, 25))

DUPLICATE_SHARE: Final = 0.01
BANK_NAME_SHARE: Final = 0.12
_CAPITALS_SHARE: Final = 0.2  # share of rows with names in capitals
_ZONED_SHARE: Final = 0.25
_OPEN_ENDED: Final = 0.4
_CONSENTS: Final = ("valid", "none", "expired", "withdrawn", "future")
_CONSENT_WEIGHTS: Final = (70, 12, 8, 5, 5)
_LOANS: Final = ((10, 50), (10, 50), (50, 150), (150, 500))
"""Thousands of naira that a customer owes: digital loans, half of them under 50,000."""
_REMEMBERED: Final = 500
_STEP: Final = 618_033_989  # shares no factor with a power of ten


def make_batch(
    path: Path,
    *,
    rows: int,
    seed: int,
    damage_pct: float = 2.0,
    today: date | None = None,
) -> None:
    """Write a sample batch as CSV, row by row.

    The same seed gives the same people, consents and damage, of `damage_pct` percent of the rows.
    Consents are dated from `today`; None takes the present day (UTC).

    Raises:
        ValueError: rows below 0, or a damage share outside 0 to 100.
    """
    if rows < 0 or not 0 <= damage_pct <= 100:  # noqa: PLR2004 - percent
        raise ValueError("rows must not be below 0, and damage must be between 0 and 100 percent")
    maker = _Maker(random.Random(seed), today or datetime.now(UTC).date())
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for number in range(1, rows + 1):
            spoilt = maker.rng.random() < damage_pct / 100
            writer.writerow(maker.line(number, maker.rng.choice(KINDS) if spoilt else ""))


class _Maker:
    """Makes the lines of one file."""

    def __init__(self, rng: random.Random, today: date) -> None:
        self.rng = rng
        self._today = today
        self._recent: deque[Person] = deque(maxlen=_REMEMBERED)
        self._last_id = ""
        self._place = rng.randrange(SERIALS)

    def line(self, number: int, kind: str) -> list[str]:
        """Make one line, with one kind of damage or none."""
        row = self._row(number, self._person(kind))
        self._spoil(row, kind)
        if kind not in REFUSING:
            self._last_id = row["customer_id"]
        line = list(row.values())
        if kind == "too_few_fields":
            return line[: self.rng.randrange(4, 8)]
        return [*line, "", "see note"] if kind == "too_many_fields" else line

    def _spoil(self, row: dict[str, str], kind: str) -> None:
        rng, bvn = self.rng, row["bvn"]
        match kind:
            case "bvn_short":
                row["bvn"] = bvn[: rng.choice((9, 10))]
            case "bvn_long":
                row["bvn"] += str(rng.randrange(10))
            case "bvn_letters":
                place = rng.randrange(2, 11)
                row["bvn"] = bvn[:place] + rng.choice("OIlSB") + bvn[place + 1 :]
            case "bvn_scientific":
                row["bvn"] = f"{float(bvn):.2E}"
            case "account_short":
                row["account_number"] = row["account_number"][1:]
            case "customer_id_missing" | "customer_id_duplicate":
                row["customer_id"] = self._last_id if kind.endswith("duplicate") else ""
            case "absent_value":
                word = rng.choice(ABSENT_WORDS)
                row[rng.choice(("bvn", "account_number", "phone", "email"))] = word
            case "name_misspelt":
                row["last_name"] = self._misspelt(row["last_name"])
            case "name_reordered":
                row["first_name"], row["last_name"] = row["last_name"], row["first_name"]

    def _misspelt(self, name: str) -> str:
        place = self.rng.randrange(1, max(2, len(name) - 1))
        way = self.rng.randrange(3)
        swapped = name[: place - 1] + name[place] + name[place - 1] + name[place + 1 :]
        if way == 0:
            return name[:place] + name[place + 1 :]
        doubled = name[:place] + name[place] + name[place:]
        return doubled if way == 1 or swapped == name else swapped

    def _person(self, kind: str) -> Person:
        if not kind and self._recent and self.rng.random() < DUPLICATE_SHARE:
            return self.rng.choice(self._recent)
        while True:  # through all nine-digit numbers in large steps, so that nobody occurs twice
            self._place = (self._place + _STEP) % SERIALS
            bvn = f"{LINKED_PREFIX}{self._place:09d}"
            if test_identifiers.by_bvn(bvn):
                continue
            person = person_of_bvn(bvn)
            if kind != "account_short" or person.account_number.startswith("0"):
                break
        if not kind:
            self._recent.append(person)
        return person

    def _row(self, number: int, person: Person) -> dict[str, str]:
        rng = self.rng
        named = rng.random() < BANK_NAME_SHARE
        shout = rng.random() < _CAPITALS_SHARE
        names = (person.first_name, person.middle_name, person.last_name)
        digits = person.phone[4:]
        values = (
            f"CUST-{number:07d}",
            *((name.upper() for name in names) if shout else names),
            person.bvn,
            person.account_number,
            "" if named else person.bank_code,
            BANK_NAMES[person.bank_code] if named else "",
            rng.choice(
                (
                    *(f"0{digits}", f"0{digits}", f"0{digits}", person.phone, f"234{digits}"),
                    f"0{digits[:3]} {digits[3:6]} {digits[6:]}",
                    f"0{digits[:3]}-{digits[3:]}",
                )
            ),
            person.email,
            person.date_of_birth.isoformat(),
            self._exposure(),
            *self._consent(number),
            rng.choice(BRANCHES),
            rng.choice(OFFICERS),
        )
        return dict(zip(COLUMNS, values, strict=True))

    def _exposure(self) -> str:
        low, high = self.rng.choice(_LOANS)
        naira = self.rng.randrange(low, high) * 1000 + self.rng.choice((0, 0, 0, 500))
        form = self.rng.randrange(40)
        if form == 0:
            return ""
        return f"₦{naira:,}.00" if form == 1 else f"{naira}.00"

    def _consent(self, number: int) -> tuple[str, str, str, str]:
        """Return the four consent columns, each empty where nothing is to be said."""
        rng = self.rng
        kind = rng.choices(_CONSENTS, _CONSENT_WEIGHTS)[0]
        if kind == "none":
            return "", "", "", ""
        reference = f"CNS-{number:07d}"
        if kind == "future":
            return reference, self._moment(rng.randrange(5, 60)), "", ""
        if kind == "expired" and rng.random() < _OPEN_ENDED:
            return reference, self._moment(-rng.randrange(400, 900)), "", ""
        given = -rng.randrange(20, 330)
        if kind == "expired":
            return reference, self._moment(given), self._moment(-rng.randrange(3, 19)), ""
        if kind == "withdrawn":
            return reference, self._moment(given), "", self._moment(-rng.randrange(3, 19))
        open_ended = rng.random() < _OPEN_ENDED
        ends = "" if open_ended else self._moment(rng.randrange(30, 700))
        return reference, self._moment(given), ends, ""

    def _moment(self, days: int) -> str:
        day = self._today + timedelta(days=days)
        hours, rest = divmod(self.rng.randrange(8 * 3600, 18 * 3600), 3600)
        zone = "+01:00" if self.rng.random() < _ZONED_SHARE else ""
        return f"{day.isoformat()}T{hours:02d}:{rest // 60:02d}:{rest % 60:02d}{zone}"
