"""Stops: what makes further calls useless, how many must agree on it, and how far it reaches.

`RULES` is the table of objections to further calls, `TRANSIENT_STOPS` that of the stops that may
pass by themselves. A stop is a value: the first one stays, calls in flight settle, and nothing new
is sent.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from nightscreen.client.classify import BODY_KEPT, LONE_WAIT_S
from nightscreen.client.response_rules import ChargeStatus, FailureReason
from nightscreen.journal.lookups import WHOLE_RUN
from nightscreen.schemas.calls import LookupStatus
from nightscreen.schemas.checks import HITS
from nightscreen.schemas.clock import LAGOS, to_instant
from nightscreen.schemas.stops import (
    ADDRESS,
    COMPLETED,
    REFUSALS,
    STOPPED,
    TEST_MODE,
    StopReason,
    refusals,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping

    from nightscreen.client.classify import CallOutcome

TOLERATED_FROM = 200  # lookups that must have ended before the share of failures can stop a run

SILENT_AFTER = 40
"""Attempts in a row without an answer, over all checks, after which the service is probed."""

SAME_FAULT_WAIT_S = 10.0
"""Wait after two customers have met the same fault, doubled after each further one: 70 s in all,
longer than a service takes to restart."""


class Objection(StrEnum):
    """A result's objection to further calls; the first four are names in the response rules."""

    AUTH = "auth"
    BALANCE = "balance"
    ADDRESS = "address"
    TEST_MODE = "test_mode"
    ASTRAY = "astray"
    SAMPLE = "sample"
    FAULT = "fault"
    UNREAD = "unread"
    UNREADABLE = "unreadable"
    COST = "cost"
    UNSETTLED = "unsettled"
    LONG_WAIT = "long_wait"


class Until(StrEnum):
    """The kind of answer that clears the witnesses of an objection."""

    ANSWER = "good answer"
    RECORD = "record that could be read"
    BALANCE = "balance"
    NOTHING = ""


@dataclass(frozen=True, slots=True)
class Rule:
    """How many witnesses of an objection stop a check or the run, and for which reason."""

    # witnesses needed until the check's first good answer: a wrong key or address should show
    # quickly
    first: int
    # witnesses needed after it; None if the objection then no longer stops anything. Proxies and
    # firewalls were seen to refuse single calls, and two in a row by chance. Three in a row is
    # preferred to a share of the last fifty: it needs no fifty answers, and one good answer clears
    # it.
    later: int | None
    reason: str | None  # the stop; None if it only lengthens a pause
    # whether the run stops, not only the check; a refusal's response rule may require it too
    whole_run: bool = False
    # a witness counts only if it was sent after the previous one was received, so that a short
    # fault with many calls in flight counts as one witness
    apart: bool = True
    # the answer that clears them. While there are witnesses that a good answer would clear, the
    # check asks one lookup at a time.
    until: Until = Until.ANSWER
    notice: str = ""  # added to the run's notices


