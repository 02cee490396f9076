"""Control of one run while it is under way: why it stops, and what is shown of it meanwhile.

Stops are values: the first one wins, whatever is in flight settles, nothing new is sent. Windows
read this; they and the flow write it. No clock of its own, no engine.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nightscreen.calling.detectors import (
    BalanceEstimate,
    CircuitBreaker,
    Silence,
    TestModeDetector,
    Witnesses,
)
from nightscreen.client.classify import ChargeStatus
from nightscreen.client.retry import LONE_WAIT_S
from nightscreen.journal.lookups import WHOLE_RUN
from nightscreen.schemas.calls import LookupStatus
from nightscreen.schemas.clock import LAGOS, to_instant
from nightscreen.schemas.money import naira_words
from nightscreen.schemas.prices import MOST_COST_MICRO
from nightscreen.schemas.stops import REFUSALS, refusals
from nightscreen.schemas.stops import StopReason as StopReason  # noqa: PLC0414 - it belongs to control too

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping

    from nightscreen.client.classify import CallOutcome

TOLERATED_FROM = 200
"""Lookups that must be done before the share of failures can stop a run."""

NOTICE_SHARE = 0.8
"""Share of a spending cap at which a notice is given."""

UNREADABLE_AFTER = 10
"""Charged answers of a check in a row that cannot be read, after which it is stopped."""

BLIND_ANSWERS = 100
"""Answers without a balance after which a balance floor cannot be watched."""

PASSING = {
    StopReason.OUTAGE: "the service to answer again",
    StopReason.BALANCE: "the wallet to be topped up",
    StopReason.QUOTA: "the day's number of lookups, which comes back at noon in Lagos",
}
"""Stops that may pass by themselves before the deadline, and what is then waited for."""

ABSURD_COSTS = 2
"""Lookups that cost more than is believed to be a price, from which on their check stops.

What a balance contradicts does not count."""

UNDECIDED_AFTER = 2
"""Answers without a balance, while a cost of their check is disputed, after which it stops."""

WITNESSES_AT_FIRST, WITNESSES_LATER = 2, 3
"""Lookups that must agree before a check stops: until its first good answer, and after it.

At first nothing speaks for the service, and a wrong key or address should show quickly. Later a
hundred good answers speak for it: proxies and firewalls were seen to refuse single calls, and two
in a row by chance. Three in a row is preferred to a share of the last fifty: it needs no fifty
answers, costs nothing (such answers are free), and one good answer ends the suspicion."""

SAME_FAULTS = 5
"""Lookups of a check without a good answer that must meet the very same 5xx before it stops.

Each may have been charged, so that its worst cost stays reserved; five are a handful."""

SAME_FAULT_WAIT_S = 10.0
"""Wait once two have met it, doubled after each further one: 70 s in all, longer than a service
takes to restart."""

LONG_WAIT = "long_wait"
"""What lookups say that were asked to wait longer than one answer's word is taken for."""

ADDRESS = "address"
TEST_MODE = "test_mode"
COMPLETED, STOPPED = "completed", "stopped"
LOW_BALANCE = "the balance is low"
"""How a notice begins that tells so."""


@dataclass(slots=True)
class CheckProgress:
    """One check's numbers while it runs; `wanted` is all lookups it was to ask."""

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
        """Return how many lookups came to an end."""
        asked = self.paid + self.free + self.reused + self.failed + self.in_doubt
        return asked + self.unreadable + self.lapsed + self.spared

    def count(self, status: LookupStatus, cost_micro: int) -> None:
        """Count a lookup that came to an end."""
        self.cost_micro += cost_micro
        name = status.name.lower()
        setattr(self, name, getattr(self, name) + 1)

    def take_back(self, statuses: Iterable[LookupStatus]) -> None:
        """Count lookups as not ended that failed or were lost: they are asked again."""
        for status in statuses:
            self.failed -= status is LookupStatus.FAILED
            self.in_doubt -= status is LookupStatus.IN_DOUBT


