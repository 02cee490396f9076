"""Stops: every row of the table of rules, and what ends or pauses a run beside them."""

from __future__ import annotations

from collections import Counter

import pytest

from nightscreen.calling.stops import (
    RULES,
    TRANSIENT_STOPS,
    CheckProgress,
    Objection,
    Silence,
    Stops,
    Until,
)
from nightscreen.client.classify import CallOutcome
from nightscreen.client.response_rules import ChargeStatus, FailureReason, StopScope, StopSignal
from nightscreen.schemas.calls import LookupStatus
from nightscreen.schemas.stops import ADDRESS, TEST_MODE, StopReason

NAIRA = 1_000_000


def stops(*checks: str) -> Stops:
    return Stops({check: CheckProgress() for check in checks or ("karma", "ecosystem")})


def back(
    made: Stops,
    reading: CallOutcome,
    customer: int = 1,
    *,
    at: float = 0.0,
    now: int = 0,
    **more: bool,
) -> bool:
    """Have an attempt come back that was sent after the last witness was heard."""
    mark = made.evidence("karma").mark
    return made.record_attempt("karma", customer, reading, mark=mark, at=at, now=now, **more)


def lost(trouble: FailureReason = FailureReason.CUT, fault: str = "") -> CallOutcome:
    """Return an attempt that may have been charged."""
    return CallOutcome(ChargeStatus.IN_DOUBT, trouble=trouble, retry=True, fault=fault)


def unreadable(cost_micro: int | None = None) -> CallOutcome:
    """Return a response that cannot be read; in doubt where it states no cost."""
    verdict = ChargeStatus.IN_DOUBT if cost_micro is None else ChargeStatus.UNREADABLE
    return CallOutcome(verdict, trouble=FailureReason.UNREADABLE, cost_micro=cost_micro)


# --- the table ---

EXPECTED: dict[Objection, tuple[int, int | None, str | None, bool]] = {
    Objection.AUTH: (2, 3, "auth", False),
    Objection.BALANCE: (2, 3, "balance", False),
    Objection.TEST_MODE: (2, 3, "test_mode", False),
    Objection.ADDRESS: (2, 3, "address", False),
    Objection.ASTRAY: (2, 3, "outage", False),
    Objection.SAMPLE: (2, 3, "test_mode", True),
    Objection.FAULT: (5, None, "outage", False),
    Objection.UNREAD: (3, 3, "outage", False),
    Objection.UNREADABLE: (10, 10, "failures", False),
    Objection.COST: (2, 2, "auth", False),
    Objection.UNSETTLED: (2, 2, "auth", False),
    Objection.LONG_WAIT: (2, 2, None, False),
}
"""Witnesses before and after the first good answer, the stop, and whether the run stops."""


def say(made: Stops, word: Objection, number: int) -> None:
    """Have so many customers say a word, one after the other, and each sent after the last."""
    for customer in range(number):
        made.record_objection("karma", word, customer, mark=made.evidence("karma").mark)


@pytest.mark.parametrize("word", dict.fromkeys((*Objection, *RULES, *EXPECTED)))
def test_a_rule_stops_with_its_last_witness(word: Objection) -> None:
    """One fewer stops nothing; the last stops check or run, for the row's reason.

    One customer is one witness, however often. Where a bad moment can make them, calls that were
    sent before the first was heard count once.
    """
    first, later, reason, whole_run = EXPECTED[word]
    for needed, proved in ((first, False), (later, True)):
        made = stops()
        if proved:
            made.evidence("karma").answered()
        say(made, word, 20 if needed is None else needed - 1)
        assert (made.reason, made.checks) == (None, {})
        if needed is None:
            continue
        say(made, word, needed)
        assert made.reason == (reason if whole_run else None)
        assert made.checks == ({} if whole_run or reason is None else {"karma": reason})
        assert bool(made.notices) == bool(RULES[word].notice)
    one, together = stops(), stops()
    for customer in range(20):
        one.record_objection("karma", word, "one", mark=one.evidence("karma").mark)
        together.record_objection("karma", word, customer, mark=0)
    assert (one.reason, one.checks) == (None, {})
    assert bool(together.reason or together.checks) is (
        reason is not None and not RULES[word].apart
    )