RULES: Mapping[Objection, Rule] = {
    Objection.AUTH: Rule(2, 3, StopReason.AUTH),
    Objection.BALANCE: Rule(2, 3, StopReason.BALANCE),
    Objection.TEST_MODE: Rule(2, 3, TEST_MODE),
    Objection.ADDRESS: Rule(2, 3, ADDRESS),
    # The same after other answers came: something intercepts only this check.
    Objection.ASTRAY: Rule(
        2,
        3,
        StopReason.OUTAGE,
        notice="the address answered {check} as the service does not (a 404 or a redirect), while "
        "other answers came: see what stands between, such as a proxy",
    ),
    # A live service never has one record for different people. Calls in flight together count,
    # since no short fault makes such a record.
    Objection.SAMPLE: Rule(
        2,
        3,
        TEST_MODE,
        whole_run=True,
        apart=False,
        notice="{check} lookups of different identities were answered with one and the same record "
        "of somebody else: the service, or what stands before it, answers with samples",
    ),
    # The identical 5xx. Each may have been charged, so its worst cost stays reserved; five are few
    # enough. After a good answer, faults are single ones, an outage or an overload.
    Objection.FAULT: Rule(
        5,
        None,
        StopReason.OUTAGE,
        notice="{number} {check} lookups in a row met the same fault of the service, and none was "
        "answered; each may have been charged",
    ),
    # A response that cannot be read and may have been charged. One person's record may be broken
    # permanently. But if several customers get only such responses, a proxy intercepts them or the
    # service has changed its answers. That is an outage, which may pass; its lookups get no age.
    Objection.UNREAD: Rule(
        3,
        3,
        StopReason.OUTAGE,
        notice="{check} was stopped: {number} customers in a row got responses that cannot be "
        "read, each of which may have been charged. See what stands between, such as a proxy; "
        "where the service writes its answers otherwise now, correct the table of manners, then: "
        "nightscreen journal reread",
    ),
    # Charged answers whose record cannot be read. Ten in a row mean that the service has changed
    # its answers; each further one would be paid for without use. A miss has no record and says
    # nothing about their format.
    Objection.UNREADABLE: Rule(
        10,
        10,
        StopReason.FAILURES,
        apart=False,
        until=Until.RECORD,
        notice="{check} was stopped: {number} answers in a row were charged and could not be read; "
        "correct the table of manners, then: nightscreen journal reread, and resume the run",
    ),
    # A cost too high to be a price, and not contradicted by a balance. The stop is `auth`, as when
    # the service itself finds no price: only a person can correct that.
    Objection.COST: Rule(
        2,
        2,
        StopReason.AUTH,
        apart=False,
        until=Until.NOTHING,
        notice="{check} was stopped, since {number} calls cost more than is believed to be a "
        "price: if that is the price now, write it into {price_list}, then resume the run",
    ),
    # Answers without a balance, while a cost of their check is disputed.
    Objection.UNSETTLED: Rule(
        2,
        2,
        StopReason.AUTH,
        apart=False,
        until=Until.BALANCE,
        notice="{check} was stopped: the cost of one of its calls is not believed, and no balance "
        "comes that contradicts or confirms it; enter what the service's invoice says: "
        "nightscreen journal settle, then resume the run",
    ),
    # A `Retry-After` longer than one answer alone is believed for.
    Objection.LONG_WAIT: Rule(2, 2, None),
}
"""The objections to further calls. A customer is one witness: a broken record is broken by each of
the customer's identifiers."""

FEW = 3  # customers that are enough to tell a fault of the service from one of a customer's record


class TransientStop(NamedTuple):
    """A stop that may pass by itself: what is waited for, and whether it passes at noon."""

    waits_for: str
    at_noon: bool = False


TRANSIENT_STOPS: Mapping[str, TransientStop] = {
    StopReason.OUTAGE: TransientStop("the service to answer again"),
    StopReason.BALANCE: TransientStop("the wallet to be topped up"),
    StopReason.QUOTA: TransientStop(
        "the day's number of lookups, which comes back at noon in Lagos", at_noon=True
    ),
}
"""Stops that may pass before the deadline; those not `at_noon` are retried after `resume_every`."""


