"""Sample batches: files such as a lender would hand in, some of it damaged.

The file depends on nothing but rows, seed, damage and the day it is made for: consents are valid,
expired or not yet given as seen from that day.
"""

from __future__ import annotations

import csv
import random
from collections import Counter, deque
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Final

from nightscreen.sandbox import test_identifiers
from nightscreen.sandbox.banks import BANK_NAMES, SERIALS
from nightscreen.sandbox.people import LINKED_PREFIX, Person, person_of_bvn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from random import Random

    Row = dict[str, str]
    Spoiler = Callable[[Row, Random], None]

ABSENT_WORDS: Final = ("NIL", "N/A", "0", "-", "null", "00000000000")

SHORT_ACCOUNT: Final = "account_short"
DUPLICATE_ID: Final = "customer_id_duplicate"
FEW_FIELDS: Final = "too_few_fields"
MANY_FIELDS: Final = "too_many_fields"
MISSING_ID: Final = "customer_id_missing"


def _bvn_short(row: Row, rng: Random) -> None:
    row["bvn"] = row["bvn"][: rng.choice((9, 10))]


def _bvn_long(row: Row, rng: Random) -> None:
    row["bvn"] += str(rng.randrange(10))


def _bvn_letters(row: Row, rng: Random) -> None:
    place = rng.randrange(2, 11)
    row["bvn"] = row["bvn"][:place] + rng.choice("OIlSB") + row["bvn"][place + 1 :]


def _bvn_scientific(row: Row, _rng: Random) -> None:
    row["bvn"] = f"{float(row['bvn']):.2E}"


def _account_short(row: Row, _rng: Random) -> None:
    row["account_number"] = row["account_number"][1:]


def _missing_id(row: Row, _rng: Random) -> None:
    row["customer_id"] = ""


def _absent(row: Row, rng: Random) -> None:
    row[rng.choice(("bvn", "account_number", "phone", "email"))] = rng.choice(ABSENT_WORDS)


def _name_misspelt(row: Row, rng: Random) -> None:
    name = row["last_name"]
    place = rng.randrange(1, max(2, len(name) - 1))
    way = rng.randrange(3)
    swapped = name[: place - 1] + name[place] + name[place - 1] + name[place + 1 :]
    if way == 0:
        row["last_name"] = name[:place] + name[place + 1 :]
    elif way == 1 or swapped == name:
        row["last_name"] = name[:place] + name[place] + name[place:]
    else:
        row["last_name"] = swapped


def _name_reordered(row: Row, _rng: Random) -> None:
    row["first_name"], row["last_name"] = row["last_name"], row["first_name"]


def _left_to_the_writer(_row: Row, _rng: Random) -> None:
    """Some damage is not in a value: it needs the rows before, or the line itself."""


SPOILERS: Final[dict[str, Spoiler]] = {
    "bvn_short": _bvn_short,
    "bvn_long": _bvn_long,
    "bvn_letters": _bvn_letters,
    "bvn_scientific": _bvn_scientific,
    SHORT_ACCOUNT: _account_short,
    MISSING_ID: _missing_id,
    DUPLICATE_ID: _left_to_the_writer,
    "absent_value": _absent,
    "name_misspelt": _name_misspelt,
    "name_reordered": _name_reordered,
    FEW_FIELDS: _left_to_the_writer,
    MANY_FIELDS: _left_to_the_writer,
}
KINDS: Final = tuple(SPOILERS)
"""Every kind of damage, each as likely as the others."""

REFUSING: Final = (MISSING_ID, DUPLICATE_ID, FEW_FIELDS, MANY_FIELDS)
"""Kinds that make a row unusable as a whole."""


CONSENT_COLUMNS: Final = (
    *("consent_reference", "consented_at", "consent_expires_at", "consent_withdrawn_at"),
)
COLUMNS: Final = (
    *("customer_id", "first_name", "middle_name", "last_name", "bvn", "account_number"),
    *("bank_code", "bank_name", "phone", "email", "date_of_birth", "exposure"),
    *CONSENT_COLUMNS,
    *("branch", "loan_officer"),
)
BRANCHES: Final = ("Ikeja", "Kano Central", "Port Harcourt", "Enugu", "Ibadan", "Abuja Wuse")
OFFICERS: Final = tuple(f"Officer {number:02d}" for number in range(1, 25))

DUPLICATE_SHARE: Final = 0.01
BANK_NAME_SHARE: Final = 0.12
_CONSENTS: Final = ("valid", "none", "expired", "withdrawn", "future")
_CONSENT_WEIGHTS: Final = (70, 12, 8, 5, 5)
_LOANS: Final = ((10, 50), (10, 50), (50, 150), (150, 500))
"""Thousands of naira that a customer owes: digital loans, half of them under 50,000."""
_REMEMBERED: Final = 500
_OPEN_ENDED: Final = 0.4
_STEP: Final = 618_033_989  # shares no factor with a power of ten


@dataclass(slots=True)
class BatchFacts:
    """The contents of a made batch."""

    rows: int = 0  # data lines, without the header
    people: int = 0  # different people in the file
    duplicates: int = 0  # rows that repeat a person under another customer_id
    # rows by kind of damage; a row has at most one
    damaged: Counter[str] = field(default_factory=Counter)
    # rows by state of consent: valid, none, expired, withdrawn, future
    consents: Counter[str] = field(default_factory=Counter)

    @property
    def refused(self) -> int:
        """Rows that no reader can use: without a customer_id, repeating one, or broken."""
        return sum(self.damaged[kind] for kind in REFUSING)

    def as_json(self) -> dict[str, object]:
        """Return the counts as plain values."""
        return {
            "rows": self.rows,
            "refused": self.refused,
            "people": self.people,
            "duplicates": self.duplicates,
            "damaged": dict(sorted(self.damaged.items())),
            "consents": dict(sorted(self.consents.items())),
        }