@pytest.mark.parametrize("word", Objection)
def test_witnesses_are_forgotten_as_the_row_says(word: Objection) -> None:
    """What contradicts them ends the suspicion; nothing else does."""
    until = RULES[word].until
    for ends in Until:
        made = stops()
        say(made, word, RULES[word].first - 1)
        evidence = made.evidence("karma")
        assert evidence.is_open is (until is Until.ANSWER)
        evidence.forget(ends)
        assert (evidence.number(word) == 0) is (ends is until)


def test_the_very_same_is_meant() -> None:
    """Different records, and different faults, do not add up."""
    made = stops()
    for number in range(20):
        made.record_objection("karma", Objection.SAMPLE, number, detail=bytes([number]))
        back(made, lost(fault=f"fault {number}"), number)
    assert (made.reason, made.checks) == (None, {})


# --- refusals ---


def refusal(word: Objection, scope: StopScope) -> CallOutcome:
    trouble = FailureReason(word.value)
    return CallOutcome(
        ChargeStatus.STOP, trouble=trouble, stop=StopSignal(word.value), stop_scope=scope
    )


@pytest.mark.parametrize(
    ("word", "scope", "before", "is_poor", "reason"),
    [
        pytest.param(Objection.AUTH, StopScope.RUN, None, False, "auth", id="wrong key"),
        pytest.param(Objection.AUTH, StopScope.CHECK, None, False, "auth", id="missing right"),
        pytest.param(Objection.BALANCE, StopScope.RUN, None, True, "balance", id="known poor"),
        pytest.param(Objection.AUTH, StopScope.RUN, None, True, "auth", id="poor, other refusal"),
        pytest.param(Objection.ADDRESS, StopScope.RUN, "answered", False, "outage", id="between"),
        pytest.param(
            *(Objection.ADDRESS, StopScope.RUN, "proved_before", False, "outage"), id="since then"
        ),
    ],
)
def test_a_refusal_reaches_as_far_as_its_response_rule_says(
    word: Objection, scope: StopScope, before: str | None, *, is_poor: bool, reason: str
) -> None:
    """A second customer confirms it, or a wallet that is known to be too low.

    An address that answered before is right: something stands between, for this check alone.
    """
    made = stops()
    if before:
        setattr(made, before, 1)
    agreed = [back(made, refusal(word, scope), each, is_poor=is_poor) for each in range(2)]
    assert agreed == [is_poor and word is Objection.BALANCE, True]
    whole_run = scope is StopScope.RUN and before is None
    assert (made.reason, made.checks) == ((reason, {}) if whole_run else (None, {"karma": reason}))
    assert any("what stands between" in each for each in made.notices) is (before is not None)


@pytest.mark.parametrize("answered", [0, 1])
def test_a_refusal_nobody_could_confirm_counts_where_nothing_was_answered(answered: int) -> None:
    """Else it is that lookup's failure, and a notice says so."""
    made = stops()
    made.answered = answered
    back(made, refusal(Objection.AUTH, StopScope.RUN))
    made.conclude()
    assert (made.reason == "auth") is (answered == 0)
    assert any("the only karma lookups" in each for each in made.notices) is (answered == 1)


# --- faults, unread and unreadable answers, long waits ---


def test_the_same_fault_spaces_the_next_calls() -> None:
    """After the second customer each further call waits twice as long; a good answer ends it."""
    made = stops()
    evidence = made.evidence("karma")
    waits = []
    for customer in range(4):
        back(made, lost(fault="500"), customer, at=100.0)
        waits.append(max(0.0, evidence.not_before - 100))
    assert waits == [0.0, 10.0, 20.0, 40.0]
    evidence.answered()
    assert evidence.not_before == 0.0
    back(made, lost(fault="500"), 9, at=200.0)
    assert evidence.not_before == 0.0


