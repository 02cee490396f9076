"""The declaration of a check: how it is asked and read, and how its answers are judged and shown.

An incomplete declaration fails when it is loaded, in one line that names what is missing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from nightscreen.schemas.checks import IdentityKind
from nightscreen.schemas.columns import KNOWN_COLUMNS

if TYPE_CHECKING:
    from decimal import Decimal

    from nightscreen.schemas.checks import Lookup, Outcome
    from nightscreen.schemas.requests import Request


_NAME = re.compile(r"[a-z][a-z0-9_]*")


class Tone(Enum):
    """What a status means for the lender, for charts."""

    GOOD = "good"
    DOUBTFUL = "doubtful"
    BAD = "bad"


class Kind(Enum):
    """The type of a column."""

    TEXT = "string"
    WORD = "dictionary of a few words"
    FLAG = "bool"
    COUNT = "int64"
    NUMBER = "float64"
    NAIRA = "decimal128(20, 2)"
    AMOUNT = "decimal128(24, 6)"
    DAY = "date32"
    INSTANT = "timestamp[us, UTC]"


Shape = Kind | Sequence["Shape"] | Mapping[str, "Shape"]
"""A kind; `[shape]` is a list, `{name: shape}` a struct."""


class Compare(Enum):
    """How a field's old and new value are compared from run to run."""

    PLAIN = "plain"
    RANK = "rank"
    MORE_IS_WORSE = "more is worse"
    LISTING = "listing"
    IDENTIFYING = "identifying"  # whether it differs; only digests of the values are stored


@dataclass(frozen=True, slots=True)
class Column:
    """A column of `enriched` that a check fills."""

    name: str  # its full name
    shape: Shape
    meaning: str  # a sentence for readers of the results
    # how a change is judged; None if the column is not compared, because it changes with every
    # lookup or depends on others
    compare: Compare | None = None
    ranks: tuple[str, ...] = ()  # its values from best to worst, if it is compared by rank
    unseen: tuple[str, ...] = ()  # keys of its structs that are not shown to the data subject


Row = Mapping[str, Any]  # cells of an input row, or of a row of `enriched`, by their columns
Found = tuple[IdentityKind, Any]
"""The kind of identifier that was asked by, and the record in the answer."""


class Limits(NamedTuple):
    """The lender's thresholds, from 0 to 100."""

    match_at: float = 90.0  # similarity from which a photograph is the customer's
    no_match_below: float = 70.0  # similarity under which it is not


