"""Heading words: which known column a heading means, and which line of a file holds the headings.

The words are in `data/headings.csv`, and for other kinds of files in their own files. Nothing here
reads a customer's file; `column_mapping` applies a mapping file.
"""

from __future__ import annotations

import csv
import difflib
import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

from nightscreen.checks.registry import CHECKS
from nightscreen.schemas.columns import CUSTOMERS
from nightscreen.schemas.shipped import DATA

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from nightscreen.reading.mapping import Mapping as FileMapping
    from nightscreen.schemas.columns import InputKind

HEADINGS_FILE = DATA / CUSTOMERS.headings
LAST_CHOICES_FILE = DATA / "headings_last.csv"
LOAN_HEADINGS_FILE = DATA / "loan_headings.csv"
SHORT_FORMS_FILE = DATA / "heading_short_forms.csv"
CURRENCY = re.compile(r"[\[(]?\s*(?:₦|\bngn\b|\bnaira\b)\s*[\])]?", re.IGNORECASE)
HEADER_SEARCH_ROWS = 30
"""How far down to search for the row of headings; titles and notes take a few rows."""

OUTPUT_PREFIXES = (*(f"{check}_" for check in CHECKS), "batch_same_", "bvn_", "tx_")
OUTPUT_COLUMNS = frozenset(
    {
        *("name_match", "name_explained", "cost", "decision", "reasons", "policy"),
        *("batch_account_bvns", "ring", "ring_size", "customer_row", "customer_exposure"),
        "consent_unreadable",
    }
)
ID_WEIGHT = 1000
SHORT_WORD = 3
"""Words of so few letters have no near ones: BVN is not near GSM."""
VALUE = re.compile(r"\d{5}|@|\d+[.,]\d{2}$|^\d+$|^\d{1,4}[-/]\d{1,2}[-/]\d{1,4}")


_NEW_WORD = re.compile(r"(?<=[a-z])(?=[A-Z])")
_NO_LETTER = re.compile(r"[^0-9a-z]+")
M = TypeVar("M")


def fold(heading: str) -> str:
    """Return a heading without case, blanks, punctuation, accents and currency."""
    bare = CURRENCY.sub(" ", heading).replace("#", " no ")
    if bare.isascii():  # nearly all, and quicker
        return _NO_LETTER.sub("", bare.lower())
    decomposed = unicodedata.normalize("NFKD", bare)
    return "".join(letter for letter in decomposed.casefold() if letter.isalnum())


@lru_cache(maxsize=1)
def _short_forms() -> dict[str, str]:
    with SHORT_FORMS_FILE.open(encoding="utf-8", newline="") as file:
        return {row["short_form"]: row["word"] for row in csv.DictReader(file)}


def spelt_out(heading: str) -> str:
    """Return a heading folded with its short forms written out, as of `Sal. A/C No`."""
    apart = _NEW_WORD.sub(" ", CURRENCY.sub(" ", heading).replace("#", " no ")).casefold()
    words = (part.strip(".") for part in apart.replace("_", " ").split())
    parts = (part for word in words for part in ([word] if "/" in word else re.split(r"\W+", word)))
    return fold(" ".join(_short_forms().get(part, part) for part in parts))


def _by_form(rows: Iterable[tuple[str, M]]) -> dict[str, M]:
    """Return what headings mean by their folded forms; as written goes before spelt out."""
    given = list(rows)
    found: dict[str, M] = {}
    for form in (fold, spelt_out):
        for heading, meaning in given:
            found.setdefault(form(heading), meaning)
    return found


def known_form(heading: str, words: Mapping[str, M]) -> M | None:
    """Return what a heading means among folded ones, as it is written or spelt out."""
    found = words.get(fold(heading))
    return words.get(spelt_out(heading)) if found is None else found


def tidy(heading: str) -> str:
    """Return a heading in one line, without blanks round it and without letters not to be seen."""
    seen = (letter for letter in heading if letter.isprintable() or letter.isspace())
    return " ".join("".join(seen).split())


def looks_like_value(heading: str) -> bool:
    """Say whether a heading may be somebody's data, which a message must not repeat."""
    return VALUE.search(heading) is not None


def is_output_name(name: str) -> bool:
    """Say whether a name is, or may become, a column that the enriched output adds."""
    folded = name.casefold()
    return folded in OUTPUT_COLUMNS or folded.startswith(OUTPUT_PREFIXES)


