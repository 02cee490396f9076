"""Reviews: a decision list that came back, row by row: sound, mistaken, or in conflict.

Reading the file is `results/decision_files.py`; what follows from sound rows is `settle_case.py`.
"""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from typing import TYPE_CHECKING, NamedTuple

from nightscreen.results.tracked_state import evidence_digest
from nightscreen.schemas.clock import LAGOS, lagos_day, to_micros
from nightscreen.schemas.contests import Review
from nightscreen.schemas.decisions import LISTED_PART, REVIEWED, ReviewFinding, ReviewRow
from nightscreen.schemas.policy import Decision
from nightscreen.values.dates import Moment, read_moment

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from nightscreen.files.sealing import Pseudonyms
    from nightscreen.journal.customers import Commit, Customers
    from nightscreen.journal.reviews import Reviews
    from nightscreen.schemas.decisions import KnownCustomer

DEFAULT_DAYS = 30
_DAY = 86_400 * 1_000_000
_ORDERS = ("dmy", "mdy", "ymd")
_NOON = time(12)
_FIRST_SERIAL = date(1899, 12, 30)
_LONGEST_NOTE = 2000
_LONGEST_REVIEWER = 120


@dataclass(slots=True)
class Judged:
    """What became of a returned list.

    Attributes:
        reviews: sound reviews by batch name, not yet known ones only.
        ids: the customer of each, by pseudonym.
        listed: the policy's latest decision of each, by pseudonym.
        known: rows that were imported before.
        findings: mistakes, conflicts and what is worth knowing, by line.
    """

    reviews: dict[str, list[Review]] = field(default_factory=lambda: defaultdict(list))
    ids: dict[bytes, str] = field(default_factory=dict, repr=False)
    listed: dict[bytes, str] = field(default_factory=dict, repr=False)
    known: int = 0
    findings: list[ReviewFinding] = field(default_factory=list)

    @property
    def mistakes(self) -> list[ReviewFinding]:
        """Return the findings for which a row is refused."""
        return [each for each in self.findings if each.refused]

    @property
    def runs(self) -> list[str]:
        """Return the runs whose lists were reviewed."""
        return list(dict.fromkeys(each.run_id for each in self.sound))

    @property
    def sound(self) -> list[Review]:
        """Return the new reviews."""
        return [each for found in self.reviews.values() for each in found]

    @property
    def overrides(self) -> list[Review]:
        """Return those that decide otherwise than the policy, on the list or by now."""
        return [
            each
            for each in self.sound
            if each.overrides or each.decision != self.listed[each.customer]
        ]