@dataclass(slots=True)
class Evidence:
    """The objections of one check's lookups."""

    proved: bool = False  # the check has had a good answer in this run
    # the last refusal as (objection, whether it stops the whole run); None after a good answer
    refused: tuple[Objection, bool] | None = None
    # instant, on the loop's clock, before which the next call may not be sent
    not_before: float = 0.0
    # instant of the first response in the current row of unreadable ones
    unread_since: int | None = None
    mark: int = 0  # passed with each call that is sent, and compared when it returns
    # witnesses by objection and detail, each with the mark that it was heard at
    _witnesses: dict[tuple[Objection, Hashable], dict[Hashable, int]] = field(default_factory=dict)

    @property
    def is_open(self) -> bool:
        """Return whether there is a witness that a good answer would clear."""
        return any(RULES[word].until is Until.ANSWER for word, _ in self._witnesses)

    def number(self, word: Objection, detail: Hashable = None) -> int:
        """Return how many witnesses an objection has."""
        return len(self._witnesses.get((word, detail), ()))

    def knows(self, word: Objection, witness: Hashable) -> bool:
        """Return whether a witness is known, or there are enough of them."""
        heard = self._witnesses.get((word, None), ())
        return witness in heard or len(heard) >= RULES[word].first

    def add_witness(
        self, word: Objection, witness: Hashable, mark: int | None = None, detail: Hashable = None
    ) -> int:
        """Add a lookup as a witness; return how many witnesses the objection has.

        Args:
            word: the objection.
            witness: the customer it was for.
            mark: `mark` when it was sent; None if that does not matter.
            detail: must be identical for all witnesses, such as the fault's text.
        """
        witnesses = self._witnesses.setdefault((word, detail), {})
        heard_at = max(witnesses.values(), default=0)
        in_time = mark is None or not RULES[word].apart or mark >= heard_at
        if witness not in witnesses and in_time:
            self.mark += 1
            witnesses[witness] = self.mark
        return len(witnesses)

    def counted(self, word: Objection, number: int) -> None:
        """Set the number of witnesses of an objection, as counted before."""
        self._witnesses[word, None] = dict.fromkeys(range(number), 0)

    def answered(self) -> None:
        """Clear what a good answer contradicts."""
        self.proved = True
        self.not_before = 0.0
        self.unread_since = self.refused = None
        self.forget(Until.ANSWER)

    def forget(self, until: Until) -> None:
        """Clear the witnesses of objections that such an answer contradicts."""
        for key in [each for each in self._witnesses if RULES[each[0]].until is until]:
            del self._witnesses[key]

    def starts_anew(self) -> None:
        """Clear refusals, which are free to meet again; faults may be charged and stay."""
        self.not_before = 0.0
        if self.refused is not None:
            self._witnesses.pop((self.refused[0], None), None)
            self.refused = None


@dataclass(slots=True)
class CheckProgress:
    """One check's figures while it runs; `wanted` is the number of lookups to ask."""

    wanted: int = 0
    paid: int = 0
    free: int = 0
    reused: int = 0
    unreadable: int = 0
    failed: int = 0
    in_doubt: int = 0
    lapsed: int = 0
    spared: int = 0
    attempts: int = 0
    cost_micro: int = 0
    cap: int = 0
    in_flight: int = 0

    @property
    def done(self) -> int:
        """Return how many lookups have ended."""
        asked = self.paid + self.free + self.reused + self.failed + self.in_doubt
        return asked + self.unreadable + self.lapsed + self.spared

    def count(self, status: LookupStatus, cost_micro: int) -> None:
        """Count a lookup that has ended."""
        self.cost_micro += cost_micro
        name = status.name.lower()
        setattr(self, name, getattr(self, name) + 1)

    def take_back(self, statuses: Iterable[LookupStatus]) -> None:
        """Uncount lookups that failed or were lost: they are asked again."""
        for status in statuses:
            self.failed -= status is LookupStatus.FAILED
            self.in_doubt -= status is LookupStatus.IN_DOUBT


@dataclass(slots=True)
class Silence:
    """How long a run has had no answer, and what each check waits for meanwhile.

    After some attempts in a row without a response every check pauses, and one call at a time
    probes the service. One rule ends a run that waits too long, for whatever reason: a silent
    service, one that keeps asking to wait, or a lookup that another process holds. Instants are
    seconds on the loop's monotonic clock.
    """

    # seconds after which the run stops; None for never
    give_up_after_s: float | None = None
    # attempts in a row without a response after which the service is probed
    after: int = SILENT_AFTER
    probe_every: float = 15.0  # seconds between two probes
    began: float | None = None  # when the first check began to wait; None while answers come
    since: int | None = None  # the same in microseconds, for people
    opened_at: float | None = None  # when probing began; None while the service responds
    _attempts: int = 0
    _next_probe_at: float = 0.0
    _reasons: dict[str, str] = field(default_factory=dict)

    def clear_waits(self) -> None:
        """Clear the reasons to wait: an answer came, from the service or another process."""
        if self.began is not None:
            self.began = self.since = None
            self._reasons.clear()

    def stop_probing(self) -> None:
        """Stop probing: the service responded, even if it refused."""
        self._attempts = 0
        self.opened_at = None

    def record_wait(self, who: str, reason: str, *, at: float, now: int) -> None:
        """Record what a check waits for; the wait starts now unless one had started.

        The current instant is `at` on the loop's clock, and `now` in microseconds.
        """
        if self.began is None:
            self.began, self.since = at, now
        self._reasons[who] = reason

    def record_no_response(self, at: float) -> None:
        """Count an attempt without a response."""
        self._attempts += 1
        if self.opened_at is None and self._attempts >= self.after:
            self.opened_at = at
        if self.opened_at is not None:
            self._next_probe_at = at + self.probe_every

    def resume_at(self, at: float, in_flight: int) -> float | None:
        """Return when the next call may be sent; None for now."""
        if self.opened_at is None:
            return None
        if in_flight:
            return at + self.probe_every
        return self._next_probe_at if at < self._next_probe_at else None

    @property
    def reason(self) -> str:
        """Return what is waited for, as text; empty while answers come."""
        return "; ".join(dict.fromkeys(self._reasons.values()))

    @property
    def gives_up_at(self) -> float | None:
        """Return when the run stops if no answer comes; None if it does not stop."""
        if self.began is None or self.give_up_after_s is None:
            return None
        return self.began + self.give_up_after_s


