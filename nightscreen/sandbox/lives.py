"""Financial lives: what somebody earns, spends and owes, and how banks describe it.

A life depends only on its owner's name and its plan. Narrations are written like those of Nigerian
banks and wallets, whether or not any rules recognise them. `truth_of` computes the truth about a
life; `sandbox.transactions` turns entries into records with ids and balances.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from statistics import median
from typing import Annotated, ClassVar, Final, Literal, NamedTuple, get_args

from pydantic import ConfigDict, Field

from nightscreen.sandbox.fiction import FICTION, STOCKS, SeededRandom
from nightscreen.sandbox.people import FIRST_DAY, MONTHS

Kind = Literal["monthly", "weekly", "trader", "gig", "gambler", "borrower", "seasonal", "idle"]
"""What people live on, in words in `docs/other-clients.md`."""
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
_SHARES: Final[tuple[Kind, ...]] = (
    *("monthly",) * 8,
    *("weekly",) * 2,
    *("trader",) * 4,
    *("gig",) * 3,
    *("gambler",) * 2,
    *("borrower",) * 3,
    *("seasonal", "idle"),
)
MONTHS_BEHIND: Final = 6  # months of history on day 0, unless a plan says otherwise

_WORDS: Final = FICTION["money"]
_LENDERS: Final[dict[str, str]] = FICTION["lenders"]
"""How each lender collects its money."""


@dataclass(frozen=True, slots=True)
class Life:
    """The plan of a life, drawn from its owner's name or planted."""

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid")

    kind: Kind = "monthly"
    # naira a month, of which a trade is the rough sum
    pay: Annotated[int, Field(ge=1000, le=1_000_000_000, strict=True)] = 150_000
    employer: Annotated[str, Field(min_length=1)] = _WORDS["firms"][0]  # as the bank writes it
    months: Annotated[int, Field(ge=1, le=60, strict=True)] = MONTHS_BEHIND  # of history on day 0
    # the month of history that the bank's feed lost, counted back from day 0; 0 for none
    lost: Annotated[int, Field(ge=0, le=60, strict=True)] = 0


class Entry(NamedTuple):
    """One movement of money; `kobo` is below zero where it goes out."""

    day: int
    second: int
    kobo: int
    narration: str
    word: str  # transaction type, as the service has it
    tag: str = ""  # `pay`, `repayment`, `loan`, `reversed`: what is tagged never changes
    times: int = 1  # how often the list has it


class Truth(NamedTuple):
    """The truth about a life on day 0, only for tests."""

    kind: str
    salary: bool
    employer: str
    income_monthly: int  # naira of the median month
    loans: int  # received within 180 days
    repayments: int  # made within 180 days, those of a month that the feed lost left out
    lenders: tuple[str, ...]


def life_of(owner: str) -> Life:
    """Draw the plan of a life that was not planted."""
    draw = SeededRandom("life", owner)
    kind = draw.pick(_SHARES)
    pay = draw.between(60, 400) * 1000
    lost = draw.between(2, MONTHS_BEHIND - 1) if draw.below(8) == 0 else 0
    return Life(kind, pay, draw.pick(_WORDS["firms"]), lost=lost)


def entries_of(owner: str, life: Life, month: int) -> list[Entry]:
    """Return the entries of a month, oldest first; month 0 begins with day 0."""
    if -month == life.lost and life.lost:
        return []
    return sorted(_Month(owner, life, month).written())


def everyday(owner: str, days: int, count: int) -> list[Entry]:
    """Return so many small payments of the last so many days, oldest first."""
    writer = _Month(owner, life_of(owner), 0)
    return sorted(writer.spent(-writer.draw.below(days)) for _ in range(count))


def truth_of(owner: str, life: Life | None = None) -> Truth:
    """Compute the truth about a life on day 0."""
    life = life or life_of(owner)
    whole = Life(life.kind, life.pay, life.employer, life.months)
    earned, loans, repaid = [], 0, []
    for month in range(-life.months, 0):
        entries = entries_of(owner, whole, month)
        earned.append(sum(entry.kobo for entry in entries if entry.tag == "pay"))
        late = [entry for entry in entries if entry.day > -181 and -month != life.lost]  # noqa: PLR2004
        loans += sum(entry.tag == "loan" for entry in late)
        repaid += [entry for entry in late if entry.tag == "repayment"]
    begin = {name: text.partition("{")[0] for name, text in _LENDERS.items()}
    names = {name for entry in repaid for name in begin if entry.narration.startswith(begin[name])}
    salaried = life.kind in ("monthly", "weekly", "gambler", "borrower")
    return Truth(
        life.kind,
        salaried,
        life.employer if salaried else "",
        round(median(earned) / 100) if earned else 0,
        loans,
        len(repaid),
        tuple(sorted(names)),
    )