class WrittenDate(NamedTuple):
    """When a review was made, as a cell of the list says.

    Attributes:
        at: the instant it counts from, between the run and the import, microseconds.
        day: the day in Lagos.
        clock: the instant by its time of day; None where the cell has the day alone.
    """

    at: int
    day: date
    clock: int | None

    def is_of(self, review: Review) -> bool:
        """Return whether a stored review bears this date.

        A day alone is compared as a day: the instant it counts from depends on when it was
        imported. So does a time of day that was still ahead then.
        """
        if self.clock is None or self.clock > review.at:
            return self.day == lagos_day(review.reviewed_at)
        return self.at == review.reviewed_at


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A row whose own cells are sound."""

    row: ReviewRow
    batch: str
    commit: Commit
    subject: bytes
    decision: str
    reviewer: str
    note: str
    written: WrittenDate | None


class Judge:
    """Judges the rows of a returned list against the journal.

    Args:
        customers: the journal's states.
        reviews: the journal's reviews.
        pseudonyms: make the customers' pseudonyms.
        now: the present instant, microseconds.
        days: how long a review stands.
    """

    def __init__(
        self,
        customers: Customers,
        reviews: Reviews,
        pseudonyms: Pseudonyms,
        *,
        now: int,
        days: int = DEFAULT_DAYS,
    ) -> None:
        self._customers = customers
        self._stored = reviews
        self._pseudonyms = pseudonyms
        self._now = now
        self._lasts = days * _DAY
        self._commits: dict[str, Commit | None] = {}
        self._latest: dict[str, str | None] = {}
        self._then: dict[tuple[str, bytes], KnownCustomer] = {}
        self._known: dict[bytes, KnownCustomer] = {}
        self._result = Judged()

    def judge(self, rows: Sequence[ReviewRow]) -> Judged:
        """Return what became of the rows."""
        candidates = [found for row in rows if (found := self._read(row)) is not None]
        self._look_up(candidates)
        groups: dict[tuple[str, bytes], list[_Candidate]] = defaultdict(list)
        for each in candidates:
            groups[(each.row["run_id"], each.subject)].append(each)
        for group in groups.values():
            if self._agree(group):
                self._take(group[-1])
        self._result.findings.sort(key=lambda each: (each.sheet, each.line))
        return self._result

    def _tell(self, row: ReviewRow, column: str, code: str, hint: str, *, ok: bool = False) -> None:
        finding = ReviewFinding(row.line, row.sheet, column, code, hint, refused=not ok)
        self._result.findings.append(finding)

    def _read(self, row: ReviewRow) -> _Candidate | None:
        """Judge a row by its own cells; tell the first thing that is wrong with it."""
        commit = self._commit(row["run_id"])
        if commit is None:
            self._tell(row, "run_id", "run_unknown", _RUN_UNKNOWN)
            return None
        word = row["reviewer_decision"].casefold()
        written = read_written_date(row["reviewed_at"], commit.first_at, self._now)
        reviewer = " ".join(row["reviewer"].split())
        wrong = _wrong_cell(row, word, reviewer, written)
        if wrong is not None:
            self._tell(row, *wrong)
            return None
        assert not isinstance(written, str)  # noqa: S101 - told in the lines above
        return _Candidate(
            row,
            commit.batch,
            commit,
            self._pseudonyms.customer(commit.batch, row["customer_id"]),
            REVIEWED[word].value,
            reviewer,
            row["review_note"],
            written,
        )

    def _commit(self, run_id: str) -> Commit | None:
        if run_id not in self._commits:
            self._commits[run_id] = self._customers.commit_of(run_id) if run_id else None
        return self._commits[run_id]

    def _look_up(self, candidates: Sequence[_Candidate]) -> None:
        """Fetch the customers' states, now and as they were listed, a run at a time."""
        runs: dict[str, list[_Candidate]] = defaultdict(list)
        for each in candidates:
            runs[each.row["run_id"]].append(each)
        for run_id, mine in runs.items():
            subjects = list({each.subject for each in mine})
            self._known.update(self._customers.known(subjects))
            after = mine[0].commit.last_at + 1
            for subject, state in self._customers.known_before(subjects, after).items():
                self._then[(run_id, subject)] = state

    def _agree(self, group: Sequence[_Candidate]) -> bool:
        """Return whether the rows of one customer agree; where they do not, none is taken."""
        said = {(each.decision, _folded(each.reviewer)) for each in group}
        if len(said) == 1:
            return True
        for each in group:
            self._tell(each.row, "reviewer_decision", "rows_disagree", _ROWS_DISAGREE)
        return False

    def _take(self, each: _Candidate) -> None:
        run_id = each.row["run_id"]
        then = self._then.get((run_id, each.subject))
        if then is None:
            self._tell(each.row, "customer_id", "customer_unknown", _customer_hint(each.row))
            return
        review = self._review(each, then)
        if review.overrides and not review.note:
            self._tell(each.row, "review_note", "note_missing", _NOTE_MISSING)
            return
        stored = [old for old in self._stored.of_customer(each.subject) if old.run_id == run_id]
        if any(_same(old, review, each.written) for old in stored):
            self._result.known += 1
            return
        if self._conflicts(each, review, [old for old in stored if old.until > self._now]):
            return
        self._result.reviews[each.batch].append(review)
        self._result.ids[each.subject] = each.row["customer_id"]
        self._result.listed[each.subject] = _listed(self._known[each.subject])

    def _review(self, each: _Candidate, then: KnownCustomer) -> Review:
        at = self._now if each.written is None else each.written.at
        return Review(
            customer=each.subject,
            run_id=each.row["run_id"],
            listed=_listed(then),
            decision=each.decision,
            reviewer=each.reviewer,
            note=each.note,
            reviewed_at=at,
            until=at + self._lasts,
            evidence=evidence_digest(then.state),
            at=self._now,
        )

    def _conflicts(self, each: _Candidate, review: Review, stored: Sequence[Review]) -> bool:
        """Tell conflicts with what is known; return whether the row is refused for one."""
        others = [old for old in stored if _folded(old.reviewer) != _folded(review.reviewer)]
        if any(old.decision != review.decision for old in others):
            self._tell(each.row, "reviewer_decision", "two_reviewers", _TWO_REVIEWERS)
            return True
        known = self._known[each.subject]
        if evidence_digest(known.state) != review.evidence:
            self._tell(each.row, "run_id", "evidence_changed", _EVIDENCE_CHANGED)
            return True
        if review.until <= self._now:
            self._tell(each.row, "reviewed_at", "review_ended", _REVIEW_ENDED)
            return True
        if self._latest_run(each.batch) != review.run_id:
            self._tell(each.row, "run_id", "older_run", _OLDER_RUN, ok=True)
        return False

    def _latest_run(self, batch: str) -> str | None:
        if batch not in self._latest:
            self._latest[batch] = self._customers.latest_run(batch)
        return self._latest[batch]


