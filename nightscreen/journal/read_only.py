"""Looking into a journal without a lock, a key or a change: for whoever asks what is wrong with it.

Nothing is made or put in doubt here, so that it works on a full disk, with the
wrong key, and beside a run. Opening a journal for work is in `opening`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from sqlalchemy import BigInteger, func, select

from nightscreen.journal.approvals import Approvals
from nightscreen.journal.audit import RUN_STOPPED
from nightscreen.journal.engine import (
    holders_folder,
    make_engine,
    reading,
    sqlite_file,
)
from nightscreen.journal.holders import FileHolders
from nightscreen.journal.keyset import LENDER_KEY
from nightscreen.journal.money import Money
from nightscreen.journal.opening import (
    facts_of,
    journal_url,
    make_holders,
    refuse_vanished,
    unlocked,
)
from nightscreen.journal.runs import Runs
from nightscreen.journal.schema import audit, calls, records
from nightscreen.schemas.calls import CallState
from nightscreen.schemas.clock import Clock, system_clock
from nightscreen.schemas.errors import NightscreenError
from nightscreen.schemas.stops import StopReason
from nightscreen.schemas.users import User
from nightscreen.schemas.wallet import OPEN, WalletGap

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from nightscreen.config.settings import Settings
    from nightscreen.journal.holders import Holders
    from nightscreen.journal.opening import Journal
    from nightscreen.journal.runs import RunRecord
    from nightscreen.schemas.approvals import Approval

PATIENCE_S = 3.0
"""How long a look waits where another process has the journal locked."""


def pids_at_work(settings: Settings) -> list[int]:
    """Return the processes of this machine that have an SQLite journal open."""
    folder = holders_folder(make_engine(settings.journal_url or journal_url(settings.home)))
    living = [] if folder is None else FileHolders(folder, takes_lock=False).living()
    return sorted({pid for pid in map(pid_of, living) if pid is not None})


def pid_of(holder: str) -> int | None:
    """Return the process that a lock's name tells of, None where it tells of none."""
    pid = holder.partition("-")[0]
    return int(pid) if pid.isdecimal() else None


@dataclass(frozen=True, slots=True)
class RunActivity:
    """What the journal knows of a run's calls; instants in microseconds, money in micro-naira.

    Attributes:
        last_answer_at: when the last answer arrived, None where none did.
        answered: answers by check.
        troubles: attempts without an answer, by check and kind.
        in_doubt: calls that may have been charged; `in_doubt_micro` is their worst cost.
    """

    last_answer_at: int | None
    answered: dict[str, int]
    troubles: dict[str, dict[str, int]]
    in_doubt: int
    in_doubt_micro: int


@dataclass(frozen=True, slots=True)
class Look:
    """A journal that is only read.

    Attributes:
        approvals: None without a key.
        key_trouble: why its answers cannot be read, None where the key fits.
        fingerprint: of the lender's key that opens it.
    """

    engine: Engine = field(repr=False)
    holders: Holders = field(repr=False)
    runs: Runs = field(repr=False)
    money: Money = field(repr=False)
    approvals: Approvals | None = field(repr=False)
    key_trouble: NightscreenError | None = None
    fingerprint: str = ""

    @classmethod
    def of(cls, journal: Journal) -> Look:
        """Look at a journal that is open; whoever opened it closes it."""
        parts = journal.engine, journal.holders, journal.runs, journal.money
        return cls(*parts, Approvals(journal))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.engine.dispose()

    def approval_of(self, run_id: str) -> Approval | None:
        """Return a run's newest request for approval; None where it has none, or without a key."""
        return None if self.approvals is None else self.approvals.newest(run_id)

    def stopped_by(self, run: RunRecord) -> str | None:
        """Return who stopped a run at the desk since it was last begun; None where nobody did."""
        if run.stop_reason != StopReason.CANCELLED:
            return None
        query = (
            select(audit.c.user)
            .where(audit.c.run_id == run.run_id, audit.c.action == RUN_STOPPED)
            .where(audit.c.at >= run.begun_at)
            .order_by(audit.c.number.desc())
        )
        with reading(self.engine) as connection:
            return connection.execute(query.limit(1)).scalar()

    def runs_with_open_gaps(self) -> list[str]:
        """Return the runs before which money is missing without a reason, oldest first."""
        query = (
            select(records.c.run_id)
            .where(records.c.kind == WalletGap.kind, records.c.state == OPEN)
            .order_by(records.c.record_id)
        )
        with reading(self.engine) as connection:
            return list(connection.execute(query).scalars())

    def pulse(self, run_id: str, *, alive: bool) -> RunActivity:
        """Return what became of a run's calls so far.

        Where a process works on the run, an intent is in flight, not in doubt.
        """
        doubtful = {CallState.IN_DOUBT.value, *(() if alive else (CallState.INTENT.value,))}
        query = (
            select(
                calls.c.check,
                calls.c.state,
                calls.c.trouble,
                func.count(),
                func.sum(calls.c.reserved_micro).cast(BigInteger),
                func.max(calls.c.settled_at),
                calls.c.cost_micro.is_not(None).label("known"),
            )
            .where(calls.c.run_id == run_id)
            .group_by(calls.c.check, calls.c.state, calls.c.trouble, "known")
        )
        with reading(self.engine) as connection:
            rows = connection.execute(query).all()
        answered: dict[str, int] = {}
        troubles: dict[str, dict[str, int]] = {}
        last: int | None = None
        number = micro = 0
        for check, state, trouble, count, reserved, settled_at, known in rows:
            if state == CallState.ANSWERED.value:
                answered[check] = answered.get(check, 0) + count
                last = max(last or 0, settled_at)
            elif trouble:
                mine = troubles.setdefault(check, {})
                mine[trouble] = mine.get(trouble, 0) + count
            if state in doubtful and not known:
                number, micro = number + count, micro + int(reserved)
        return RunActivity(last, answered, troubles, number, micro)


def has_users(engine: Engine) -> bool:
    """Tell whether anybody was made a user of the desk."""
    with reading(engine) as connection:
        found = select(records.c.key).where(records.c.kind == User.kind).limit(1)
        return connection.execute(found).first() is not None


def look_into(settings: Settings, *, clock: Clock = system_clock) -> Look | None:
    """Look into the journal that settings name; None where there never was one.

    Raises:
        JournalError: it is damaged, locked, of another version, unreachable, or has vanished.
        SettingsError: its URL cannot be read.
    """
    url = settings.journal_url or journal_url(settings.home)
    engine, found = make_engine(url, busy_timeout_s=PATIENCE_S), None
    try:
        found = _look(engine, settings, clock)
    finally:
        if found is None:
            engine.dispose()
    return found


def _look(engine: Engine, settings: Settings, clock: Clock) -> Look | None:
    file = sqlite_file(engine)
    if file is not None and not file.exists():  # which a connection would make
        refuse_vanished(settings.home)
        return None
    facts = facts_of(engine, settings.home)
    if facts is None:
        return None
    holders = make_holders(engine, takes_lock=False)
    trouble, approvals = None, None
    data_key = settings.data_key.get_secret_value()
    try:
        opened = unlocked(engine, settings.home, data_key, clock, facts, takes_lock=False)
        approvals = Approvals(opened)
    except NightscreenError as error:
        trouble = error
    runs, money = Runs(engine, holders, clock), Money(engine, clock)
    return Look(engine, holders, runs, money, approvals, trouble, facts[LENDER_KEY])
