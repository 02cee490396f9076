"""Reviews: judge each row of a returned decision list as sound, mistaken or in conflict.

`decision_files` reads the file; `settle_case` saves the sound rows.
"""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nightscreen.journal.cases import Reviews
from nightscreen.journal.customers import Customers
from nightscreen.results.tracked_state import evidence_digest, listed_decision, rests_on
from nightscreen.schemas.clock import DAY_MICROS, LAGOS, lagos_day, to_micros
from nightscreen.schemas.contests import Review
from nightscreen.schemas.decisions import REVIEWED, ReviewIssue, ReviewRow
from nightscreen.values.dates import Moment, read_iso

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nightscreen.journal import Journal
    from nightscreen.journal.runs import RunRecord
    from nightscreen.schemas.decisions import KnownCustomer

DEFAULT_DAYS = 30  # a choice, documented in docs/decisions.md; `--days` overrides it
_LONGEST_NOTE = 2000  # characters: the desk's limit
_LONGEST_REVIEWER = 120  # characters, a choice: a full name and a title
_HINTS = {
    "run_unknown": "No run of this id wrote a decision list here; keep the run_id column as the "
    "list had it.",
    "customer_missing": "Every row needs the customer's id.",
    "decision_invalid": "Write approve, decline or review.",
    "reviewer_missing": "Say who decided.",
    "note_missing": "A decision other than the policy's needs a note that says why.",
    "note_long": f"A note has at most {_LONGEST_NOTE} characters, a reviewer {_LONGEST_REVIEWER}.",
    "rows_disagree": "Rows of this file disagree about this customer; leave one of them.",
    "two_reviewers": "Another reviewer decided otherwise on this very list; settle it with them, "
    "and send the row back under that reviewer's name or wait for the next list.",
    "evidence_changed": "The customer's evidence has changed since this list; decide on the newest "
    "list instead.",
    "review_ended": "The review would have ended by now; decide on the newest list instead.",
}
_DATE_UNREADABLE = "This is no date; write it as 2026-03-04, or leave it blank."
_DATE_OUTSIDE = "The date must lie between the run and now; correct it or leave it blank."


@dataclass(frozen=True, slots=True)
class SoundReview:
    """A review that can be saved."""

    review: Review
    customer_id: str = field(repr=False)
    latest: str  # the policy's latest decision, which the list may not have had yet

    @property
    def overrides(self) -> bool:
        """Return whether it differs from the policy's decision, on the list or the latest."""
        return {self.review.listed, self.latest} != {self.review.decision}