_RUN_UNKNOWN = (
    "No run of this id wrote a decision list here; keep the run_id column as the list had it."
)
_DECISION_INVALID = "Write approve, decline or review."
_REVIEWER_MISSING = "Say who decided."
_NOTE_MISSING = "A decision other than the list's needs a note that says why."
_NOTE_LONG = f"A note has at most {_LONGEST_NOTE} characters, a reviewer {_LONGEST_REVIEWER}."
_ROWS_DISAGREE = "Rows of this file disagree about this customer; leave one of them."
_TWO_REVIEWERS = (
    "Another reviewer decided otherwise on this very list; settle it with them, and send the row "
    "back under that reviewer's name or wait for the next list."
)
_EVIDENCE_CHANGED = (
    "The customer's evidence has changed since this list; decide on the newest list instead."
)
_REVIEW_ENDED = "The review would have ended by now; decide on the newest list instead."
_OLDER_RUN = "There is a newer list; the review was taken in, for the evidence is the same."
_DATE_AMBIGUOUS = "This date can be read in two ways; write it as 2026-03-04."
_DATE_UNREADABLE = "This cannot be read as a date; write it as 2026-03-04, or leave it blank."
_DATE_OUTSIDE = "The review must lie between the run and now; correct the date or leave it blank."


def _wrong_cell(
    row: ReviewRow, word: str, reviewer: str, written: WrittenDate | str | None
) -> tuple[str, str, str] | None:
    """Return column, code and hint of the first cell that is wrong."""
    if not row["customer_id"]:
        return "customer_id", "customer_missing", "Every row needs the customer's id."
    if word not in REVIEWED:
        return "reviewer_decision", "decision_invalid", _DECISION_INVALID
    if not reviewer:
        return "reviewer", "reviewer_missing", _REVIEWER_MISSING
    if len(row["review_note"]) > _LONGEST_NOTE or len(reviewer) > _LONGEST_REVIEWER:
        return "review_note", "note_long", _NOTE_LONG
    if isinstance(written, str):
        return "reviewed_at", "reviewed_at_invalid", written
    return None


def read_written_date(text: str, run_at: int, now: int) -> WrittenDate | str | None:
    """Return when a review was made, None where left blank, else what is wrong with the date.

    A date whose order of day and month is open is read in the one way that lies between the run
    and now; where both ways do, nothing is guessed. A day alone counts from its noon in Lagos, and
    no date from before the run or from later than now.
    """
    if not text:
        return None
    readings = list(_readings(text))
    if not readings:
        return _DATE_UNREADABLE
    first, last = lagos_day(run_at), lagos_day(now)
    within = [each for each in readings if first <= each[0].date() <= last]
    if len({local.date() for local, _ in within}) > 1:
        return _DATE_AMBIGUOUS
    if not within:
        return _DATE_OUTSIDE
    local, timed = min(within)
    instant = to_micros(local)
    at = min(max(instant, run_at), now)
    return WrittenDate(at, local.date(), instant if timed else None)


def _readings(text: str) -> Iterator[tuple[datetime, bool]]:
    """Yield every way a date can be read, in Lagos time, and whether it has a time of day."""
    for order in _ORDERS:
        found = read_moment(text, order)
        if isinstance(found, Moment):
            local = datetime.combine(found.day, found.clock or _NOON, tzinfo=LAGOS)
            if found.offset is not None:
                local -= found.offset - timedelta(hours=1)
            yield local, found.clock is not None
    whole = text.partition(".")[0]
    if whole.isdecimal() and len(whole) == len("46345"):
        day = _FIRST_SERIAL + timedelta(days=int(whole))
        yield datetime.combine(day, _NOON, tzinfo=LAGOS), False


def _listed(known: KnownCustomer) -> str:
    part = known.state.get(LISTED_PART)
    return Decision.UNDECIDED.value if part is None else part.values["decision"]


def _folded(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold()


def _same(old: Review, new: Review, written: WrittenDate | None) -> bool:
    """Return whether a review is one that was imported before, also where it has ended since."""
    return (
        old.decision == new.decision
        and _folded(old.reviewer) == _folded(new.reviewer)
        and old.note == new.note
        and (written is None or written.is_of(old))
    )


def _customer_hint(row: ReviewRow) -> str:
    if row["customer_id"].isdecimal():
        return (
            "No such customer in this run; a spreadsheet may have dropped leading zeros: work in "
            "decisions.xlsx, which keeps them."
        )
    return "No such customer in this run; keep the customer_id column as the list had it."


def active_reviews(reviews: Reviews, batch: str, *, at: int) -> dict[bytes, Review]:
    """Return each customer's review that has not ended, by pseudonym.

    It stands only as long as the evidence is what was reviewed: compare `evidence` with
    `results.tracked_state.evidence_digest` of the present state.
    """
    return reviews.active(batch, at)


def reviewed_evidence(found: Mapping[bytes, Review]) -> dict[bytes, bytes]:
    """Return the digest of the evidence each review rests on, as `write_changes` takes it."""
    return {
        customer: review.evidence
        for customer, review in found.items()
        if review.decision != Decision.REVIEW.value
    }