class _Month:
    """Writes one month of a life."""

    def __init__(self, owner: str, life: Life, month: int) -> None:
        self._life = life
        self.draw = SeededRandom("month", owner, str(month))
        self._habits = SeededRandom("habits", owner)  # the same in every month
        years, ahead = divmod(FIRST_DAY.month - 1 + month, 12)
        self._first = date(FIRST_DAY.year + years, ahead + 1, 1)
        self._entries: list[Entry] = []

    def written(self) -> list[Entry]:
        """Write all entries of the month."""
        for day in (1, 28, *(self.draw.between(2, 27) for _ in range(4))):
            self._put(self.spent(self._day(day)))
        for _ in range(self.draw.below(3)):
            gift = self.draw.between(2, 30) * 1000
            self._add(self.draw.between(1, 27), gift, "TRF FROM {3}", "Credit")
        match self._life.kind:
            case "weekly":
                self._weekly()
            case "trader" | "seasonal":
                season = self._life.kind == "seasonal" and self._first.month in (1, 11, 12)
                self._trade(self._life.pay * (4 if season else 1))
            case "gig":
                self._gig()
            case "idle":
                pass
            case _:
                self._salary()
        if self._life.kind == "gambler":
            self._gamble()
        if self._life.kind == "borrower":
            self._borrow()
        self._noise()
        return self._entries

    def spent(self, day: int) -> Entry:
        """Return one everyday payment on a day of the world."""
        narration, word = self.draw.pick(_WORDS["spent"])
        most = 2 if self._life.kind == "idle" else max(2, self._life.pay // 15_000)
        kobo = -self.draw.between(200_00, most * 1000_00)
        return Entry(day, self._second(), kobo, self._text(narration), word)

    def _day(self, day: int) -> int:
        return (self._first - FIRST_DAY).days + day - 1

    def _second(self) -> int:
        return self.draw.between(7 * 3600, 20 * 3600)

    def _put(self, entry: Entry) -> None:
        self._entries.append(entry)
        if self.draw.below(100) == 0:  # the list has it twice
            self._entries[-1] = entry._replace(times=2)

    def _add(self, day: int, naira: int, text: str, word: str, tag: str = "") -> None:
        narration = self._text(text)
        self._put(Entry(self._day(day), self._second(), naira * 100, narration, word, tag))

    def _text(self, text: str) -> str:
        draw = self.draw
        stock = draw.pick(STOCKS)
        name = f"{draw.pick(stock.men)} {draw.pick(stock.families)}".upper()
        return text.format(
            draw.between(10_000, 99_999),
            self._life.employer,
            MONTHS[self._first.month - 1].upper(),
            name[: draw.pick((30, 30, 9))],  # banks cut names
            f"{draw.below(10**8):08d}",
        )

    def _salary(self) -> None:
        """Write the salary: its day slides before weekends, December's comes early."""
        usual, split = self._habits.pick((24, 25, 27, 28)), self._habits.below(4) == 0
        text = self._habits.pick(
            _WORDS["salaries" if self._habits.below(4) else "wordless_salaries"]
        )
        december = 9 if self._first.month == 12 else 0  # noqa: PLR2004
        day = self._first + timedelta(days=usual - 1 - december)
        day -= timedelta(days=max(0, day.weekday() - 4))
        pay, part = self._life.pay, self._life.pay * 6 // 10
        for late, naira in enumerate((part, pay - part) if split else (pay,)):
            self._add(day.day + 2 * late, naira, text, "Credit", "pay")

    def _weekly(self) -> None:
        for day in range(1, 29):
            if (self._first + timedelta(days=day - 1)).weekday() == 4:  # noqa: PLR2004 - Friday
                self._add(
                    day, self._life.pay // 4, f"{{1}} WAGES WK{day // 7 + 1}", "Credit", "pay"
                )

    def _trade(self, naira: int) -> None:
        for _ in range(self.draw.between(14, 22)):
            amount = naira // 18 * self.draw.between(50, 150) // 100
            self._add(
                self.draw.between(1, 27), amount, self.draw.pick(_WORDS["sold"]), "Credit", "pay"
            )

    def _gig(self) -> None:
        name = self._habits.pick(_WORDS["platforms"])
        for day in (3, 10, 17, 24):
            amount = self._life.pay // 4 * self.draw.between(60, 140) // 100
            self._add(day, amount, f"{name} PAYOUT {{4}}", "Credit", "pay")

    def _gamble(self) -> None:
        for _ in range(6):
            stake = self.draw.between(1, 15) * 1000
            self._add(self.draw.between(1, 27), -stake, "SPORTYBET {0}", "Purchase")
        if self.draw.below(3) == 0:
            won = self._life.pay * self.draw.between(10, 150) // 100
            self._add(self.draw.between(1, 27), won, "BET9JA PAYOUT", "Credit")

    def _borrow(self) -> None:
        pay = self._life.pay
        self._add(9, pay // 2, self.draw.pick(_WORDS["loans_received"]), "Credit", "loan")
        for day in (15, 21):
            text = self.draw.pick(tuple(_LENDERS.values()))
            self._add(day, -pay // 5, text, "Debit", "repayment")

    def _noise(self) -> None:
        """Write misleading entries: a reversed payment, and sometimes a large sum."""
        if self.draw.below(5) == 0:
            amount, day = self.draw.between(5, 60) * 1000, self.draw.between(3, 25)
            shop = self._text("STORE {0}")
            self._add(day, -amount, f"WEB PYMT {shop}", "Purchase", "reversed")
            self._add(day + 1, amount, f"RVSL WEB PYMT {shop}", "Credit", "reversed")
        if self.draw.below(20) == 0:
            self._add(17, self._life.pay * 6, "NIP/UBA/{3}/PROPERTY SALE", "Credit")
