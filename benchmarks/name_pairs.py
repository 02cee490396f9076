"""Make labelled pairs of names: does an account belong to the customer, by its name alone?

Pairs are made from the names in `benchmarks/names`, with a seed. Half of the names make the set
that rules may be tuned on, the other half the set that is reported; no name is in both. The grade
`strong` verifies an account whose BVN is not reported. `benchmarks.quality` prints the tables.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from nightscreen.values.names import match_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

NAMES = Path(__file__).parent / "names"
TRADITIONS = ("yoruba", "igbo", "hausa", "south_south", "middle_belt")
SETS = ("tune", "report")
TITLES = ("MR", "MRS", "ALHAJI", "CHIEF", "DR.", "ENGR", "PASTOR", "HAJIA", "MALLAM", "BARR")
KEYBOARD = "qwertyuiop asdfghjkl zxcvbnm"
_LONG_ENOUGH = 6
_LATIN_SLIPS = ("left out", "doubled", "swapped", "next key")


@dataclass(frozen=True, slots=True)
class Pair:
    """A customer's first, middle and last name, an account's name, and whether it is theirs."""

    ours: tuple[str, ...]
    theirs: str
    same: bool
    category: str
    tradition: str


@dataclass(frozen=True, slots=True)
class Pool:
    """The names of one tradition in one set."""

    given: dict[str, list[str]]
    surnames: list[str]
    shorts: list[tuple[str, str]]
    spellings: list[tuple[str, str]]
    different: list[tuple[str, str]]


@cache
def pool(tradition: str, which: str) -> Pool:
    """Return one half of a tradition's names."""
    half = SETS.index(which)

    def lines(name: str, **values: str) -> list[dict[str, str]]:
        with (NAMES / name).open(encoding="utf-8", newline="") as file:
            rows = [
                row
                for row in csv.DictReader(file)
                if row["tradition"] == tradition and all(row[k] == v for k, v in values.items())
            ]
        return rows[half::2]

    def pairs(name: str, **values: str) -> list[tuple[str, str]]:
        return [(row["one"], row["other"]) for row in lines(name, **values)]

    return Pool(
        given={sex: [row["name"] for row in lines("given.csv", sex=sex)] for sex in "mf"},
        surnames=[row["name"] for row in lines("surnames.csv")],
        shorts=pairs("same.csv", kind="short"),
        spellings=pairs("same.csv", kind="spelling"),
        different=pairs("different.csv"),
    )