@dataclass(slots=True)
class Judged:
    """The result for a returned list."""

    sound: list[SoundReview] = field(default_factory=list)  # those not imported before
    known: int = 0  # rows that were imported before
    mistakes: list[ReviewIssue] = field(default_factory=list)  # why rows are refused, by line

    @property
    def runs(self) -> list[str]:
        """Return the runs whose lists were reviewed."""
        return list(dict.fromkeys(each.review.run_id for each in self.sound))

    @property
    def overrides(self) -> list[SoundReview]:
        """Return the sound reviews that differ from the policy's decision."""
        return [each for each in self.sound if each.overrides]


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A row whose own cells are sound; `at` is when it was reviewed, now if it does not say."""

    row: ReviewRow
    run: RunRecord  # whose list it was
    subject: bytes
    decision: str
    reviewer: str
    at: int


def judge_rows(journal: Journal, rows: Sequence[ReviewRow], *, days: int = DEFAULT_DAYS) -> Judged:
    """Judge the rows of a returned list against the journal; a review stands for `days` days."""
    judge = _Judge(journal, days)
    groups: dict[tuple[str, bytes], list[_Candidate]] = defaultdict(list)
    for row in rows:
        if (each := judge.read(row)) is not None:
            groups[(row["run_id"], each.subject)].append(each)
    judge.look_up([each for group in groups.values() for each in group])
    for group in groups.values():
        if len({(each.decision, _folded(each.reviewer)) for each in group}) == 1:
            judge.take(group[-1])
        else:
            for each in group:
                judge.add_issue(each.row, "reviewer_decision", "rows_disagree")
    judge.result.mistakes.sort(key=lambda each: (each.sheet, each.line))
    return judge.result


class _Judge:
    """Judges one returned list."""

    def __init__(self, journal: Journal, days: int) -> None:
        self.result = Judged()
        self._customers, self._reviews = Customers(journal), Reviews(journal)
        self._journal, self._now = journal, journal.clock()
        self._duration = days * DAY_MICROS
        self._runs: dict[str, RunRecord | None] = {}
        self._listed_states: dict[tuple[str, bytes], KnownCustomer] = {}
        self._latest_states: dict[bytes, KnownCustomer] = {}

    def add_issue(self, row: ReviewRow, column: str, code: str, hint: str = "") -> None:
        """Add an issue of a row."""
        issue = ReviewIssue(row.line, row.sheet, column, code, hint or _HINTS[code])
        self.result.mistakes.append(issue)

    def read(self, row: ReviewRow) -> _Candidate | None:
        """Judge a row by its own cells; add the first issue found, and return None then."""
        run_id = row["run_id"]
        if run_id not in self._runs:
            self._runs[run_id] = self._journal.runs.find(run_id) if run_id else None
        run = self._runs[run_id]
        if run is None or run.states_first_at is None:
            self.add_issue(row, "run_id", "run_unknown")
            return None
        decision_text, reviewer = (
            row["reviewer_decision"].casefold(),
            " ".join(row["reviewer"].split()),
        )
        at = read_written_date(row["reviewed_at"], run.states_first_at, self._now)
        if not row["customer_id"]:
            self.add_issue(row, "customer_id", "customer_missing")
        elif decision_text not in REVIEWED:
            self.add_issue(row, "reviewer_decision", "decision_invalid")
        elif not reviewer:
            self.add_issue(row, "reviewer", "reviewer_missing")
        elif len(row["review_note"]) > _LONGEST_NOTE or len(reviewer) > _LONGEST_REVIEWER:
            self.add_issue(row, "review_note", "note_long")
        elif isinstance(at, str):
            self.add_issue(row, "reviewed_at", "reviewed_at_invalid", at)
        else:
            subject = self._journal.pseudonyms.customer(run.batch, row["customer_id"])
            decision = REVIEWED[decision_text].value
            return _Candidate(row, run, subject, decision, reviewer, at or self._now)
        return None

    def look_up(self, candidates: Sequence[_Candidate]) -> None:
        """Fetch the customers' states, the latest and those of the list, run by run."""
        runs: dict[str, list[_Candidate]] = defaultdict(list)
        for each in candidates:
            runs[each.row["run_id"]].append(each)
        for run_id, of_run in runs.items():
            subjects = list({each.subject for each in of_run})
            self._latest_states.update(self._customers.known(subjects))
            after = (of_run[0].run.states_last_at or 0) + 1
            for subject, state in self._customers.known_before(subjects, after).items():
                self._listed_states[(run_id, subject)] = state

    def take(self, candidate: _Candidate) -> None:
        """Accept a row, unless its customer is unknown or it conflicts with another decision."""
        row, run_id = candidate.row, candidate.row["run_id"]
        listed_state = self._listed_states.get((run_id, candidate.subject))
        if listed_state is None:
            self.add_issue(row, "customer_id", "customer_unknown", _customer_hint(row))
            return
        review = Review(
            customer=candidate.subject,
            batch=candidate.run.batch,
            run_id=run_id,
            listed=listed_decision(listed_state),
            decision=candidate.decision,
            reviewer=candidate.reviewer,
            note=row["review_note"],
            reviewed_at=candidate.at,
            until=candidate.at + self._duration,
            evidence=evidence_digest(listed_state.state),
            at=self._now,
        )
        earlier = self._reviews.of_customer(candidate.subject)
        earlier = [old for old in earlier if old.run_id == run_id]
        latest = listed_decision(self._latest_states.get(candidate.subject))
        sound = SoundReview(review, row["customer_id"], latest)
        if any(_same(old, review, row["reviewed_at"]) for old in earlier):
            self.result.known += 1
        elif review.overrides and not review.note:
            self.add_issue(row, "review_note", "note_missing")
        elif any(self._contradicts(old, review) for old in earlier):
            self.add_issue(row, "reviewer_decision", "two_reviewers")
        elif not rests_on(review, self._latest_states.get(candidate.subject)):
            self.add_issue(row, "run_id", "evidence_changed")
        elif review.until <= self._now:
            self.add_issue(row, "reviewed_at", "review_ended")
        elif sound.overrides and not review.note:
            self.add_issue(row, "review_note", "note_missing")
        else:
            self.result.sound.append(sound)

    def _contradicts(self, old: Review, new: Review) -> bool:
        """Return whether an active review by another reviewer has another decision."""
        other = _folded(old.reviewer) != _folded(new.reviewer)
        return other and old.until > self._now and old.decision != new.decision


def read_written_date(text: str, run_at: int, now: int) -> int | str | None:
    """Return a cell's date as an instant in microseconds, None if it is blank, else the issue.

    The date is written as 2026-03-04, with or without a time of day, in Lagos time if no zone is
    given. A date without a time is its noon. No instant is before the run or after now.
    """
    if not text:
        return None
    try:
        parsed = read_iso(text)
        if not isinstance(parsed, Moment):
            return _DATE_UNREADABLE
        local = (parsed.at.replace(hour=12) if parsed.is_bare else parsed.at).astimezone(LAGOS)
    except OverflowError:
        return _DATE_UNREADABLE
    if not lagos_day(run_at) <= local.date() <= lagos_day(now):
        return _DATE_OUTSIDE
    return min(max(to_micros(local), run_at), now)


def _folded(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold()


def _same(old: Review, new: Review, written: str) -> bool:
    """Return whether a review was imported before, even if it has ended since.

    Dates with a time are compared with it. A date without one, or a time that was still in the
    future at the import, is compared by day, because it was saved as of the import.
    """
    by_day = len(written) <= len("2026-03-04") or new.reviewed_at >= old.at
    return (
        old.decision == new.decision
        and _folded(old.reviewer) == _folded(new.reviewer)
        and old.note == new.note
        and (
            not written
            or old.reviewed_at == new.reviewed_at
            or (by_day and lagos_day(old.reviewed_at) == lagos_day(new.reviewed_at))
        )
    )


def _customer_hint(row: ReviewRow) -> str:
    if row["customer_id"].isdecimal():
        return (
            "No such customer in this run; a spreadsheet may have dropped leading zeros: work in "
            "decisions.xlsx, which keeps them."
        )
    return "No such customer in this run; keep the customer_id column as the list had it."