@pytest.mark.parametrize("stopped_by", ["here", "elsewhere", ""])
def test_unread_answers_are_an_outage_where_customers_agree(stopped_by: str) -> None:
    """Here, or in the process that stopped the check; not for one customer's odd answer."""
    made = stops()
    for customer in range(3 if stopped_by == "here" else 1):
        back(made, unreadable(), customer, now=7)
    back(made, unreadable(), 9, now=8, was_unread=True)
    if stopped_by == "elsewhere":
        made.obey({"karma": "outage"})
    assert made.unread_outages() == ([("karma", 7)] if stopped_by else [])


@pytest.mark.parametrize(("before", "charged"), [(0, 10), (9, 1)])
def test_charged_answers_that_cannot_be_read_count_over_runs(before: int, charged: int) -> None:
    """What earlier runs could not read counts; free ones do not; a record ends the row."""
    made = stops()
    evidence = made.evidence("karma")
    evidence.counted(Objection.UNREADABLE, before)
    back(made, unreadable(0))
    for _ in range(charged - 1):
        back(made, unreadable(NAIRA))
    assert not made.checks
    back(made, unreadable(NAIRA))
    assert made.checks == {"karma": "failures"}
    evidence.forget(Until.RECORD)
    assert evidence.number(Objection.UNREADABLE) == 0


def test_a_long_wait_needs_a_second_answer() -> None:
    """One answer's word is taken for five minutes, a second customer's for as long as it says."""
    made = stops()
    assert made.wait_asked("karma", b"a", 60) == 60
    assert made.wait_asked("karma", b"a", 3000) == 300
    assert made.wait_asked("karma", b"a", 3000) == 300
    assert made.wait_asked("karma", b"b", 3000) == 3000


# --- stopping and going on ---


def test_the_first_reason_stays_unless_someone_cancels_a_wait() -> None:
    """Later stops do not overwrite why the run stopped; a stop that may pass can be cancelled."""
    for first, kept in ((StopReason.BUDGET, "budget"), (StopReason.OUTAGE, "cancelled")):
        made = stops()
        made.stop(first)
        made.stop(StopReason.CANCELLED)
        assert made.reason == kept


def test_the_run_stops_where_no_check_is_left() -> None:
    """One check alone leaves the run going; the last one ends it, and a strange one nothing."""
    made = stops()
    made.obey({"selfie": "auth"})
    assert made.checks == {}
    made.stop_check("karma", "auth")
    assert made.reason is None
    assert made.may_send("ecosystem", 0, 0)
    assert not made.may_send("karma", 0, 0)
    made.stop_check("ecosystem", "quota")
    assert made.reason == "quota"


def test_what_may_pass_is_waited_for_in_words() -> None:
    """Outage, balance and quota may pass by themselves; a run that rests says what it waits for."""
    for reason in StopReason:
        made = stops()
        made.stop(reason)
        passing = TRANSIENT_STOPS.get(reason)
        assert made.transient_stops() == (frozenset({reason}) if passing else frozenset()), reason
        made.resting_since = 5
        assert made.waiting == (passing.waits_for if passing else "", 5), reason


def test_going_on_forgets_what_may_have_passed() -> None:
    """Stops that may pass, silence and refusals go; faults, which may be charged, stay."""
    made = stops()
    made.silence = Silence(after=1)
    back(made, refusal(Objection.BALANCE, StopScope.RUN))
    back(made, lost(fault="500"))
    made.stop_check("ecosystem", "auth")
    made.stop(StopReason.OUTAGE)
    made.go_on()
    assert (made.reason, made.checks) == (None, {"ecosystem": "auth"})
    assert made.resume_at(0) is None
    evidence = made.evidence("karma")
    assert evidence.number(Objection.BALANCE) == 0
    assert evidence.number(Objection.FAULT, "500") == 1


def test_an_outage_that_nothing_ended_is_one_again() -> None:
    """A run that went on and heard no answer since stops for the same outage."""
    made = stops()
    made.answered = 5
    made.stop(StopReason.OUTAGE)
    made.go_on()
    back(made, lost())
    made.conclude()
    assert made.reason == StopReason.OUTAGE