class Days(NamedTuple):
    """How many days an answer stays fresh, by the purpose of the run."""

    portfolio: float
    origination: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """Everything that other code needs to know about a check."""

    name: str  # its name in settings, columns, files and the journal
    title: str  # its name for people
    # the identifiers it is asked by, each in a separate call; empty if each run chooses them
    asked_by: tuple[IdentityKind, ...]
    # a second identifier in every call, such as the photograph
    together_with: IdentityKind | None = None
    # it is lawful only with the customer's consent (specification, area B, rule 3)
    needs_consent: bool
    request: Callable[[Lookup], Request]  # builds the call that answers a lookup
    # returns the typed record in the `data` of an answer; None if there is none
    read: Callable[[object], Any]
    # fields of `data` that are removed from an answer before it is stored
    not_kept: tuple[str, ...] = ()
    # returns whether a record is about another identifier than the one asked about (not empty); one
    # without an identifier cannot be
    is_another: Callable[[str, Any], bool] = lambda _asked, _record: False
    names_somebody: bool = False  # whether a record has an identifier
    ages: Mapping[Outcome, Days]  # how long an answer stays fresh, by its outcome
    naira: Decimal  # the price of a hit until the journal has seen one
    max_in_flight: int  # most calls under way at once
    timeout_s: float  # seconds a whole call may take
    is_default: bool = False  # it is asked if a run names no checks
    # hits and misses both have the balance, so that one call gives the opening balance
    bears_balance: bool = False
    order: int  # its rank among checks of one price: checks that decide a row alone come first
    first_night_hits: float  # the expected share of charged calls until there is experience
    first_night_seconds: float  # the expected duration of a call until there is experience
    # the statuses of a row that has an answer, with their tones
    statuses: Mapping[str, Tone]
    ranks: tuple[str, ...] = ()  # the statuses from best to worst, if they are compared by rank
    columns: tuple[Column, ...] = ()  # its other columns, in the order of the output
    # the known columns of the input row, and `flaws`, that `judge` reads
    looks_at: tuple[str, ...] = ()
    # returns a row's status and a value for each of `columns`, from the row and the records of its
    # answers; without records every answer was a miss, and a record is None if its answer can no
    # longer be read
    judge: Callable[[Row, Sequence[Found], Limits], tuple[Any, ...]]
    # a sentence on the customer's page for a status without other columns
    says: Mapping[str, str] = field(default_factory=dict)
    # returns the columns of a row that its data subject is not shown, because they are about
    # another person or were never confirmed; a row of a list has fewer columns
    withheld: Callable[[Row], tuple[str, ...]] = lambda _row: ()
    # returns the fields of a stored record that the data subject's rows do not show to be theirs
    hidden: Callable[[Any, Sequence[Row]], tuple[str, ...]] = lambda _record, _rows: ()

    def __post_init__(self) -> None:
        """Refuse an incomplete or contradictory declaration."""
        undeclared = {*self.ranks, *self.says} - self.statuses.keys()
        unranked = [
            each.name for each in self.columns if each.compare is Compare.RANK and not each.ranks
        ]
        unknown = {*self.looks_at} - {*KNOWN_COLUMNS, "flaws"}
        names = [each.name for each in self.every_column]
        twice = sorted({name for name in names if names.count(name) > 1})
        blank = self.judge({}, (), Limits())
        flaws = {
            "a name of small letters, digits and underscores": not _NAME.fullmatch(self.name),
            "a title": not self.title,
            "statuses": not self.statuses,
            f"the statuses {', '.join(sorted(undeclared))}": bool(undeclared),
            f"the words of {', '.join(unranked)}, compared by rank": bool(unranked),
            f"known columns of the row in looks_at: {', '.join(sorted(unknown))}": bool(unknown),
            f"a name of its own for each column: {', '.join(twice)}": bool(twice),
            "a meaning for each of its columns": not all(each.meaning for each in self.columns),
            "an age for any outcome": not self.ages,
            f"a value from judge for each of its {len(self.columns)} columns, and a status that "
            "it declares": len(blank) != len(self.columns) + 1 or blank[0] not in self.statuses,
            "a positive number of calls in flight and of seconds": self.max_in_flight < 1
            or self.timeout_s <= 0,
        }
        for lacking, is_flawed in flaws.items():
            if is_flawed:
                raise TypeError(f"the declaration of {self.name} lacks {lacking}")

    @property
    def status(self) -> str:
        """The name of its column of statuses."""
        return f"{self.name}_status"

    @property
    def checked_at(self) -> str:
        """The name of its column of instants."""
        return f"{self.name}_checked_at"

    @property
    def source(self) -> str:
        """The name of the column with the source of its answer."""
        return f"{self.name}_source"

    @property
    def answered(self) -> tuple[str, ...]:
        """The statuses of a row that has an answer."""
        return tuple(self.statuses)

    @property
    def every_column(self) -> tuple[Column, ...]:
        """All its columns, in the order of the output."""
        return (
            Column(self.status, Kind.WORD, "The status of the check."),
            Column(
                self.checked_at,
                Kind.INSTANT,
                "When its answer was given; the latest of several identities.",
            ),
            Column(
                self.source,
                Kind.WORD,
                "Whether it was asked in this run, shared within it, or reused.",
            ),
            *self.columns,
        )

    @property
    def tracked(self) -> tuple[Column, ...]:
        """The columns that runs are compared by, the status first."""
        compare = Compare.RANK if self.ranks else Compare.PLAIN
        status = Column(self.status, Kind.WORD, "", compare, self.ranks)
        return (status, *(each for each in self.columns if each.compare is not None))