def make_batch(
    path: Path,
    *,
    rows: int,
    seed: int,
    damage_pct: float = 2.0,
    today: date | None = None,
) -> BatchFacts:
    """Write a sample batch as CSV, row by row.

    Args:
        path: file to write; it is replaced.
        rows: how many data lines.
        seed: chooses people, consents and damage; the same seed gives the same file.
        damage_pct: share of rows to damage, in percent.
        today: day that consents are dated from; None takes the present day (UTC).

    Returns:
        The contents of the file.

    Raises:
        ValueError: rows below 0, or a damage share outside 0 to 100.
    """
    if rows < 0 or not 0 <= damage_pct <= 100:  # noqa: PLR2004 - percent
        raise ValueError("rows must not be below 0, and damage must be between 0 and 100 percent")
    facts = BatchFacts()
    maker = _Maker(random.Random(seed), damage_pct / 100, today or datetime.now(UTC).date(), facts)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(maker.lines(rows))
    return facts


class _Maker:
    """Makes the lines of one file."""

    def __init__(
        self, rng: random.Random, damage_share: float, today: date, facts: BatchFacts
    ) -> None:
        self._rng = rng
        self._damage_share = damage_share
        self._today = today
        self._facts = facts
        self._recent: deque[Person] = deque(maxlen=_REMEMBERED)
        self._last_id = ""
        self._place = rng.randrange(SERIALS)

    def lines(self, count: int) -> Iterator[list[str]]:
        """Make the lines of the file, one after the other."""
        for number in range(1, count + 1):
            spoilt = self._rng.random() < self._damage_share
            yield self._line(number, self._kind(self._rng.choice(KINDS)) if spoilt else "")

    def _kind(self, kind: str) -> str:
        return MISSING_ID if kind == DUPLICATE_ID and not self._last_id else kind

    def _line(self, number: int, kind: str) -> list[str]:
        facts, rng = self._facts, self._rng
        facts.rows += 1
        row = self._row(number, self._person(kind))
        if kind:
            facts.damaged[kind] += 1
            SPOILERS[kind](row, rng)
        if kind == DUPLICATE_ID:
            row["customer_id"] = self._last_id
        if kind not in REFUSING:
            self._last_id = row["customer_id"]
        line = list(row.values())
        if kind == FEW_FIELDS:
            return line[: rng.randrange(4, 8)]
        if kind == MANY_FIELDS:
            return [*line, "", "see note"]
        return line

    def _person(self, kind: str) -> Person:
        if not kind and self._recent and self._rng.random() < DUPLICATE_SHARE:
            self._facts.duplicates += 1
            return self._rng.choice(self._recent)
        person = self._new_person()
        if kind == SHORT_ACCOUNT:
            while not person.account_number.startswith("0"):
                person = self._new_person()
        if not kind:
            self._recent.append(person)
        self._facts.people += 1
        return person

    def _new_person(self) -> Person:
        """Walk through all nine-digit numbers in great steps, so that nobody comes twice."""
        while True:
            self._place = (self._place + _STEP) % SERIALS
            bvn = f"{LINKED_PREFIX}{self._place:09d}"
            if test_identifiers.by_bvn(bvn) is None:
                return person_of_bvn(bvn)

    def _row(self, number: int, person: Person) -> dict[str, str]:
        rng = self._rng
        named = rng.random() < BANK_NAME_SHARE
        shout = rng.random() < 0.2  # noqa: PLR2004 - one lender clerk in five writes capitals
        names = (person.first_name, person.middle_name, person.last_name)
        first, middle, last = (name.upper() for name in names) if shout else names
        return {
            "customer_id": f"CUST-{number:07d}",
            "first_name": first,
            "middle_name": middle,
            "last_name": last,
            "bvn": person.bvn,
            "account_number": person.account_number,
            "bank_code": "" if named else person.bank_code,
            "bank_name": BANK_NAMES[person.bank_code] if named else "",
            "phone": self._phone(person.phone),
            "email": person.email,
            "date_of_birth": person.date_of_birth.isoformat(),
            "exposure": self._exposure(),
            **dict(zip(CONSENT_COLUMNS, self._consent(number), strict=True)),
            "branch": rng.choice(BRANCHES),
            "loan_officer": rng.choice(OFFICERS),
        }

    def _phone(self, phone: str) -> str:
        digits = phone[4:]
        return self._rng.choice(
            (
                *(f"0{digits}", f"0{digits}", f"0{digits}", phone, f"234{digits}"),
                *(f"0{digits[:3]} {digits[3:6]} {digits[6:]}", f"0{digits[:3]}-{digits[3:]}"),
            )
        )

    def _exposure(self) -> str:
        low, high = self._rng.choice(_LOANS)
        naira = self._rng.randrange(low, high) * 1000 + self._rng.choice((0, 0, 0, 500))
        form = self._rng.randrange(40)
        if form == 0:
            return ""
        return f"₦{naira:,}.00" if form == 1 else f"{naira}.00"

    def _consent(self, number: int) -> tuple[str, str, str, str]:
        rng = self._rng
        kind = rng.choices(_CONSENTS, _CONSENT_WEIGHTS)[0]
        self._facts.consents[kind] += 1
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
        seconds = self._rng.randrange(8 * 3600, 18 * 3600)
        hours, rest = divmod(seconds, 3600)
        zone = "+01:00" if self._rng.random() < 0.25 else ""  # noqa: PLR2004 - a quarter has zones
        return f"{day.isoformat()}T{hours:02d}:{rest // 60:02d}:{rest % 60:02d}{zone}"