@lru_cache(maxsize=2)
def heading_words(kind: InputKind = CUSTOMERS) -> dict[str, tuple[str, ...]]:
    """Return folded heading words and the known columns each may mean, the preferred one first.

    A word without a column is a common heading of lenders' files that is only carried through.
    Headings of a customer's id mean the same in every kind of file.
    """
    rows: list[tuple[str, tuple[str, ...]]] = [(name, (name,)) for name in kind.columns]
    for path in dict.fromkeys((DATA / kind.headings, HEADINGS_FILE)):
        own = path.name == kind.headings
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                meant = tuple(filter(None, row["column"].split("|")))
                if own or meant == ("customer_id",):
                    rows.append((row["heading"], meant))
    words = _by_form(rows)
    for word, choice in last_choices().items() if kind is CUSTOMERS else ():
        words.setdefault(word, (choice.column,))
    return words


@dataclass(frozen=True, slots=True)
class LastChoice:
    """Weak meanings: used if no other heading of the file has that meaning.

    Attributes:
        rank: of several for one column the least counts.
        unless: a meaning of `loan_headings.csv`: beside such a column the heading means nothing.
    """

    column: str
    rank: int
    unless: str


@lru_cache(maxsize=1)
def last_choices() -> dict[str, LastChoice]:
    """Return the folded headings that count only where nothing else means their column."""
    with LAST_CHOICES_FILE.open(encoding="utf-8", newline="") as file:
        return _by_form(
            (row["heading"], LastChoice(row["column"], rank, row["unless"]))
            for rank, row in enumerate(csv.DictReader(file))
        )


@lru_cache(maxsize=1)
def loan_headings() -> dict[str, str]:
    """Return folded headings of loan books with their meaning: `status` or `paid`."""
    with LOAN_HEADINGS_FILE.open(encoding="utf-8", newline="") as file:
        return _by_form((row["heading"], row["means"]) for row in csv.DictReader(file))


def meanings(heading: str, kind: InputKind = CUSTOMERS) -> tuple[str, ...]:
    """Return the known columns a heading may mean, the preferred one first; empty if none."""
    return known_form(heading, heading_words(kind)) or ()


def near_meaning(heading: str, kind: InputKind = CUSTOMERS) -> str | None:
    """Return the known column of the word nearest to a heading that is itself unknown."""
    words = heading_words(kind)
    folded = fold(heading)
    if len(folded) <= SHORT_WORD or known_form(heading, words) is not None:
        return None
    near = difflib.get_close_matches(folded, words, n=1, cutoff=0.85)
    possible = words[near[0]] if near else ()
    return possible[0] if possible else None


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The headings to look for in one file: the common ones and those of its mapping.

    Attributes:
        own: folded headings that the mapping names.
        ids: those of them that mean `customer_id`.
        kind: what the rows of the file are.
    """

    own: frozenset[str] = frozenset()
    ids: frozenset[str] = frozenset()
    kind: InputKind = CUSTOMERS

    @classmethod
    def of(cls, mapping: FileMapping | None, kind: InputKind = CUSTOMERS) -> Vocabulary:
        """Return the vocabulary for a file read with `mapping`."""
        if mapping is None:
            return cls(kind=kind)
        named = [heading for listed in mapping.columns.values() for heading in listed]
        ids = mapping.columns.get("customer_id", ())
        return cls(
            own=frozenset(fold(heading) for heading in (*named, *mapping.drop)),
            ids=frozenset(fold(heading) for heading in ids),
            kind=kind,
        )

    def score(self, cells: Sequence[str]) -> int:
        """Return how many cells of a row are known headings, each counted once.

        One that means `customer_id` outweighs all others, since every file has it and no row of
        values holds such a word.
        """
        words = heading_words(self.kind)
        seen = {word: known_form(cell, words) for cell in cells if (word := fold(cell))}
        known = sum(1 for word, meant in seen.items() if meant is not None or word in self.own)
        has_id = any(
            word in self.ids or "customer_id" in (meant or ()) for word, meant in seen.items()
        )
        return known + (ID_WEIGHT if has_id else 0)

    def header_row(self, rows: Sequence[Sequence[str]]) -> tuple[int, int]:
        """Return the index of the row of headings among the first rows, and its score.

        The row with most known headings wins, the earlier among equals; where no row has any, it
        is the first that is not blank.
        """
        scored = [self.score(row) for row in rows[:HEADER_SEARCH_ROWS]]
        best = max(scored, default=0)
        if best:
            return scored.index(best), best
        filled = (index for index, row in enumerate(rows) if any(cell.strip() for cell in row))
        return next(filled, 0), 0
