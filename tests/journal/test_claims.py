"""Claiming lookups: one transaction that takes the next in rank, as far as money and caps allow."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, create_engine, event, func, select, text

from nightscreen.journal import Journal
from nightscreen.journal.calls import STALE_MICROS, Claim, ClaimRequest
from nightscreen.journal.copying import back_up
from nightscreen.journal.database import Database, Turn
from nightscreen.journal.erasure import Erasures
from nightscreen.journal.keyset import encode_key
from nightscreen.journal.lookups import LookupRun, NewLookup
from nightscreen.journal.schema import PASSING_TABLES, ErasedPseudonyms, askers, calls, lookups
from nightscreen.schemas.calls import (
    CallState,
    Caps,
    LookupStatus,
    Reservation,
    ReservationStatus,
    ReserveRequest,
)
from nightscreen.schemas.clock import MICROS
from nightscreen.schemas.errors import InputError, JournalUnreachableError
from tests.begun import begin_run
from tests.journal.conftest import PRICE, Place, asks, by_name, ended, kinds, reserve, subject

SHARED = Caps(in_flight=(("karma", 4), ("bvn", 2)))
GRANTED, BUSY = ReservationStatus.GRANTED, ReservationStatus.BUSY
WAITING, CLAIMED = LookupStatus.WAITING, LookupStatus.CLAIMED
CHECKS = ("bank_account", "karma", "ecosystem")
WORST = {"bank_account": 10 * MICROS, "karma": 10 * MICROS, "ecosystem": 25 * MICROS}

Pair = tuple["ReserveRequest", Reservation]


def fill(
    journal: Journal,
    checks: Sequence[str],
    *,
    run: str = "run-1",
    ends_at: int | None = None,
    first: int = 1,
) -> LookupRun:
    """Write a lookup for each check named, in rank."""
    table = journal.lookups.begin(run, len(checks), {"checks": CHECKS})
    journal.lookups.fill(
        table,
        (
            NewLookup(
                *(check, "bvn", subject(first + place), WORST[check], "CNS", ends_at),
                *(WAITING.value, f"{place:011d}", None, place),
            )
            for place, check in enumerate(checks)
        ),
    )
    return table


def claim(
    journal: Journal,
    check: str,
    number: int,
    *,
    caps: Caps | None = None,
    run: str = "run-1",
    only: int | None = None,
    since: int = 1 << 60,
) -> Claim:
    wish = ClaimRequest(check, number=number, only=only)
    return journal.calls.claim(run, "portfolio", wish, caps or Caps(), since=since)


def taken(claimed: Claim, table: LookupRun) -> list[int]:
    return [each.lookup_id - table.first_id for each, _ in claimed.taken]


def states(journal: Journal, table: LookupRun) -> list[LookupStatus]:
    blocks = journal.lookups.in_states(table, set(LookupStatus))
    return [LookupStatus(row.state) for block in blocks for row in block]


def settle(
    journal: Journal,
    claimed: Claim,
    place: int = 0,
    state: CallState = CallState.ANSWERED,
    *,
    cost: int = PRICE,
    becomes: LookupStatus = LookupStatus.PAID,
    run: str = "run-1",
) -> None:
    """Settle one of the calls of a claim, with what becomes of its lookup."""
    each, grant = claimed.taken[place]
    (ask,) = asks(int.from_bytes(each.subject, "big"), check=each.check)
    outcome = ended((ask, grant), state, cost=cost)
    journal.calls.settle(run, [outcome], [(each.lookup_id, becomes, each.attempts + 1)])


# --- the table ---


def test_lookups_are_of_one_run_and_go_with_it(place: Place) -> None:
    """Each has its own numbers and clears its own.

    Whoever begins the next run removes those of killed runs, and leaves those of the living.
    """
    nightly, analyst, killed = place.open(), place.open(), place.open()
    mine = fill(nightly, ["karma"] * 3)
    theirs = fill(analyst, ["karma"] * 3, run="run-2", first=100)
    fill(killed, ["karma"] * 30, run="run-3", first=200)
    assert taken(claim(analyst, "karma", 9, run="run-2"), theirs) == [0, 1, 2]
    nightly.lookups.clear("run-1")
    assert states(nightly, mine) == []
    killed.close()
    nightly.lookups.sweep()
    assert states(analyst, theirs) == [CLAIMED] * 3
    found = [nightly.lookups.find(run) is None for run in ("run-1", "run-2", "run-3")]
    assert found == [True, False, True]
    with nightly.database.engine.connect() as connection:
        assert connection.execute(select(func.count()).select_from(lookups)).scalar_one() == 3


def test_a_backup_leaves_them_out(place: Place, tmp_path: Path) -> None:
    """What lasts no longer than its run is not restored with the rest."""
    journal = place.open()
    fill(journal, ["karma"] * 3)
    journal.lookups.stop("run-1", "karma", "auth")
    journal.askers.join("run-1", {"karma": 2})
    back_up(journal, tmp_path / "backup")
    copy = place.open(
        home=tmp_path / "backup", url="", data_key=encode_key(journal.lender_key).decode()
    )
    with copy.database.engine.connect() as connection:
        for table in PASSING_TABLES:
            assert connection.execute(select(func.count()).select_from(table)).scalar_one() == 0


# --- what ends a lookup without a call ---


def test_a_consent_that_has_ended_ends_its_lookup(journal: Journal) -> None:
    """No call is made for it, and no money set aside."""
    table = fill(journal, ["ecosystem"] * 2, ends_at=journal.clock())
    claimed = claim(journal, "ecosystem", 2)
    assert claimed.taken == []
    assert [each.state for each in claimed.ended] == [LookupStatus.LAPSED] * 2
    assert states(journal, table) == [LookupStatus.LAPSED] * 2
    assert journal.money.of_run("run-1").calls == 0


def test_an_answer_newer_than_the_plan_is_used_and_a_call_of_another_is_waited_for(
    place: Place,
) -> None:
    """One that could not be read ends it as such."""
    nightly, analyst = place.open(), place.open()
    since = nightly.answers.position()
    table = fill(nightly, ["karma"] * 4)
    pairs = reserve(analyst, 1, 2, 3, run="run-2")
    analyst.calls.settle("run-2", [ended(pairs[0]), ended(pairs[1], CallState.UNREADABLE)])
    claimed = claim(nightly, "karma", 4, since=since)
    assert [each.state for each in claimed.ended] == [LookupStatus.REUSED, LookupStatus.UNREADABLE]
    assert [grant.kind for _, grant in claimed.taken] == [ReservationStatus.HELD, GRANTED]
    assert taken(claimed, table) == [2, 3]
    after = reserve(nightly, 1, run="run-3", since=nightly.answers.position())
    assert kinds(after) == [GRANTED], "what was there before a plan was judged old by it"


def test_a_stopped_check_is_claimed_no_more_and_keeps_no_money_from_others(
    journal: Journal,
) -> None:
    """Every process hears why with its next claim; what comes after it in rank is asked."""
    table = fill(journal, ["ecosystem", "karma"])
    caps = Caps(run_micro=15 * MICROS)
    assert claim(journal, "karma", 1, caps=caps).taken == []
    journal.lookups.stop("run-1", "ecosystem", "auth")
    journal.lookups.stop("run-1", "ecosystem", "outage")
    claimed = claim(journal, "ecosystem", 1)
    assert (claimed.taken, claimed.stops) == ([], {"ecosystem": "auth"})
    wish = ClaimRequest("karma", number=1, stopped=frozenset({"ecosystem"}))
    found = journal.calls.claim("run-1", "portfolio", wish, caps, since=1 << 60)
    assert taken(found, table) == [1]


# --- processes that die ---


def test_an_outcome_that_comes_late_ends_no_lookup_of_another(place: Place) -> None:
    """It was paid for and is kept; who has the lookup by now goes on with it."""
    slow, other = place.open(), place.open()
    table = fill(other, ["karma"])
    claimed = claim(slow, "karma", 1)
    with other.database.engine.begin() as connection:
        connection.execute(lookups.update().values(holder=other.holders.name))
    settle(slow, claimed)
    assert states(other, table) == [CLAIMED]
    assert other.answers.latest("karma", [subject(1)])


def test_what_a_process_gives_back_begins_anew(journal: Journal) -> None:
    """A run that waits out an outage asks it with fresh attempts."""
    table = fill(journal, ["karma"] * 2)
    claimed = claim(journal, "karma", 2)
    settle(journal, claimed, 0, CallState.NOT_CHARGED, becomes=CLAIMED)
    journal.lookups.release_claims(table)
    assert states(journal, table) == [WAITING] * 2
    assert [each.attempts for each, _ in claim(journal, "karma", 2).taken] == [0, 0]


# --- money ---


def test_the_money_of_the_last_lookup_is_kept_for_it(journal: Journal) -> None:
    """Nothing else is claimed with it, also not by name; by its number it is claimed alone."""
    table = fill(journal, ["karma", "ecosystem", "karma"])
    journal.lookups.set_closing_lookup(table, table.first_id + 1)
    caps = Caps(run_micro=60 * MICROS)
    karma = claim(journal, "karma", 1, caps=caps)
    assert taken(karma, table) == [0]
    again = by_name(journal, "run-1", asks(7, 8), caps)
    assert [each.kind for each in again] == [GRANTED, ReservationStatus.UNAFFORDABLE]
    assert claim(journal, "karma", 1, caps=caps).taken == []
    assert claim(journal, "ecosystem", 9, caps=caps).taken == []
    settle(journal, karma, cost=10 * MICROS)
    assert taken(claim(journal, "ecosystem", 1, caps=caps, only=table.first_id + 1), table) == [1]


def test_an_erasure_waits_for_a_run_and_its_workers(place: Place) -> None:
    """A worker may ask about the person until it notices that the run has ended.

    The lookups of a run that was killed go with the person.
    """
    nightly, worker, officer = place.open(), place.open(), place.open()
    begin_run(nightly, "run-1")
    fill(nightly, ["karma"])
    person = ErasedPseudonyms(subjects=(subject(1),))
    with pytest.raises(InputError, match="under way"):
        Erasures(officer).erase(person)
    worker.askers.join("run-1", {"karma": 4})
    settle(worker, claim(worker, "karma", 1), state=CallState.NOT_SENT, cost=0, becomes=CLAIMED)
    nightly.close()
    with pytest.raises(InputError, match="under way"):
        Erasures(officer).erase(person)
    worker.askers.leave("run-1", forget=False)
    Erasures(officer).erase(person)
    assert officer.lookups.find("run-1") is None


# --- a model, and random histories ---


class Model:
    """What the claim is to do, said as plainly as possible; money in micro-naira."""

    def __init__(self, checks: list[str], cap: int, closer: int | None) -> None:
        self.checks, self.cap, self.closer = checks, cap, closer
        self.states = [WAITING] * len(checks)
        self.holders: list[int | None] = [None] * len(checks)
        self.attempts = [0] * len(checks)
        self.under_way: set[int] = set()
        self.spent = self.doubts = 0

    def worst(self, place: int) -> int:
        return WORST[self.checks[place]]

    def claim(self, who: int, check: str, number: int) -> list[int]:
        """Claim the next of a check, as far as the money reaches over all checks in rank."""
        kept = 0 if self.closer is None else self.worst(self.closer)
        claimed = [place for place, state in enumerate(self.states) if state is CLAIMED]
        money = self.cap - self.spent - self.doubts - kept - sum(map(self.worst, claimed))
        reached: list[int] = []
        for place, state in enumerate(self.states):
            if state is not WAITING or place == self.closer:
                continue
            money -= self.worst(place)
            if money < 0:
                break
            reached.append(place)
        wanted = [
            place
            for place, state in enumerate(self.states)
            if state is WAITING and place != self.closer and self.checks[place] == check
        ][:number]
        found = [place for place in wanted if place in reached]
        for place in found:
            self.states[place], self.holders[place] = CLAIMED, who
            self.under_way.add(place)
        return found

    def settle(self, place: int, *, cost: int | None, becomes: LookupStatus) -> None:
        """Settle a call; None is a cost that nobody knows."""
        self.under_way.discard(place)
        self.attempts[place] += 1
        if cost is None:
            self.doubts += self.worst(place)
        else:
            self.spent += cost
        self.states[place] = becomes

    def die(self, who: int) -> None:
        """Free what a process had claimed; its calls are in doubt."""
        for place, holder in enumerate(self.holders):
            if holder == who and self.states[place] is CLAIMED:
                if place in self.under_way:
                    self.settle(place, cost=None, becomes=WAITING)
                self.states[place] = WAITING


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 6))]
)
def test_random_histories_end_as_the_model_says(place: Place, seed: int) -> None:
    """Claims, outcomes of every kind, resends and deaths, by several processes, under a cap."""
    rng = random.Random(seed)
    checks = [rng.choice(CHECKS) for _ in range(40)]
    cap = rng.choice([120, 250, 400, 2000]) * MICROS
    caps = Caps(run_micro=cap, in_flight=tuple((check, 99) for check in CHECKS))
    processes = [place.open() for _ in range(3)]
    table = fill(processes[0], checks)
    model = Model(checks, cap, rng.choice([None, 20]))
    if model.closer is not None:
        processes[0].lookups.set_closing_lookup(table, table.first_id + model.closer)
    held: dict[int, tuple[int, Claim, int]] = {}
    for _ in range(120):
        who = rng.randrange(3)
        if rng.random() < 0.5:
            check, number = rng.choice(CHECKS), rng.randint(1, 4)
            claimed = claim(processes[who], check, number, caps=caps)
            found = model.claim(who, check, number)
            assert taken(claimed, table) == found
            before = [each.attempts for each, _ in claimed.taken]
            assert before == [model.attempts[number] for number in found]
            for at, (each, _) in enumerate(claimed.taken):
                held[each.lookup_id - table.first_id] = (who, claimed, at)
        elif held:
            number = rng.choice(sorted(held))
            owner, claimed, at = held.pop(number)
            kind = rng.choice(["paid", "free", "lost", "given back"])
            state, becomes, cost = {
                "paid": (CallState.ANSWERED, LookupStatus.PAID, rng.randrange(model.worst(number))),
                "free": (CallState.ANSWERED, LookupStatus.FREE, 0),
                "lost": (CallState.IN_DOUBT, LookupStatus.IN_DOUBT, None),
                "given back": (CallState.NOT_SENT, WAITING, 0),
            }[kind]
            settle(processes[owner], claimed, at, state, cost=cost or 0, becomes=becomes)
            model.settle(number, cost=cost, becomes=becomes)
        if rng.random() < 0.05:
            processes[who].close()
            processes[who] = place.open()
            model.die(who)
            held = {number: each for number, each in held.items() if each[0] != who}
            claim(processes[who], "karma", 0, caps=caps)  # looks for the dead
        spent = processes[who].money.of_run("run-1")
        assert (spent.spent_micro, spent.bound_micro <= cap) == (model.spent, True)
        assert states(processes[who], table) == model.states


# --- caps that processes share ---


def sharing(place: Place, caps: Caps = SHARED) -> Journal:
    journal = place.open()
    journal.askers.join(f"run-of-{journal.holders.name}", dict(caps.in_flight))
    return journal


def end(journal: Journal, pair: Pair) -> None:
    journal.calls.settle("run-1", [ended(pair)])


def test_each_that_shares_a_cap_has_an_equal_part(place: Place) -> None:
    """One alone has all of it; who comes gets its part as calls of the first settle."""
    nightly = sharing(place)
    under_way = reserve(nightly, 1, 2, 3, 4, 5, caps=SHARED)
    assert kinds(under_way) == [GRANTED] * 4 + [BUSY]
    analyst = sharing(place)
    ((_, refused),) = reserve(analyst, 11, caps=SHARED)
    assert refused.kind is BUSY
    for number, pair in enumerate(under_way[:2], 21):
        end(nightly, pair)
        assert kinds(reserve(nightly, number, caps=SHARED)) == [BUSY]
    assert kinds(reserve(analyst, 11, 12, 13, caps=SHARED)) == [GRANTED, GRANTED, BUSY]


def test_who_has_left_keeps_nothing_from_others(place: Place) -> None:
    """Neither who says so, nor who is dead."""
    nightly, analyst, victim = sharing(place), sharing(place), sharing(place)
    assert kinds(reserve(nightly, 1, 2, 3, caps=SHARED)) == [GRANTED, GRANTED, BUSY]
    analyst.askers.leave(f"run-of-{analyst.holders.name}", forget=False)
    victim.close()
    assert kinds(reserve(nightly, 3, 4, caps=SHARED)) == [GRANTED, GRANTED]
    with nightly.database.engine.connect() as connection:
        names = set(connection.execute(select(askers.c.holder)).scalars())
    assert names == {nightly.holders.name, analyst.holders.name}


def test_the_lowest_cap_of_those_who_share_counts(place: Place) -> None:
    """Each would keep room for the other by its own, and the lower one would get nothing."""
    most, least = Caps(in_flight=(("karma", 6),)), Caps(in_flight=(("karma", 2),))
    wide, narrow = sharing(place, most), sharing(place, least)
    assert kinds(reserve(wide, 1, 2, caps=most)) == [GRANTED, BUSY]
    assert kinds(reserve(narrow, 3, 4, caps=least)) == [GRANTED, BUSY]


def test_a_call_that_is_never_settled_holds_nobody_up_for_good(place: Place) -> None:
    """Its process lives, and lost its database for the moment in which it would have settled it."""
    living = sharing(place)
    assert kinds(reserve(living, 1, 2, 3, 4, caps=SHARED)) == [GRANTED] * 4
    other = sharing(place)
    assert kinds(reserve(other, 11, caps=SHARED)) == [BUSY]
    place.clock.now += STALE_MICROS
    assert kinds(reserve(other, 11, caps=SHARED)) == [GRANTED]


def test_operations_of_one_family_share_its_cap(place: Place) -> None:
    """Whatever operation a block is of; every other check has its own."""
    one = sharing(place)
    block = asks(1, check="bvn_start") + asks(2, 3, check="bvn_finish") + asks(4)
    found = by_name(one, "run-1", block, SHARED)
    assert [grant.kind for grant in found] == [GRANTED, GRANTED, BUSY, GRANTED]
    again = by_name(one, "run-1", asks(5, check="bvn_start"), SHARED)
    assert again[0].kind is BUSY


@pytest.mark.parametrize(("most", "rest"), [(None, [GRANTED] * 4 + [BUSY]), (0, None)])
def test_what_others_ask_for_or_were_answered_takes_no_slot_and_no_money(
    place: Place, most: int | None, rest: list[ReservationStatus] | None
) -> None:
    """A run that follows another over the same people gets all that is free for the rest."""
    analyst = place.open()
    first, _ = reserve(analyst, 8, 9)
    end(analyst, first)
    caps = Caps(run_micro=most, in_flight=SHARED.in_flight)
    found = by_name(sharing(place), "run-2", asks(8, 9, 1, 2, 3, 4, 5), caps, since=0)
    answered, held = ReservationStatus.ANSWERED, ReservationStatus.HELD
    rest = rest or [ReservationStatus.UNAFFORDABLE] * 5
    assert [grant.kind for grant in found] == [answered, held, *rest]


def test_no_interleaving_of_processes_passes_the_cap(place: Place) -> None:
    """Three processes ask, settle and ask again in any order, and one dies in the middle."""
    rng = random.Random(3)
    openings = [sharing(place) for _ in range(3)]
    under_way: list[list[Pair]] = [[], [], []]
    number = 1
    for at in range(60):
        who, wanted = rng.randrange(3), rng.randrange(6)
        if at == 30:
            openings[2].close()
            under_way[2] = []
        if at >= 30 and who == 2:
            continue
        if not wanted and under_way[who]:
            end(openings[who], under_way[who].pop())
        numbers = range(number, number := number + wanted)
        found = reserve(openings[who], *numbers, caps=SHARED)
        under_way[who] += [pair for pair in found if pair[1].kind is GRANTED]
        assert {*kinds(found)} <= {GRANTED, BUSY}
        assert sum(map(len, under_way)) <= 4
    with openings[0].database.engine.connect() as connection:
        doubted = select(func.count()).where(calls.c.state == CallState.IN_DOUBT.value)
        assert connection.execute(doubted).scalar_one() <= 4


# --- counters that all processes write, and databases that break off ---


def test_counters_are_written_last_and_in_one_order(journal: Journal) -> None:
    """Claims and outcomes lock them alike, so that no two wait for each other for good."""
    transactions: list[list[list[str]]] = []

    def note(_c: object, _d: object, sql: str, given: Any, *_: object) -> None:  # noqa: ANN401 - as the driver has it
        if "INTO spend" in sql:
            transactions[-1].append([row[0] for row in given])
        elif sql.startswith(("INSERT", "UPDATE")):
            transactions[-1].append([])

    event.listen(journal.database.engine, "begin", lambda _: transactions.append([]))
    event.listen(journal.database.engine, "before_cursor_execute", note)
    (pair,) = reserve(journal, 1)
    journal.calls.settle("run-1", [ended(pair)])
    claimed, settled = (each for each in transactions if any(each))
    assert [scope.partition(":")[0] for scope in claimed[-1]] == ["day", "day", "month", "run"]
    assert claimed[-1] == sorted(claimed[-1])
    assert settled[-1] == claimed[-1]


def interrupted(
    journal: Journal, number: int, *, settles: bool
) -> tuple[LookupRun, Callable[[], None]]:
    """Claim the first of three lookups; return them, and what settles it or claims the rest."""
    run = f"run-{number}"
    table = fill(journal, ["karma"] * 3, run=run, first=100 * number)
    claimed = claim(journal, "karma", 1, run=run)

    def go_on() -> None:
        """Write once, which counts once."""
        if settles:
            settle(journal, claimed, cost=7, run=run)
            assert journal.money.of_run(run).spent_micro == 7
        else:
            assert taken(claim(journal, "karma", 2, run=run), table) == [1, 2]
            assert journal.money.of_run(run).reserved_micro == 3 * WORST["karma"]

    return table, go_on


LOCKED_OUT = "count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND"
DEADLOCKS = "deadlocks FROM pg_stat_database WHERE"


def until(url: str, counted: str, least: int) -> None:
    """Wait until PostgreSQL counts so many of something in the database."""
    query = text(f"SELECT {counted} datname = current_database()")
    give_up_at = time.monotonic() + 30
    with create_engine(url, isolation_level="AUTOCOMMIT").connect() as connection:
        while (connection.execute(query).scalar() or 0) < least:
            assert time.monotonic() < give_up_at
            time.sleep(0.02)


@pytest.mark.postgres
def test_what_a_deadlock_ends_is_done_again(server_place: Place) -> None:
    """Somebody locks two counters the other way round: the claim, or the outcome, counts once."""
    journal = server_place.open()
    journal.database.give_up_s = 60
    lock = text("UPDATE spend SET calls = calls WHERE scope LIKE :scope")
    for number, settles in enumerate((False, True), start=1):
        _, go_on = interrupted(journal, number, settles=settles)
        with create_engine(server_place.url).connect() as other, ThreadPoolExecutor(1) as pool:
            other.execute(text("SET deadlock_timeout = '60s'"))  # it is ours that is ended
            other.execute(lock, {"scope": "month:%"})
            work = pool.submit(go_on)
            until(server_place.url, LOCKED_OUT, 1)
            other.execute(lock, {"scope": "day:%:karma"})
            other.commit()
            work.result(timeout=30)
            until(server_place.url, DEADLOCKS, number)


@contextmanager
def one_commit_unheard_of(
    monkeypatch: pytest.MonkeyPatch, before: Callable[[Connection], object] = lambda _: None
) -> Iterator[None]:
    """Let nobody hear whether one commit was carried out; something may happen before it."""
    recording, cut = Database.recording, list[bool]()

    @contextmanager
    def cuts(
        database: Database, turn: Turn | None = None, *, first: Callable[..., None] | None = None
    ) -> Iterator[Connection]:
        with recording(database, turn, first=first) as connection:
            yield connection
            if cut:
                return
            cut.append(True)
            before(connection)
        raise JournalUnreachableError("the commit was not heard of")

    with monkeypatch.context() as patch:
        patch.setattr(Database, "recording", cuts)
        yield
    assert cut


@pytest.mark.postgres
def test_what_a_lost_connection_left_unsure_counts_once(
    server_place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the commit was carried out, and not heard of, or was not."""
    journal = server_place.open()
    journal.database.give_up_s = 60

    def lose(connection: Connection) -> None:
        own = connection.execute(text("SELECT pg_backend_pid()")).scalar()
        with create_engine(server_place.url).connect() as other:
            other.execute(text("SELECT pg_terminate_backend(:pid, 5000)"), {"pid": own})

    for number, (settles, before) in enumerate(
        product((False, True), (lose, lambda _: None)), start=1
    ):
        table, go_on = interrupted(journal, number, settles=settles)
        with one_commit_unheard_of(monkeypatch, before):
            go_on()
        becomes = LookupStatus.PAID if settles else CLAIMED
        assert states(journal, table)[0] is becomes, (settles, before)


@pytest.mark.parametrize("kind", ["held", "answered", "lapsed"])
def test_what_a_claim_took_without_a_call_counts_once(
    place: Place, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """A commit that was not heard of is recognised too if it granted nothing."""
    other, journal = place.open(), place.open()
    journal.database.give_up_s = 60
    if kind != "lapsed":
        (pair,) = reserve(other, 1, run="run-2")
        if kind == "answered":
            other.calls.settle("run-2", [ended(pair)])
    fill(journal, ["karma"], ends_at=1 if kind == "lapsed" else None)
    with one_commit_unheard_of(monkeypatch):
        claimed = claim(journal, "karma", 1, since=0)
    assert (len(claimed.taken), len(claimed.ended)) == ((1, 0) if kind == "held" else (0, 1))