class _Maker:
    """Makes pairs of one tradition."""

    def __init__(self, tradition: str, which: str, random: Random) -> None:
        self.pool, self.random, self.tradition = pool(tradition, which), random, tradition

    def person(self, sex: str | None = None) -> tuple[str, str, str]:
        """Return first, middle and last name, all different."""
        given = self.pool.given[sex or self.random.choice("mf")]
        first, middle = self.random.sample(given, 2)
        last = self.random.choice([each for each in self.pool.surnames if each != middle])
        return first, middle, last

    def other_names(self, *taken: str, often: float = 0.5) -> tuple[str, str]:
        """Return a middle name, or an empty one, and a surname, none of them in `taken`."""
        while True:
            _, middle, last = self.person("m")
            if not {middle, last} & set(taken):
                return middle if self.random.random() < often else "", last

    def written(self, first: str, middle: str, last: str) -> str:
        """Return a name in an order that banks use, in capitals."""
        orders = ([first, middle, last], [last, first, middle], [last, middle, first])
        order = self.random.choices(orders, (5, 4, 1 if middle else 0))[0]
        return " ".join(each for each in order if each).upper()

    def slip(self, name: str) -> str:
        """Return a name with one typing mistake, never in its first letter."""
        at = self.random.randrange(1, len(name) - 1)
        kind = self.random.choice(_LATIN_SLIPS)
        if kind == "left out":
            return name[:at] + name[at + 1 :]
        if kind == "doubled":
            return name[:at] + name[at] + name[at:]
        if kind == "swapped" and name[at] != name[at + 1]:
            return name[:at] + name[at + 1] + name[at] + name[at + 2 :]
        place = KEYBOARD.index(name[at].lower())
        near = [each for each in (KEYBOARD + " ")[max(place - 1, 0) : place + 2] if each.isalpha()]
        return name[:at] + self.random.choice([e for e in near if e != name[at]]) + name[at + 1 :]

    def pair(self, category: str) -> Pair:
        """Return one pair of a category."""
        ours, theirs = getattr(self, f"_{category}")()
        return Pair(ours, theirs, category in SAME, category, self.tradition)

    def _as_it_is(self) -> tuple[tuple[str, ...], str]:
        person = self.person()
        return person, self.written(*person)

    def _middle_left_out(self) -> tuple[tuple[str, ...], str]:
        first, middle, last = self.person()
        return (first, middle, last), self.written(first, "", last)

    def _middle_on_the_account(self) -> tuple[tuple[str, ...], str]:
        first, middle, last = self.person()
        orders = ([first, middle, last], [last, first, middle])
        return (first, "", last), " ".join(self.random.choice(orders)).upper()

    def _middle_as_initial(self) -> tuple[tuple[str, ...], str]:
        first, middle, last = self.person()
        return (first, middle, last), self.written(first, middle[0], last)

    def _title(self) -> tuple[tuple[str, ...], str]:
        first, middle, last = self.person()
        middle = self.random.choice(("", middle))
        title = self.random.choice(TITLES)
        return (first, middle, last), f"{title} {self.written(first, middle, last)}"

    def _short_form(self) -> tuple[tuple[str, ...], str]:
        return self._two_ways(self.pool.shorts)

    def _spelling(self) -> tuple[tuple[str, ...], str]:
        return self._two_ways(self.pool.spellings)

    def _two_ways(self, ways: Sequence[tuple[str, str]]) -> tuple[tuple[str, ...], str]:
        one, other = self.random.sample(self.random.choice(ways), 2)
        middle, last = self.other_names(one, other)
        return (one, middle, last), self.written(other, middle, last)

    def _slip(self) -> tuple[tuple[str, ...], str]:
        first, middle, last = self.person()
        places = [at for at, each in enumerate((first, last)) if len(each) >= _LONG_ENOUGH]
        if not places:
            return self._slip()
        names = [first, last]
        at = self.random.choice(places)
        names[at] = self.slip(names[at])
        return (first, middle, last), self.written(names[0], middle, names[1])

    def _double_surname(self) -> tuple[tuple[str, ...], str]:
        first, middle, last = self.person("f")
        married = self.random.choice([each for each in self.pool.surnames if each != last])
        joined = self.random.choice(("-", " ")).join((last, married))
        return (first, middle, joined), self.written(
            first, middle, self.random.choice((last, joined))
        )

    def _junior_on_one_side(self) -> tuple[tuple[str, ...], str]:
        first, middle, last = self.person("m")
        return (first, middle, last), f"{self.written(first, middle, last)} JNR"

    def _sibling(self) -> tuple[tuple[str, ...], str]:
        first, other = self.random.sample(self.pool.given[self.random.choice("mf")], 2)
        father, last = self.other_names(first, other, often=1)
        return (first, father, last), self.written(other, father, last)

    def _fathers_account(self) -> tuple[tuple[str, ...], str]:
        first, father, last = self.person("m")
        return (first, father, last), self.written(father, "", last)

    def _sons_account(self) -> tuple[tuple[str, ...], str]:
        first, father, last = self.person("m")
        orders = ([first, father, last], [last, first, father])
        return (father, "", last), " ".join(self.random.choice(orders)).upper()

    def _junior_and_senior(self) -> tuple[tuple[str, ...], str]:
        first, middle, last = self.person("m")
        middle = self.random.choice(("", middle))
        marks = self.random.sample((("JNR", "JUNIOR", "JR."), ("SNR", "SENIOR", "SR")), 2)
        mine, other = (self.random.choice(mark) for mark in marks)
        return (first, middle, f"{last} {mine}"), f"{self.written(first, middle, last)} {other}"

    def _other_surname(self) -> tuple[tuple[str, ...], str]:
        first, middle, last = self.person()
        other = self.random.choice(
            [e for e in self.pool.surnames if e not in (last, first, middle)]
        )
        return (first, middle, last), self.written(first, middle, other)

    def _sound_alike(self) -> tuple[tuple[str, ...], str]:
        one, other = self.random.sample(self.random.choice(self.pool.different), 2)
        middle, last = self.other_names(one, other)
        return (one, middle, last), self.written(other, middle, last)

    def _same_surname(self) -> tuple[tuple[str, ...], str]:
        first, middle, last = self.person()
        while True:
            other, further, _ = self.person()
            if not {other, further} & {first, middle}:
                return (first, middle, last), self.written(other, further, last)

    def _same_first_name(self) -> tuple[tuple[str, ...], str]:
        first, middle, last = self.person()
        while True:
            _, further, other = self.person()
            if other != last and further not in (first, middle):
                return (first, middle, last), self.written(first, further, other)


SAME = {
    "as_it_is": 3, "middle_left_out": 3, "middle_on_the_account": 3, "middle_as_initial": 1,
    "title": 2, "short_form": 3, "spelling": 3, "slip": 2, "double_surname": 1,
    "junior_on_one_side": 1,
}  # fmt: skip
DIFFERENT = {
    "sibling": 3, "fathers_account": 2, "sons_account": 1, "junior_and_senior": 1,
    "other_surname": 2, "sound_alike": 3, "same_surname": 3, "same_first_name": 3,
}  # fmt: skip
"""The weight of each kind among the pairs."""


def labelled(which: str, seed: int, size: int) -> list[Pair]:
    """Return labelled pairs, the same for the same seed; no pair twice."""
    random = Random(f"{which}-{seed}")
    kinds = [kind for kind, often in (SAME | DIFFERENT).items() for _ in range(often)]
    pairs: dict[tuple[tuple[str, ...], str], Pair] = {}
    for number in range(20 * size):
        if len(pairs) == size:
            break
        tradition = TRADITIONS[number % len(TRADITIONS)]
        made = _Maker(tradition, which, random).pair(random.choice(kinds))
        pairs.setdefault((made.ours, made.theirs), made)
    return list(pairs.values())


def verified(pair: Pair) -> bool:
    """Return whether the name alone verifies the account."""
    match = match_names(pair.ours, pair.theirs)
    return match is not None and match.grade == "strong"


def rates(pairs: Iterable[Pair], judge: Callable[[Pair], bool]) -> tuple[float, float]:
    """Return precision and recall."""
    right = wrong = missed = 0
    for pair in pairs:
        judged_same = judge(pair)
        right += judged_same and pair.same
        wrong += judged_same and not pair.same
        missed += pair.same and not judged_same
    return right / (right + wrong or 1), right / (right + missed or 1)