def test_one_call_shows_whether_an_outage_is_over() -> None:
    """Where it is lost the run stops again; an answer lets the others go on.

    A check that stays out does not stop those that are back: while a call of another check is to be
    answered, a lost one stops nothing.
    """
    made = stops()
    made.stop(StopReason.OUTAGE)
    made.go_on()
    assert made.probes_service
    back(made, CallOutcome(ChargeStatus.NOT_CHARGED, trouble=FailureReason.OVERLOAD, retry=True))
    made.progress["ecosystem"].in_flight = 1
    back(made, lost())
    assert made.reason is None
    made.progress["ecosystem"].in_flight = 0
    back(made, lost())
    assert made.reason == StopReason.OUTAGE
    made.go_on()
    back(made, CallOutcome(ChargeStatus.ANSWERED))
    assert not made.probes_service
    back(made, lost())
    assert made.reason is None


def test_a_quota_comes_back_with_its_day() -> None:
    """The check alone goes on; before the instant it stays stopped."""
    made = stops()
    made.quota_until["karma"] = 100
    made.stop_check("karma", StopReason.QUOTA)
    assert made.renew_quotas(99) == []
    assert made.renew_quotas(100) == ["karma"]
    assert made.checks == {}


def test_failures_count_from_enough_lookups_on() -> None:
    """A few failures at the beginning stop nothing, nor what probes lose in an outage.

    Spared lookups were not asked, so that they do not make the share smaller.
    """
    made = stops()
    made.tolerated_failure_pct = 5
    made.silence.opened_at = 0.0
    ended = {LookupStatus.SPARED: 1000, LookupStatus.FAILED: 11, LookupStatus.FREE: 189}
    for status in Counter(ended).elements():
        made.ended("karma", status, 0)
    assert made.reason is None
    made.silence.stop_probing()
    made.ended("karma", LookupStatus.FREE, 0)
    assert made.reason == StopReason.FAILURES


@pytest.mark.parametrize(
    ("stop", "ending"),
    [
        (None, ("completed", None)),
        (TEST_MODE, ("test_mode", None)),
        (ADDRESS, ("stopped", "outage")),
        (StopReason.BUDGET, ("stopped", "budget")),
    ],
)
def test_a_run_ends_as_it_stopped(stop: str | None, ending: tuple[str, str | None]) -> None:
    """A wrong address is an outage in the report; test mode is a state of its own."""
    made = stops()
    if stop is not None:
        made.stop(stop)
    assert made.ending() == ending


@pytest.mark.parametrize("word", [Objection.COST, Objection.AUTH])
def test_the_key_is_blamed_only_where_it_was_refused(word: Objection) -> None:
    """Costs that are not believed stop as `auth` too, with a notice of their own."""
    made = stops("karma")
    say(made, word, 2)
    assert made.reason == "auth"
    assert bool(made.refusals()) is (word is Objection.AUTH)


# --- a service that is silent ---


def test_a_silent_service_is_probed_at_intervals() -> None:
    """After some silence one probe goes at a time, until there is an answer."""
    silence = Silence(after=3, probe_every=10)
    for _ in range(3):
        assert silence.resume_at(0, 0) is None
        silence.record_no_response(0)
    assert silence.resume_at(0, 0) == 10
    assert silence.resume_at(10, 0) is None
    assert silence.resume_at(10, 1) is not None
    silence.record_no_response(11)
    assert silence.resume_at(11, 0) == 21
    silence.stop_probing()
    assert silence.resume_at(0, 0) is None


def test_a_silence_is_given_up_and_says_what_was_waited_for() -> None:
    """From its first instant on; an answer of another process ends it too."""
    made = stops()
    made.silence.give_up_after_s = 600
    back(made, lost(), at=50)
    made.silence.record_wait("ecosystem", "another process", at=60, now=0)
    assert made.may_send("karma", 0, 649)
    made.silence.clear_waits()
    assert made.may_send("karma", 0, 1000)
    back(made, lost(), at=1000)
    assert not made.may_send("karma", 0, 1600)
    assert made.reason == StopReason.OUTAGE
    assert made.notices[-1].endswith("waited for the service (cut)")