@dataclass(slots=True)
class SpendingAlert:
    """One spending cap and what others had spent under it when the run began, micro-naira."""

    name: str
    cap_micro: int
    before_micro: int
    told: bool = False


@dataclass(slots=True)
class Control:
    """Shared by the windows of a run.

    Attributes:
        tolerated_failure_pct: share of failed lookups from which the run stops.
        deadline_at: instant after which nothing new is sent, microseconds.
        balance_floor_micro: nothing is sent that could take the balance below it.
        breaker: pauses the run while the service is silent.
        silence: how long no answer has come, and why.
        proved_before: something was answered before this session, in this run or an earlier one.
        resting_since: instant since which a stopped run waits to go on; None where it does not.
        quota_until: instant at which the day's number of a check comes back, once it is used up.
        paused_until: instant, on the loop's clock, until which the service asked a check to wait.
        watches: the caps a notice is due for.
        highest_micro: the highest price seen in this run, by check; prices may rise under way.
        price_limits: the highest cost that is believed to be a price, by check.
        price_list: the file of the price list, for who must correct it.
        bound_micro: worst cost of what is reserved or in flight at this moment.
        wallet: the least that is left in the wallet.
        excess_micro: what calls cost beyond what was reserved for them, since prices rose.
        unreadable_run: charged answers that could not be read since the last record that could, by
            check; a miss, which has none, tells nothing of how records are written.
        absurd: lookups that cost more than is believed to be a price, by check, without a balance
            that contradicts it.
        disproved: checks with a cost that a balance contradicted.
        heard: told of each attempt that came back: its check, its seconds, and what was read; for
            measures only, None where nobody listens.
    """

    tolerated_failure_pct: float = 100.0
    deadline_at: int | None = None
    balance_floor_micro: int | None = None
    breaker: CircuitBreaker = field(default_factory=CircuitBreaker)
    silence: Silence = field(default_factory=Silence)
    proved_before: bool = False
    resting_since: int | None = None
    quota_until: dict[str, int] = field(default_factory=dict)
    paused_until: dict[str, float] = field(default_factory=dict)
    watches: list[SpendingAlert] = field(default_factory=list)
    stop: str | None = None
    stopped_checks: dict[str, str] = field(default_factory=dict)
    progress: dict[str, CheckProgress] = field(default_factory=dict)
    balance_micro: int | None = None
    highest_micro: dict[str, int] = field(default_factory=dict)
    price_limits: Mapping[str, int] = field(default_factory=dict)
    price_list: str = ""
    bound_micro: int = 0
    troubles: Counter[tuple[str, str]] = field(default_factory=Counter)
    answered: int = 0
    notices: list[str] = field(default_factory=list)
    wallet: BalanceEstimate = field(default_factory=BalanceEstimate)
    excess_micro: int = 0
    unreadable_run: Counter[str] = field(default_factory=Counter)
    heard: Callable[[str, float, CallOutcome], None] | None = None
    absurd: dict[str, set[bytes]] = field(default_factory=dict)
    disproved: set[str] = field(default_factory=set)
    _likeness: dict[str, TestModeDetector] = field(default_factory=dict)
    _evidence: dict[str, Witnesses] = field(default_factory=dict)
    _blind_from: int = 0
    _was_out: bool = False
    _short: bool = False
    _listeners: list[Callable[[], None]] = field(default_factory=list)

    def on_stop(self, listener: Callable[[], None]) -> None:
        """Call a listener when the run or a check stops."""
        self._listeners.append(listener)

    def stop_run(self, reason: str) -> None:
        """Stop everything; the first reason stays, unless it may pass and someone cancels."""
        cancelled = reason == StopReason.CANCELLED and self.stop in PASSING
        if self.stop is None or cancelled:
            self.stop = reason
            self._tell()

    def go_on(self) -> None:
        """Resume the run after stops that may have passed by themselves.

        The wallet may have been topped up: what is left in it is unknown until the next answer.
        """
        self._was_out = self.may_pass(StopReason.OUTAGE)
        self.stop = None
        for check, reason in list(self.stopped_checks.items()):
            if reason in PASSING:
                del self.stopped_checks[check]
        self.quota_until.clear()
        self.resting_since = None
        self.breaker.answered()
        self.silence.ends()
        self.wallet = BalanceEstimate()
        self._blind_from = self.answered
        for evidence in self._evidence.values():
            evidence.starts_anew()

    def may_pass(self, *reasons: StopReason) -> bool:
        """Whether the run, or a check of a run that went through, stopped for one of these."""
        if self.stop is not None and self.stop not in PASSING:
            return False
        return self.stop in reasons or any(
            reason in reasons for reason in self.stopped_checks.values()
        )

    def renew_quotas(self, now: int) -> list[str]:
        """Let checks go on whose daily number came back since; return those that had stopped."""
        renewed = [check for check, until in self.quota_until.items() if now >= until]
        for check in renewed:
            del self.quota_until[check]
        stopped = [check for check in renewed if self.stopped_checks.get(check) == StopReason.QUOTA]
        for check in stopped:
            del self.stopped_checks[check]
        return stopped

    def stop_check(self, check: str, reason: str) -> None:
        """Stop one check; the run where no check is left."""
        if check in self.stopped_checks:
            return
        self.stopped_checks[check] = reason
        if all(each in self.stopped_checks for each in self.progress):
            self.stop_run(reason)
        self._tell()

    def obey(self, stops: Mapping[str, str]) -> None:
        """Stop what another process has stopped, by scope: a check, or the run."""
        for scope, reason in stops.items():
            if scope == WHOLE_RUN:
                self.stop_run(reason)
            elif scope in self.progress:
                self.stop_check(scope, reason)

    def _tell(self) -> None:
        for listener in self._listeners:
            listener()

    def may_send(self, check: str, now: int, at: float) -> bool:
        """Return whether a check may send; notices the deadline, and that nothing is answered.

        Args:
            check: the check.
            now: the instant.
            at: the same on the loop's clock.
        """
        if self.deadline_at is not None and now >= self.deadline_at:
            self.stop_run(StopReason.DEADLINE)
        self.give_up(at)
        return self.stop is None and check not in self.stopped_checks

    @property
    def waiting(self) -> tuple[str, int] | None:
        """Return what is waited for and since when, in words and as an instant."""
        if self.resting_since is not None:
            reasons = {self.stop, *self.stopped_checks.values()}
            words = "; ".join(word for reason, word in PASSING.items() if reason in reasons)
            return words, self.resting_since
        if self.silence.since is None:
            return None
        return self.silence.reason, self.silence.since

    def give_up(self, at: float) -> None:
        """Stop the run where no answer has come for too long, and say what was waited for."""
        silence = self.silence
        if self.stop is not None or silence.since is None or silence.gives_up_at is None:
            return
        if at >= silence.gives_up_at:
            since = to_instant(silence.since).astimezone(LAGOS)
            self.notices.append(
                f"no answer since {since:%Y-%m-%d %H:%M} in Lagos; waited for {silence.reason}"
            )
            self.stop_run(StopReason.OUTAGE)

    def resume_at(self, at: float) -> float | None:
        """Return when the next call may be sent during an outage; None where there is none."""
        flying = sum(each.in_flight for each in self.progress.values())
        return self.breaker.resume_at(at, flying)

    def bind(self, worst_micro: int, number: int) -> int:
        """Take the worst cost of calls into account; return how many do not break the floor.

        Where what is under way may yet leave room, listeners are called when it has settled; where
        nothing is, the run stops.
        """
        fits = self._fits(worst_micro)
        bound = number if fits is None else min(number, fits)
        if bound == 0:
            self._short = True
            if self.bound_micro == 0:
                self.stop_run(StopReason.BALANCE)
        self.bound_micro += bound * worst_micro
        return bound

    def _fits(self, worst_micro: int) -> int | None:
        """Return how many calls leave the balance above its floor; None where nothing limits it."""
        floor, least = self.balance_floor_micro, self.wallet.least_micro
        if floor is None:
            return None
        if least is None:  # one at a time until an answer bears a balance
            blind = self.answered - self._blind_from >= BLIND_ANSWERS
            return None if blind else int(self.bound_micro == 0)
        return max(0, least - self.bound_micro - floor) // max(1, worst_micro)

    def unbind(self, worst_micro: int, number: int = 1) -> None:
        """Give the worst cost of calls back once they have settled, or were not made."""
        self.bound_micro -= number * worst_micro
        if self._short and number:
            self._short = False
            self._tell()

    def left_in_wallet(self) -> int | None:
        """Return the least that is left for further calls; None where no balance is known."""
        least = self.wallet.least_micro
        return None if least is None else least - self.bound_micro - (self.balance_floor_micro or 0)

    def came_back(self, charged_micro: int, balance_micro: int | None, mark: int) -> None:
        """Take note of what an attempt can have cost and of the balance it bore."""
        self.wallet.takes(charged_micro, balance_micro, mark)
        if balance_micro is not None:
            self.balance_micro = balance_micro

    def saw_answer(self, check: str, cost_micro: int | None, reserved_micro: int) -> None:
        """Take note of an answer and its price; say so where the price rose beyond what was known.

        Args:
            check: the check.
            cost_micro: what it cost; None where the service did not say.
            reserved_micro: what was reserved for it.
        """
        self.breaker.answered()
        self.silence.ends()
        self.answered += 1
        cost = cost_micro or 0
        known = self.highest_micro.get(check, 0)
        news = known < cost <= self.price_limits.get(check, cost)
        if news:
            self.highest_micro[check] = cost
        if cost > reserved_micro:
            self.excess_micro += cost - reserved_micro
            if news:
                self.notices.append(
                    f"the price of {check} rose from {naira_words(reserved_micro)} to "
                    f"{naira_words(cost)} while the run was under way"
                )

    def saw_record(self, check: str) -> None:
        """Take note of a record that could be read."""
        self.unreadable_run[check] = 0

    def saw_unreadable(self, check: str, trouble: str, cost_micro: int | None) -> None:
        """Take note of an answer that cannot be read; stop the check where too many were charged.

        One person's answer may be odd. Ten in a row mean that the service has changed its answers,
        and each further one is paid for and of no use until the table of manners is corrected.
        """
        self.troubles[(check, trouble)] += 1
        self.count_unreadable(check, self.unreadable_run[check] + bool(cost_micro))

    def count_unreadable(self, check: str, number: int) -> None:
        """Take note of how many answers in a row were charged and could not be read; stop at ten.

        A run's own process counts them as they come; several workers go by the journal's count.
        """
        self.unreadable_run[check] = number
        if self.unreadable_run[check] >= UNREADABLE_AFTER and check not in self.stopped_checks:
            self.notices.append(
                f"{check} was stopped: {self.unreadable_run[check]} answers in a row were "
                "charged and could not be read; correct the table of manners, then: nightscreen "
                "journal reread, and resume the run"
            )
            self.stop_check(check, StopReason.FAILURES)

    def disbelieved(self, check: str, reading: CallOutcome) -> int | None:
        """Return the cost an answer names where that is too high to be a price; None where not."""
        limit = self.price_limits.get(check)
        if limit is None or reading.verdict is ChargeStatus.IN_DOUBT:
            return None
        if reading.absurd_cost:  # more than any counter could hold
            return MOST_COST_MICRO
        cost = reading.cost_micro
        return cost if cost is not None and cost > limit else None

    def saw_unread(self, check: str, witness: Hashable | None, *, mark: int, now: int) -> None:
        """Take note of a response that cannot be read; stop the check where customers agree.

        One person's answer may be odd for good. Where several customers get nothing else, something
        stands between, or the service has changed its answers: each further call may be paid for
        and is of no use. That is an outage, which may pass, and nothing of it gets an age.

        Args:
            check: the check.
            witness: whom the lookup was for; None where it could not be read before either: that
                tells of the lookup, and nothing of the service.
            mark: what `Witnesses.mark` was when it was sent.
            now: the instant.
        """
        if witness is None or self.stop is not None or check in self.stopped_checks:
            return
        evidence = self.evidence(check)
        if evidence.hear_unread(witness, mark, now) < WITNESSES_LATER:
            return
        self.notices.append(
            f"{check} was stopped: {WITNESSES_LATER} customers in a row got responses that "
            "cannot be read, each of which may have been charged. See what stands between, such as "
            "a proxy; where the service writes its answers otherwise now, correct the table of "
            "manners, then: nightscreen journal reread"
        )
        self.stop_check(check, StopReason.OUTAGE)

    def unread_outages(self) -> list[tuple[str, int]]:
        """Return the checks whose responses could not be read in an outage, and since when.

        Customers agree on it here, or in another process that stopped the check.
        """
        return [
            (check, evidence.unread_since)
            for check, evidence in self._evidence.items()
            if evidence.unread_since is not None
            and (
                evidence.unread_by >= WITNESSES_LATER
                or StopReason.OUTAGE in {self.stop, self.stopped_checks.get(check)}
            )
        ]

    def saw_disbelieved(
        self, check: str, subject: bytes, named_micro: int, *, disproved: bool
    ) -> None:
        """Say that a cost is not believed; stop the check at the second that is not disproved.

        The stop is `auth`, as where the service itself finds no price: what the account is to pay
        is not what the lender knows, and only a person can set that right.

        Args:
            check: the check.
            subject: whom the call was about.
            named_micro: what the answer named.
            disproved: the balance shows that the wallet did not lose it.
        """
        limit = self.price_limits[check]
        said = (
            f"a {check} call cost {naira_words(named_micro)} by its answer, and no more than "
            f"{naira_words(limit)} is believed to be a price"
        )
        if disproved:
            if check not in self.disproved:
                self.disproved.add(check)
                self.notices.append(
                    f"{said}: the balance contradicts it, and the call counts at the price known "
                    "before"
                )
            return
        lookups = self.absurd.setdefault(check, set())
        if subject in lookups or len(lookups) >= ABSURD_COSTS:
            return
        lookups.add(subject)
        self.notices.append(
            f"{said}: it counts in full until a balance contradicts it, and the check goes on one "
            "call at a time; if you have the service's invoice, enter what it says: nightscreen "
            "journal settle"
        )
        if len(lookups) >= ABSURD_COSTS:
            self.stop_absurd(check)

    def stop_undecided(self, check: str) -> None:
        """Stop a check with a disputed cost whose answers bear no balance that could settle it."""
        self.absurd.setdefault(check, set())
        self.notices.append(
            f"{check} was stopped: the cost of one of its calls is not believed, and no "
            "balance comes that contradicts or confirms it; enter what the service's invoice says: "
            "nightscreen journal settle, then resume the run"
        )
        self.stop_check(check, StopReason.AUTH)

    def stop_absurd(self, check: str) -> None:
        """Stop a check whose costs cannot be prices, and name the file to correct."""
        self.notices.append(
            f"{check} was stopped, since {ABSURD_COSTS} calls cost more than is believed to "
            f"be a price: if that is the price now, write it into {self.price_list}, then resume "
            "the run"
        )
        self.stop_check(check, StopReason.AUTH)

    def saw_body(self, check: str, body: bytes, cost_micro: int | None, *, hit: bool) -> None:
        """Watch whether answers differ; give notice where the service seems not to be live."""
        likeness = self._likeness.get(check)
        if likeness is None:
            likeness = self._likeness[check] = TestModeDetector()
        if likeness.saw(body, cost_micro, hit=hit):
            self.notices.append(
                f"suspicious: {likeness.answers} {check} answers about different people are "
                "all the same and none was charged; make sure that key and address are live ones"
            )

    def saw_trouble(self, check: str, trouble: str, *, silence: bool, at: float, now: int) -> None:
        """Take note of an attempt without an answer.

        Args:
            check: the check.
            trouble: why there is none.
            silence: the service gave no sign of life.
            at: the instant on the loop's clock.
            now: the instant.
        """
        self.troubles[(check, trouble)] += 1
        self.silence.goes_on(check, f"the service ({trouble})", at=at, now=now)
        if silence:
            self.breaker.silence(at)
        else:
            self.breaker.answered()

    # --- what makes further calls useless ---

    def evidence(self, check: str) -> Witnesses:
        """Return what the lookups of a check said against going on."""
        return self._evidence.setdefault(check, Witnesses())

    def heard_stop(
        self, check: str, witness: Hashable, reading: CallOutcome, *, mark: int, price_micro: int
    ) -> bool:
        """Hear a lookup whose answer makes further calls useless; stop where enough lookups agree.

        A wallet that is known to hold less than the call costs is a witness of its own. What is
        known is what other answers said: the balance that a refusal bears is its own word.

        Args:
            check: the check.
            witness: whom the lookup was for.
            reading: what it was answered.
            mark: what `Witnesses.mark` was when it was sent.
            price_micro: what it would have cost.

        Returns:
            False where it is so far this lookup's failure alone.
        """
        if self.stop is not None or check in self.stopped_checks:
            return True
        evidence, word = self.evidence(check), str(reading.stop)
        needed = WITNESSES_LATER if evidence.proved else WITNESSES_AT_FIRST
        least = self.wallet.least_micro
        if word == StopReason.BALANCE and least is not None and least < price_micro:
            needed = 1
        evidence.stop = (word, str(reading.stop_scope) == "run")
        if evidence.hear(word, witness, mark) < needed:
            return False
        self._stop_for(check, *evidence.stop)
        return True

    def _stop_for(self, check: str, word: str, whole_run: bool) -> None:
        if word == ADDRESS and (self.answered or self.proved_before):
            self.notices.append(
                f"the address answered {check} as the service does not (a 404 or a "
                "redirect), while other answers came: see what stands between, such as a proxy"
            )
            self.stop_check(check, StopReason.OUTAGE)
        elif whole_run:
            self.stop_run(word)
        else:
            self.stop_check(check, word)

    def heard_fault(
        self, check: str, witness: Hashable, fault: str, *, mark: int, at: float
    ) -> None:
        """Hear a lookup that met a fault of the service; stop its check where all meet the same.

        Only until the first good answer: later faults are rare ones, an outage or an overload.
        """
        evidence = self.evidence(check)
        if evidence.proved or not fault:
            return
        number = evidence.hear(fault, witness, mark)
        if number > 1:
            evidence.not_before = at + SAME_FAULT_WAIT_S * 2 ** (number - 2)
        if number >= SAME_FAULTS and check not in self.stopped_checks:
            self.notices.append(
                f"{number} {check} lookups in a row met the same fault of the service, and "
                "none was answered; each may have been charged"
            )
            self.stop_check(check, StopReason.OUTAGE)

    def heard_wait(self, check: str, subject: bytes, asked_s: float) -> float:
        """Return for how many seconds a check is left alone, as an answer's `Retry-After` asks.

        More than five minutes only where the answer to another lookup asks for that too.
        """
        if asked_s <= LONE_WAIT_S:
            return asked_s
        evidence = self.evidence(check)
        return asked_s if evidence.hear(LONG_WAIT, subject, evidence.mark) > 1 else LONE_WAIT_S

    def heard_sample(self, check: str, witness: Hashable, record: bytes) -> bool:
        """Hear a lookup answered with a record of somebody else; stop where others get the same.

        A service that is live has no one record for different people: what answers is in test mode.

        Args:
            check: the check.
            witness: whom the lookup was for.
            record: digest of the record.

        Returns:
            False where it is so far this lookup's failure alone.
        """
        if self.stop is not None:
            return self.stop == TEST_MODE
        evidence = self.evidence(check)
        needed = WITNESSES_LATER if evidence.live else WITNESSES_AT_FIRST
        if evidence.hear_sample(record, witness) < needed:
            return False
        self.notices.append(
            f"{check} lookups of different identities were answered with one and the same "
            "record of somebody else: the service, or what stands before it, answers with samples"
        )
        self.stop_run(TEST_MODE)
        return True

    def conclude(self) -> None:
        """Decide, once nothing is left to ask, about refusals that no other lookup could confirm.

        Where nothing at all was answered they count: no lookup contradicts them. Where something
        was, they are those lookups' failures, and a notice says so. So do lookups that failed since
        the service gave no answers.
        """
        if self.stop is not None:
            return
        for check, _ in self.unread_outages():  # nothing is left that might be sent to look again
            self.stop_check(check, StopReason.OUTAGE)
        alone = not (self.answered or self.proved_before)
        for check, evidence in self._evidence.items():
            if evidence.stop is None or check in self.stopped_checks:
                continue
            if alone:
                self._stop_for(check, *evidence.stop)
            elif not evidence.proved:
                self.notices.append(
                    f"the only {check} lookups asked failed ({evidence.stop[0]}); nothing of "
                    "the check could confirm or contradict it, other answers came"
                )
        is_out = self._was_out and self.answered == self._blind_from  # as before the run went on
        if self.silence.began is not None and (is_out or (alone and self._failed)):
            self.stop_run(StopReason.OUTAGE)

    @property
    def _failed(self) -> int:
        return sum(each.failed for each in self.progress.values())

    def ended(self, check: str, status: LookupStatus, cost_micro: int) -> None:
        """Count a lookup that came to an end; stop where too many failed."""
        if status is LookupStatus.WAITING:
            return
        self.progress[check].count(status, cost_micro)
        self.weigh()

    def weigh(self) -> None:
        """Look at what is counted so far: near a cap, give notice; where too many failed, stop.

        While the service is silent nothing is weighed: what probes lose is the outage's doing.
        """
        self._watch_caps()
        if self.breaker.opened_at is not None:
            return
        done = sum(each.done - each.spared for each in self.progress.values())
        failed = sum(each.failed + each.in_doubt for each in self.progress.values())
        if done >= TOLERATED_FROM and 100 * failed > self.tolerated_failure_pct * done:
            self.stop_run(StopReason.FAILURES)

    def _watch_caps(self) -> None:
        """Give notice once for each cap that is nearly used up."""
        spent = sum(each.cost_micro for each in self.progress.values())
        for watch in self.watches:
            if not watch.told and watch.before_micro + spent >= NOTICE_SHARE * watch.cap_micro:
                watch.told = True
                self.notices.append(
                    f"{NOTICE_SHARE:.0%} of the {watch.name} spending cap is used up"
                )

    def ending(self) -> tuple[str, str | None]:
        """Return state and stop reason of a run that has come to its end."""
        if self.stop == TEST_MODE:
            return TEST_MODE, None
        if self.stop == ADDRESS:
            return STOPPED, StopReason.OUTAGE.value
        if self.stop is not None:
            return STOPPED, self.stop
        if self.stopped_checks:
            return STOPPED, next(iter(self.stopped_checks.values()))
        return COMPLETED, None

    def refusals(self) -> list[str]:
        """Return what is wrong with address, key or rights, where run or check stops for it."""
        reasons = {StopReason.AUTH.value, StopReason.OUTAGE.value, ADDRESS}
        halted = {check for check, why in self.stopped_checks.items() if why in reasons}
        found = [
            (check, trouble)
            for check, trouble in self.troubles
            if check in halted or self.stop in {StopReason.AUTH, ADDRESS}
        ]
        if self.stop == StopReason.AUTH:
            return refusals(found) or ([] if self.absurd else [REFUSALS["auth"]])
        return refusals(found)