@dataclass(slots=True)
class Stops:
    """Why a run or one of its checks stops, and what it waits for."""

    progress: dict[str, CheckProgress] = field(default_factory=dict)  # by check
    tolerated_failure_pct: float = 100.0  # the run stops above this share of failed lookups
    price_list: str = ""  # the file of the price list, for a notice
    deadline_at: int | None = None  # instant after which nothing new is sent, microseconds
    silence: Silence = field(default_factory=Silence)
    reason: str | None = None  # why the run stopped; None while it goes on
    checks: dict[str, str] = field(default_factory=dict)  # why checks stopped, by check
    # sentences for people, in order of time
    notices: list[str] = field(default_factory=list)
    # counts by check and error
    errors: Counter[tuple[str, str]] = field(default_factory=Counter)
    answered: int = 0  # answers in this session
    proved_before: bool = False  # there were answers before it, in this run or an earlier one
    # instant since which a stopped run waits to resume; None if it does not
    resting_since: int | None = None
    resting_until: int | None = None
    # instant at which a check's used-up quota is renewed
    quota_until: dict[str, int] = field(default_factory=dict)
    # instant, on the loop's clock, until which the service asked a check to wait
    paused_until: dict[str, float] = field(default_factory=dict)
    # the wallet was too low, and no answer came since: one call at a time finds out whether it was
    # topped up, and one more refusal stops again
    probes_wallet: bool = False
    # called with check, seconds and result of each attempt that has ended; for metrics only
    on_attempt: Callable[[str, float, CallOutcome], None] | None = None
    _costs_in_doubt: bool = False
    _evidence: dict[str, Evidence] = field(default_factory=dict)
    _outage_at: int | None = None  # the number of answers when it resumed after an outage
    _listeners: list[Callable[[], None]] = field(default_factory=list)

    # --- stopping and resuming ---

    def on_stop(self, listener: Callable[[], None]) -> None:
        """Call a listener when the run or a check stops, or lanes have to wake."""
        self._listeners.append(listener)

    def wake(self) -> None:
        """Wake lanes that sleep."""
        for listener in self._listeners:
            listener()

    def stop(self, reason: str) -> None:
        """Stop the run; the first reason stays, but a cancellation replaces a transient one."""
        cancelled = reason == StopReason.CANCELLED and self.reason in TRANSIENT_STOPS
        if self.reason is None or cancelled:
            self.reason = reason
            self.wake()

    def stop_check(self, check: str, reason: str) -> None:
        """Stop one check, and the run if no check is left."""
        if check in self.checks:
            return
        self.checks[check] = reason
        if all(each in self.checks for each in self.progress):
            self.stop(reason)
        self.wake()

    def obey(self, stops: Mapping[str, str]) -> None:
        """Apply the stops of other processes, by scope: a check, or the run."""
        for scope, reason in stops.items():
            if scope == WHOLE_RUN:
                self.stop(reason)
            elif scope in self.progress:
                self.stop_check(scope, reason)

    def may_send(self, check: str, now: int, at: float) -> bool:
        """Return whether a check may send; stop at the deadline, or if no answer came for too long.

        The current instant is `now` in microseconds, and `at` on the loop's clock.
        """
        if self.deadline_at is not None and now >= self.deadline_at:
            self.stop(StopReason.DEADLINE)
        silence = self.silence
        is_over = silence.gives_up_at is not None and at >= silence.gives_up_at
        if self.reason is None and silence.since is not None and is_over:
            since = to_instant(silence.since).astimezone(LAGOS)
            self.notices.append(
                f"no answer since {since:%Y-%m-%d %H:%M} in Lagos; waited for {silence.reason}"
            )
            self.stop(StopReason.OUTAGE)
        return self.reason is None and check not in self.checks

    def transient_stops(self) -> frozenset[str]:
        """Return the transient stops of run and checks; none if the run's own is not transient."""
        if self.reason is not None and self.reason not in TRANSIENT_STOPS:
            return frozenset()
        met = {self.reason, *self.checks.values()}
        return frozenset(reason for reason in TRANSIENT_STOPS if reason in met)

    def go_on(self) -> None:
        """Resume the run after stops that may have passed by themselves."""
        passed = self.transient_stops()
        self._outage_at = self.answered if StopReason.OUTAGE in passed else None
        self.probes_wallet = StopReason.BALANCE in passed
        self.reason = None
        self.checks = {
            check: reason for check, reason in self.checks.items() if reason not in TRANSIENT_STOPS
        }
        self.quota_until.clear()
        self.resting_since = None
        self.silence.stop_probing()
        self.silence.clear_waits()
        for evidence in self._evidence.values():
            evidence.starts_anew()

    def renew_quotas(self, now: int) -> list[str]:
        """Resume checks whose daily quota was renewed; return those that had stopped."""
        renewed = [check for check, until in self.quota_until.items() if now >= until]
        for check in renewed:
            del self.quota_until[check]
        stopped = [check for check in renewed if self.checks.get(check) == StopReason.QUOTA]
        for check in stopped:
            del self.checks[check]
        return stopped

    @property
    def probes_service(self) -> bool:
        """Return whether no answer came since the run resumed after an outage.

        One call of each check at a time finds out whether it is over; if none of them is answered,
        the run stops again: each may be charged, and a lost call of some flows cannot be repeated.
        """
        return self._outage_at == self.answered

    @property
    def waiting(self) -> tuple[str, int] | None:
        """Return what is waited for, as text, and since which instant."""
        if self.resting_since is not None:
            met = {self.reason, *self.checks.values()}
            words = [each.waits_for for reason, each in TRANSIENT_STOPS.items() if reason in met]
            return "; ".join(words), self.resting_since
        if self.silence.since is None:
            return None
        return self.silence.reason, self.silence.since

    def resume_at(self, at: float) -> float | None:
        """Return when the next call may be sent during an outage; None without one."""
        return self.silence.resume_at(at, sum(each.in_flight for each in self.progress.values()))

    # --- objections ---

    def evidence(self, check: str) -> Evidence:
        """Return the objections of a check's lookups."""
        return self._evidence.setdefault(check, Evidence())

    def record_objection(
        self,
        check: str,
        word: Objection,
        witness: Hashable,
        *,
        mark: int | None = None,
        detail: Hashable = None,
        enough: int | None = None,
        whole_run: bool = False,
    ) -> bool:
        """Record a lookup's objection, and stop if enough agree.

        Args:
            check: the check.
            word: the objection.
            witness: the customer the lookup was for.
            mark: see `Evidence.add_witness`.
            detail: see `Evidence.add_witness`.
            enough: how many are enough; None for the rule's number.
            whole_run: whether the run stops, not only the check.

        Returns:
            False if so far only this lookup has failed.
        """
        rule, evidence = RULES[word], self.evidence(check)
        number = evidence.add_witness(word, witness, mark, detail)
        if self.reason is not None or check in self.checks:
            return True
        if enough is None:
            enough = rule.later if evidence.proved else rule.first
        if enough is None or number < enough:
            return False
        self.apply_stop_rule(check, word, number, whole_run=whole_run)
        return True

    def apply_stop_rule(
        self, check: str, word: Objection, number: int, *, whole_run: bool = False
    ) -> None:
        """Stop the check or the run by a rule, and add the rule's notice."""
        if word is Objection.ADDRESS and (self.answered or self.proved_before):
            word, whole_run = Objection.ASTRAY, False
        rule = RULES[word]
        if rule.reason is None or check in self.checks:
            return
        if rule.notice:
            self.notices.append(
                rule.notice.format(check=check, number=number, price_list=self.price_list)
            )
        self._costs_in_doubt |= word in {Objection.COST, Objection.UNSETTLED}
        if rule.whole_run or whole_run:
            self.stop(rule.reason)
        else:
            self.stop_check(check, rule.reason)

    def record_attempt(
        self,
        check: str,
        witness: Hashable,
        reading: CallOutcome,
        *,
        mark: int,
        at: float,
        now: int,
        is_poor: bool = False,
        was_unread: bool = False,
    ) -> bool:
        """Record an attempt; stop the check or the run if enough lookups met the same.

        Args:
            check: the check.
            witness: the customer the lookup was for.
            reading: the result of the attempt.
            mark: the evidence's mark when it was sent.
            at: the instant on the loop's clock.
            now: the instant in microseconds.
            is_poor: other answers show that the wallet holds less than the call costs, which makes
                one refusal enough. The balance in the refusal itself does not count.
            was_unread: the lookup's response was unreadable before, so it says nothing about the
                service.

        Returns:
            Whether further calls are stopped; False if only this lookup has failed.
        """
        evidence, stopped = self.evidence(check), False
        was_silent = self.silence.opened_at is not None
        if reading.foreign:
            stopped = self.record_objection(
                check, Objection.SAMPLE, witness, detail=reading.foreign
            )
        elif reading.stop is not None:
            word, whole_run = Objection(str(reading.stop)), str(reading.stop_scope) == "run"
            evidence.refused = (word, whole_run)
            is_low = word is Objection.BALANCE and (is_poor or self.probes_wallet)
            # the refusal names the account, whichever customer was asked about
            is_plain = reading.trouble is FailureReason.DISTRIBUTOR and not evidence.proved
            enough = 1 if is_low or is_plain else None
            stopped = self.record_objection(
                check, word, witness, mark=mark, enough=enough, whole_run=whole_run
            )
        if reading.verdict in BODY_KEPT:
            self.silence.stop_probing()
            self.silence.clear_waits()
            self.probes_wallet = False
            self.answered += 1
        if reading.verdict is ChargeStatus.ANSWERED:
            if reading.outcome in HITS:
                evidence.forget(Until.RECORD)
            evidence.answered()
        else:
            self._without_answer(check, reading, at=at, now=now)
        if (
            reading.is_unread
            and not was_unread
            and self.reason is None
            and check not in self.checks
        ):
            evidence.unread_since = evidence.unread_since or now
            self.record_objection(check, Objection.UNREAD, witness, mark=mark)
        if reading.fault and not evidence.proved:
            self.record_objection(check, Objection.FAULT, witness, mark=mark, detail=reading.fault)
            if (number := evidence.number(Objection.FAULT, reading.fault)) > 1:
                evidence.not_before = at + SAME_FAULT_WAIT_S * 2 ** (number - 2)
        if was_silent and self.silence.opened_at is None:
            self.wake()  # other lanes sleep until their next probe would be due
        return stopped

    def _without_answer(self, check: str, reading: CallOutcome, *, at: float, now: int) -> None:
        """Record why there is no readable answer; stop after too many charged ones in a row."""
        verdict, trouble = reading.verdict, str(reading.trouble)
        self.errors[(check, trouble)] += 1
        if verdict is ChargeStatus.UNREADABLE:
            evidence = self.evidence(check)
            number = evidence.number(Objection.UNREADABLE) + bool(reading.cost_micro)
            evidence.counted(Objection.UNREADABLE, number)
            if number >= RULES[Objection.UNREADABLE].first:
                self.apply_stop_rule(check, Objection.UNREADABLE, number)
            return
        self.silence.record_wait(check, f"the service ({trouble})", at=at, now=now)
        if verdict in {ChargeStatus.NOT_SENT, ChargeStatus.IN_DOUBT}:
            self.silence.record_no_response(at)
            # the call of another check may still be answered
            if self.probes_service and not any(each.in_flight for each in self.progress.values()):
                self.stop(StopReason.OUTAGE)
        else:
            self.silence.stop_probing()
        if verdict is ChargeStatus.NOT_CHARGED and not reading.retry:
            self.silence.clear_waits()  # a refusal of this one lookup is a response of the service

    def unread_outages(self) -> list[tuple[str, int]]:
        """Return the checks with unreadable responses in an outage, and since which instant.

        Enough customers have met it, here or in another process that stopped the check.
        """
        return [
            (check, evidence.unread_since)
            for check, evidence in self._evidence.items()
            if evidence.unread_since is not None
            and (
                evidence.number(Objection.UNREAD) >= RULES[Objection.UNREAD].first
                or StopReason.OUTAGE in {self.reason, self.checks.get(check)}
            )
        ]

    def wait_asked(self, check: str, subject: bytes, asked_s: float) -> float:
        """Return for how many seconds a check pauses, given an answer's `Retry-After`.

        It is more than five minutes only if the answer to another lookup asks for that too.
        """
        if asked_s <= LONE_WAIT_S:
            return asked_s
        number = self.evidence(check).add_witness(Objection.LONG_WAIT, subject)
        return asked_s if number >= RULES[Objection.LONG_WAIT].first else LONE_WAIT_S

    # --- counting ---

    def ended(self, check: str, status: LookupStatus, cost_micro: int) -> None:
        """Count a lookup that has ended; stop the run if too many failed."""
        if status is LookupStatus.WAITING:
            return
        self.progress[check].count(status, cost_micro)
        self.weigh()

    def weigh(self) -> None:
        """Stop the run if too large a share of the ended lookups has failed.

        While the service is silent nothing is stopped: the outage causes the failures of probes.
        """
        if self.silence.opened_at is not None:
            return
        done = sum(each.done - each.spared for each in self.progress.values())
        failed = sum(each.failed + each.in_doubt for each in self.progress.values())
        if done >= TOLERATED_FROM and 100 * failed > self.tolerated_failure_pct * done:
            self.stop(StopReason.FAILURES)

    # --- the end ---

    def conclude(self) -> None:
        """Judge unconfirmed refusals when nothing is left to ask.

        If there was no answer at all, they stop their check: no lookup contradicts them. If there
        was one, only those lookups failed, and a notice says so. Lookups that failed because the
        service gave no answers make the run's stop an outage.
        """
        if self.reason is not None:
            return
        for check, _ in self.unread_outages():  # no lookup is left that could show its end
            self.stop_check(check, StopReason.OUTAGE)
        alone = not (self.answered or self.proved_before)
        for check, evidence in self._evidence.items():
            if evidence.refused is None or check in self.checks:
                continue
            word, whole_run = evidence.refused
            if alone:
                self.apply_stop_rule(check, word, 0, whole_run=whole_run)
            elif not evidence.proved:
                self.notices.append(
                    f"the only {check} lookups asked failed ({word}); nothing of "
                    "the check could confirm or contradict it, other answers came"
                )
        failed = any(each.failed for each in self.progress.values())
        if self.silence.began is not None and (self.probes_service or (alone and failed)):
            self.stop(StopReason.OUTAGE)

    def ending(self) -> tuple[str, str | None]:
        """Return state and stop reason of a run that ends."""
        if self.reason == TEST_MODE:
            return TEST_MODE, None
        if self.reason == ADDRESS:
            return STOPPED, StopReason.OUTAGE.value
        if self.reason is not None:
            return STOPPED, self.reason
        if self.checks:
            return STOPPED, next(iter(self.checks.values()))
        return COMPLETED, None

    def refusals(self) -> list[str]:
        """Return sentences on a wrong address, key or right that stopped the run or a check."""
        reasons = {StopReason.AUTH.value, StopReason.OUTAGE.value, ADDRESS}
        halted = {check for check, why in self.checks.items() if why in reasons}
        found = [
            (check, error)
            for check, error in self.errors
            if check in halted or self.reason in {StopReason.AUTH, ADDRESS}
        ]
        if self.reason == StopReason.AUTH:
            return refusals(found) or ([] if self._costs_in_doubt else [REFUSALS["auth"]])
        return refusals(found)
