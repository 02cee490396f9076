"""Silence: how long a run has had no answer, what it waits for, and when the next probe may go."""

from __future__ import annotations

from dataclasses import dataclass, field

SILENT_AFTER = 40
"""Attempts in a row without an answer, over all checks, from which on the service is probed."""


@dataclass(slots=True)
class Silence:
    """How long a run has had no answer, and what each check waits for meanwhile.

    After some attempts in a row without a sign of life every check pauses, and one call at a time
    probes the service. A run that waits for whatever reason is given up by one rule: a silent
    service, one that asks to be left alone for ever, a lookup that another process holds.
    Instants are seconds on the loop's clock, which nobody sets back.
    """

    # seconds after which the run stops; None where it never does
    give_up_after_s: float | None = None
    # attempts in a row without a sign of life from which on the service is probed
    after: int = SILENT_AFTER
    probe_every: float = 15.0  # seconds between two probes
    began: float | None = None  # when the first check began to wait; None while answers come
    since: int | None = None  # the same in microseconds, for people
    opened_at: float | None = None  # when probing began; None while the service gives signs of life
    _attempts: int = 0
    _next_probe_at: float = 0.0
    _reasons: dict[str, str] = field(default_factory=dict)

    def ends(self) -> None:
        """Forget what was waited for: there was an answer, from the service or another process."""
        if self.began is not None:
            self.began = self.since = None
            self._reasons.clear()

    def sign_of_life(self) -> None:
        """Probe no longer: the service said something, be it a refusal."""
        self._attempts = 0
        self.opened_at = None

    def goes_on(self, who: str, reason: str, *, at: float, now: int) -> None:
        """Record what a check waits for, in words; the wait begins now where none had begun.

        Now is `at` on the loop's clock, and `now` in microseconds.
        """
        if self.began is None:
            self.began, self.since = at, now
        self._reasons[who] = reason

    def no_sign_of_life(self, at: float) -> None:
        """Count an attempt that brought none."""
        self._attempts += 1
        if self.opened_at is None and self._attempts >= self.after:
            self.opened_at = at
        if self.opened_at is not None:
            self._next_probe_at = at + self.probe_every

    def resume_at(self, at: float, in_flight: int) -> float | None:
        """Return when the next call may be sent; None where nothing holds it back."""
        if self.opened_at is None:
            return None
        if in_flight:
            return at + self.probe_every
        return self._next_probe_at if at < self._next_probe_at else None

    @property
    def reason(self) -> str:
        """Return what is waited for, in words; empty where answers come."""
        return "; ".join(dict.fromkeys(self._reasons.values()))

    @property
    def gives_up_at(self) -> float | None:
        """Return when the run stops if no answer comes; None where it does not."""
        if self.began is None or self.give_up_after_s is None:
            return None
        return self.began + self.give_up_after_s
