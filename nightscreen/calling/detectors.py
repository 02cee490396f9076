"""Detectors: what a run learns of the service from its answers, before anybody decides on it.

Silence and how long it lasts, refusals that agree, answers that never differ, what is left in the
wallet. Whether a run stops or waits for it is `control`'s.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable

OUTAGE_AFTER = 40
"""Attempts in a row without an answer, over all checks, that count as an outage."""

ALIKE_HITS, ALIKE_ANSWERS = 25, 1000
"""Free answers of one check without a difference, hits or any, from which on it is suspicious."""


UNREAD = "unread"
"""What witnesses say whose response cannot be read."""


@dataclass(slots=True)
class CircuitBreaker:
    """Pauses every check while the service is silent, and probes it.

    It opens after some attempts in a row without an answer. While it is open one call at a time is
    let through as a probe; the first answer closes it. Instants are seconds on the loop's clock,
    which nobody sets back.

    Attributes:
        after: attempts in a row without an answer that open it.
        probe_every: time between two probes.
    """

    after: int = OUTAGE_AFTER
    probe_every: float = 15.0
    silent: int = 0
    opened_at: float | None = None
    next_probe_at: float = 0.0

    def answered(self) -> None:
        """Close: the service gave a sign of life."""
        self.silent = 0
        self.opened_at = None

    def silence(self, at: float) -> None:
        """Count an attempt without an answer."""
        self.silent += 1
        if self.opened_at is None and self.silent >= self.after:
            self.opened_at = at
        if self.opened_at is not None:
            self.next_probe_at = at + self.probe_every

    def resume_at(self, at: float, in_flight: int) -> float | None:
        """Return when the next call may be sent; None where nothing holds it back."""
        if self.opened_at is None:
            return None
        if in_flight:
            return at + self.probe_every
        return self.next_probe_at if at < self.next_probe_at else None


@dataclass(slots=True)
class Witnesses:
    """What lookups of one check said, since its last good answer, that makes further calls useless.

    A customer is a witness for what a lookup was answered: a refused key, a wrong address, a fault.
    Their other identifiers add nothing. It counts beside another only where it was sent after that
    one was heard, so that one bad moment, in which many calls are in flight, is one witness. While
    there is a witness the check asks one lookup at a time.

    Attributes:
        proved: the check has had a good answer in this run.
        stop: the last refusal as (word, whether it is of the whole run); None where there is none.
        not_before: instant, on the loop's clock, before which the next call may not be sent.
        live: the check has had an answer about whom it was asked.
        unread_since: instant of the first response of those in a row that could not be read.
    """

    proved: bool = False
    stop: tuple[str, bool] | None = None
    not_before: float = 0.0
    live: bool = False
    unread_since: int | None = None
    _samples: dict[bytes, set[Hashable]] = field(default_factory=dict)
    _heard: int = 0
    _witnesses: dict[str, set[Hashable]] = field(default_factory=dict)
    _heard_of: dict[str, int] = field(default_factory=dict)

    @property
    def is_open(self) -> bool:
        """Return whether there is a witness."""
        return bool(self._witnesses)

    def starts_anew(self) -> None:
        """Forget refusals, which cost nothing to hear again; faults may be charged and stay."""
        self.not_before = 0.0
        if self.stop is not None:
            self._witnesses.pop(self.stop[0], None)
            self.stop = None

    @property
    def unread_by(self) -> int:
        """Return how many customers in a row got a response that cannot be read."""
        return len(self._witnesses.get(UNREAD, ()))

    @property
    def mark(self) -> int:
        """Return what a call that is sent now is to bring back."""
        return self._heard

    def answered(self) -> None:
        """Forget every witness: the service answered."""
        self.proved = True
        self.not_before = 0.0
        self.unread_since = None
        if self._witnesses:
            self.stop = None
            self._witnesses.clear()
            self._heard_of.clear()

    def answered_about_its_own(self) -> None:
        """Forget records of somebody else: this answer was about whom it was asked."""
        self.live = True
        self._samples.clear()

    def hear_sample(self, record: bytes, witness: Hashable) -> int:
        """Hear a lookup answered with somebody else's record; return how many got the very same.

        Calls in flight together count too, since no bad moment makes such a record.
        """
        subjects = self._samples.setdefault(record, set())
        subjects.add(witness)
        return len(subjects)

    def hear_unread(self, witness: Hashable, mark: int, now: int) -> int:
        """Hear a lookup whose response cannot be read; return how many witnesses there are."""
        if self.unread_since is None:
            self.unread_since = now
        return self.hear(UNREAD, witness, mark)

    def hear(self, word: str, witness: Hashable, mark: int) -> int:
        """Hear a lookup; return how many witnesses there are for what it says."""
        witnesses = self._witnesses.setdefault(word, set())
        if witness not in witnesses and mark >= self._heard_of.get(word, 0):
            witnesses.add(witness)
            self._heard += 1
            self._heard_of[word] = self._heard
        return len(witnesses)


@dataclass(slots=True)
class TestModeDetector:
    """Watches whether one check's answers differ at all: a service that is not live says the same.

    Real answers about different people differ or cost something; misses may well be alike, hits
    are not.
    """

    answers: int = 0
    hits: int = 0
    judged: bool = False
    _first: bytes | None = None
    _first_hit: bytes | None = None

    def saw(self, body: bytes, cost_micro: int | None, *, hit: bool) -> bool:
        """Take note of an answer; return True once, where there are too many of one kind."""
        if self.judged:
            return False
        self.answers += 1
        self.hits += hit
        if self._first is None:
            self._first = body
        if hit and self._first_hit is None:
            self._first_hit = body
        alike = body == (self._first_hit if hit else self._first)
        live = bool(cost_micro) or not alike or 0 < self.hits < self.answers
        suspicious = not live and (self.hits >= ALIKE_HITS or self.answers >= ALIKE_ANSWERS)
        self.judged = live or suspicious
        return suspicious


@dataclass(slots=True)
class BalanceEstimate:
    """The least the service's wallet can hold now, as far as answers tell, micro-naira.

    Answers overtake each other, so that the latest balance may not know of charges that are known
    here: what settled while an answer was on its way is taken off the balance it bore.
    """

    least_micro: int | None = None
    settled_micro: int = 0

    def takes(self, charged_micro: int, balance_micro: int | None, mark: int) -> None:
        """Enter an attempt that came back.

        Args:
            charged_micro: the most it can have cost.
            balance_micro: the balance it bore, if any.
            mark: `settled_micro` when it was sent.
        """
        overtaken = self.settled_micro - mark
        self.settled_micro += charged_micro
        if self.least_micro is not None:
            self.least_micro -= charged_micro
        if balance_micro is None:
            return
        least = balance_micro - overtaken
        if self.least_micro is None or balance_micro < self.least_micro:
            self.least_micro = least
        else:
            self.least_micro = max(self.least_micro, least)


@dataclass(slots=True)
class Silence:
    """How long a run has had no answer, and what each check waits for meanwhile.

    A run that waits for whatever reason is given up by this one rule: a silent service, one that
    asks to be left alone for ever, a lookup that another process holds.

    Attributes:
        give_up_after_s: seconds after which the run stops; None where it never does.
        began: when it began, in seconds on the loop's clock; None while answers come.
        since: the same as an instant, for people.
    """

    give_up_after_s: float | None = None
    began: float | None = None
    since: int | None = None
    _reasons: dict[str, str] = field(default_factory=dict)

    def ends(self) -> None:
        """Forget it: there was an answer."""
        if self.began is not None:
            self.began = self.since = None
            self._reasons.clear()

    def goes_on(self, who: str, reason: str, *, at: float, now: int) -> None:
        """Take note of what a check waits for; where nothing was waited for, it begins now."""
        if self.began is None:
            self.began, self.since = at, now
        self._reasons[who] = reason

    @property
    def reason(self) -> str:
        """Return what is waited for, in words; nothing where answers come."""
        return "; ".join(dict.fromkeys(self._reasons.values()))

    @property
    def gives_up_at(self) -> float | None:
        """Return when the run stops if no answer comes; None where it does not."""
        if self.began is None or self.give_up_after_s is None:
            return None
        return self.began + self.give_up_after_s
