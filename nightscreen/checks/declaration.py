"""What a check declares: how it is asked and read, what its answers say, and how that is shown.

A declaration that lacks something fails when it is loaded, in one line that names what lacks.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from nightscreen.schemas.enriched import WORD
from nightscreen.schemas.rows import INSTANT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from decimal import Decimal

    import pyarrow as pa

    from nightscreen.schemas.answers import Answer
    from nightscreen.schemas.checks import IdentityKind, Lookup, Outcome
    from nightscreen.schemas.requests import Request


class Tone(Enum):
    """What a word of a status means for the lender, as charts show it."""

    GOOD = "good"
    DOUBTFUL = "doubtful"
    BAD = "bad"


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
        type: its Arrow type.
        compare: how a change is judged; None where the column is not compared, because it changes
            with every lookup or follows from others.
        ranks: its words from best to worst, where it is compared by rank.
    """

    name: str
    type: pa.DataType
    compare: Compare | None = None
    ranks: tuple[str, ...] = ()


class Days(NamedTuple):
    """How many days an answer stays fresh, by the purpose of the run."""

    portfolio: float
    origination: float


@dataclass(frozen=True, slots=True)
class Declaration:
    """All that is to be known of a check.

    Attributes:
        name: its name in settings, columns, files and the journal.
        title: its name for people, the same everywhere.
        task: the name of its task in the engine.
        asked_by: the identifiers it is asked by; empty where each run names them.
        needs_consent: it is lawful only with the customer's consent (specification, area B, rule
            3).
        request: builds the call that answers a lookup.
        read: returns the typed record in the `data` of an answer; None where there is none.
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
        says: what a card says of a status that has no other columns.
        withheld: returns the columns of a row that its subject is not shown, because they are
            about somebody else or were never confirmed.
    """

    name: str
    title: str
    task: str
    asked_by: tuple[IdentityKind, ...]
    needs_consent: bool
    request: Callable[[Lookup], Request]
    read: Callable[[object], Answer | None]
    is_another: Callable[[str, Any], bool]
    names_somebody: bool
    ages: Mapping[Outcome, Days]
    naira: Decimal
    max_in_flight: int
    timeout_s: float
    is_default: bool
    bears_balance: bool
    order: int
    first_night_hits: float
    first_night_seconds: float
    statuses: Mapping[str, Tone]
    ranks: tuple[str, ...]
    columns: tuple[Column, ...]
    says: Mapping[str, str]
    withheld: Callable[[Mapping[str, Any]], tuple[str, ...]]

    def __post_init__(self) -> None:
        """Refuse a declaration that lacks something, or contradicts itself."""
        strange = {*self.ranks, *self.says} - self.statuses.keys()
        ranked = {each.name for each in self.columns if each.compare is Compare.RANK}
        flaws = {
            "statuses": not self.statuses,
            f"the statuses {', '.join(sorted(strange))}": bool(strange),
            "the words of a column compared by rank": any(
                not each.ranks for each in self.columns if each.name in ranked
            ),
            "a title": not self.title,
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
    def fields(self) -> list[tuple[str, pa.DataType]]:
        """All its columns with their types, in the order of the output."""
        base = [(self.status, WORD), (self.checked_at, INSTANT), (self.source, WORD)]
        return [*base, *((each.name, each.type) for each in self.columns)]

    @property
    def tracked(self) -> tuple[Column, ...]:
        """The columns that nights are compared by, the status first."""
        compare = Compare.RANK if self.ranks else Compare.PLAIN
        status = Column(self.status, WORD, compare, self.ranks)
        return (status, *(each for each in self.columns if each.compare is not None))


def nothing_withheld(_: Mapping[str, Any]) -> tuple[str, ...]:
    """Return no column: what the check answers is about nobody else."""
    return ()
