"""What a check declares: how it is asked and read, what its answers say, and how that is shown.

A declaration that lacks something fails when it is loaded, in one line that names what lacks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from nightscreen.schemas.checks import IdentityKind

if TYPE_CHECKING:
    from decimal import Decimal

    from nightscreen.schemas.answers import Answer
    from nightscreen.schemas.checks import Lookup, Outcome
    from nightscreen.schemas.requests import Request


_NAME = re.compile(r"[a-z][a-z0-9_]*")


class Tone(Enum):
    """What a word of a status means for the lender, as charts show it."""

    GOOD = "good"
    DOUBTFUL = "doubtful"
    BAD = "bad"


class Kind(Enum):
    """The type of a column, as Arrow has it."""

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
    """How a field's old and new value are compared from night to night."""

    PLAIN = "plain"
    RANK = "rank"
    MORE_IS_WORSE = "more is worse"
    LISTING = "listing"
    IDENTIFYING = "identifying"
    """Whether it differs; the values are kept as digests alone."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of `enriched` that a check fills.

    Attributes:
        name: its whole name.
        shape: what its cells are.
        meaning: what it says, in a sentence for those who read the results.
        compare: how a change is judged; None where the column is not compared, because it changes
            with every lookup or follows from others.
        ranks: its words from best to worst, where it is compared by rank.
        unseen: keys of the structs in it that a subject is not shown.
    """

    name: str
    shape: Shape
    meaning: str
    compare: Compare | None = None
    ranks: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()


Row = Mapping[str, Any]
"""Cells of an input row, or of a row of `enriched`, by their columns."""
Found = tuple[IdentityKind, Any]
"""A record that an answer holds, and the kind of identifier it was asked by."""


class Limits(NamedTuple):
    """Thresholds of the lender's, from 0 to 100.

    Attributes:
        match_at: similarity from which a photograph is the customer's.
        no_match_below: similarity under which it is not.
    """

    match_at: float = 90.0
    no_match_below: float = 70.0


class Days(NamedTuple):
    """How many days an answer stays fresh, by the purpose of the run."""

    portfolio: float
    origination: float


def nothing_withheld(_row: Row) -> tuple[str, ...]:
    """Return no column: what the check answers is about nobody else."""
    return ()


def nothing_hidden(_record: object, _rows: Sequence[Row]) -> tuple[str, ...]:
    """Return no field: a record is about nobody else."""
    return ()


def is_nobodys(_asked: str, _record: object) -> bool:
    """Return no: a record that names nobody contradicts nothing."""
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """All that is to be known of a check.

    Attributes:
        name: its name in settings, columns, files and the journal.
        title: its name for people, the same everywhere.
        asked_by: the identifiers it is asked by, each a call of its own; empty where each run
            names them.
        together_with: a second identifier that goes into every call, as the photograph does.
        needs_consent: it is lawful only with the customer's consent (specification, area B, rule
            3).
        request: builds the call that answers a lookup.
        read: returns the typed record in the `data` of an answer; None where there is none.
        not_kept: fields of `data` that are taken out of an answer before it is stored.
        is_another: whether a record is about another identifier than the one asked about, which is
            not empty.
        names_somebody: whether a record says whose it is.
        ages: how long an answer stays fresh, by its outcome.
        naira: what a hit costs where the journal has seen no price yet.
        max_in_flight: most calls under way at once.
        timeout_s: seconds a whole call may take.
        is_default: it is asked where a run names no checks.
        bears_balance: its hits and misses both report the balance, so that one call opens the
            books.
        order: its place among checks of one price; what can decide a row alone comes first.
        first_night_hits: share of calls charged that a first night expects.
        first_night_seconds: how long a call takes on a first night.
        statuses: what a row's status says where it rests on an answer, with its tone.
        ranks: these words from best to worst, where nights are compared by them.
        columns: what else it fills, in the order of the output.
        looks_at: columns of the input row that `judge` reads.
        judge: returns a row's status and a value for each of `columns`, from the row and the
            records of its answers; there are none where every answer was a miss, and a record is
            None where an answer can no longer be read.
        says: what a card says of a status that has no other columns.
        withheld: returns the columns of a row that its subject is not shown, because they are
            about somebody else or were never confirmed; a row of a list has fewer columns.
        hidden: returns the fields of a stored record that its subject's rows do not show to be
            theirs.
    """

    name: str
    title: str
    asked_by: tuple[IdentityKind, ...]
    together_with: IdentityKind | None = None
    needs_consent: bool
    request: Callable[[Lookup], Request]
    read: Callable[[object], Answer | None]
    not_kept: tuple[str, ...] = ()
    is_another: Callable[[str, Any], bool] = is_nobodys
    names_somebody: bool = False
    ages: Mapping[Outcome, Days]
    naira: Decimal
    max_in_flight: int
    timeout_s: float
    is_default: bool = False
    bears_balance: bool = False
    order: int
    first_night_hits: float
    first_night_seconds: float
    statuses: Mapping[str, Tone]
    ranks: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    looks_at: tuple[str, ...] = ()
    judge: Callable[[Row, Sequence[Found], Limits], tuple[Any, ...]]
    says: Mapping[str, str] = field(default_factory=dict)
    withheld: Callable[[Row], tuple[str, ...]] = nothing_withheld
    hidden: Callable[[Any, Sequence[Row]], tuple[str, ...]] = nothing_hidden

    def __post_init__(self) -> None:
        """Refuse a declaration that lacks something, or contradicts itself."""
        strange = {*self.ranks, *self.says} - self.statuses.keys()
        unranked = [
            each.name for each in self.columns if each.compare is Compare.RANK and not each.ranks
        ]
        blank = self.judge({}, (), Limits())
        flaws = {
            "a name of small letters, digits and underscores": not _NAME.fullmatch(self.name),
            "a title": not self.title,
            "statuses": not self.statuses,
            f"the statuses {', '.join(sorted(strange))}": bool(strange),
            f"the words of {', '.join(unranked)}, compared by rank": bool(unranked),
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
        """The name of the column that says whence an answer came."""
        return f"{self.name}_source"

    @property
    def answered(self) -> tuple[str, ...]:
        """What a status says where it rests on an answer."""
        return tuple(self.statuses)

    @property
    def every_column(self) -> tuple[Column, ...]:
        """All its columns, in the order of the output."""
        return (
            Column(self.status, Kind.WORD, "What became of the check."),
            Column(
                self.checked_at,
                Kind.INSTANT,
                "When its answer was given; of several identities the latest.",
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
        """The columns that nights are compared by, the status first."""
        compare = Compare.RANK if self.ranks else Compare.PLAIN
        status = Column(self.status, Kind.WORD, "", compare, self.ranks)
        return (status, *(each for each in self.columns if each.compare is not None))
