"""Looking into a journal without a lock, a key or a change: for whoever asks what is wrong with it.

Nothing is made or put in doubt here, so that it works on a full disk, with the
wrong key, and beside a run. Opening a journal for work is in `opening`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from sqlalchemy import BigInteger, func, select

from nightscreen.files.keys import configured_key
from nightscreen.journal.approvals import Approvals
from nightscreen.journal.engine import (
    holders_folder,
    look_first,
    make_engine,
    reading,
    sqlite_file,
)
from nightscreen.journal.holders import FileHolders
from nightscreen.journal.keyset import LENDER_KEY, lender_key_of, make_sealer
from nightscreen.journal.money import Money
from nightscreen.journal.opening import MARKER, has_tables, journal_url, make_holders
from nightscreen.journal.records import Records
from nightscreen.journal.runs import Runs
from nightscreen.journal.schema import calls, read_meta, records, require_declared
from nightscreen.schemas.approvals import Approval
from nightscreen.schemas.calls import CallState
from nightscreen.schemas.clock import Clock, system_clock
from nightscreen.schemas.errors import JournalError, NightscreenError
from nightscreen.schemas.records import RecordKind
from nightscreen.schemas.wallet import OPEN, WalletGap

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy import Engine

    from nightscreen.files.sealing import Sealer
    from nightscreen.journal.holders import Holders

PATIENCE_S = 3.0
"""How long a look waits where another process has the journal locked."""


def pids_at_work(home: Path, url: str) -> list[int]:
    """Return the processes of this machine that have an SQLite journal open."""
    folder = holders_folder(make_engine(url or journal_url(home)))
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
        key_trouble: why its answers cannot be read, None where the key fits.
        fingerprint: of the lender's key that opens it.
    """

    engine: Engine = field(repr=False)
    holders: Holders = field(repr=False)
    runs: Runs = field(repr=False)
    money: Money = field(repr=False)
    key_trouble: NightscreenError | None
    fingerprint: str
    _sealer: Sealer | None = field(repr=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.engine.dispose()

    def approval_of(self, run_id: str) -> Approval | None:
        """Return a run's newest request for approval; None where it has none, or without a key."""
        if self._sealer is None:
            return None
        kept = Records(Approval, self.engine, self._sealer)
        return Approvals(self.engine, kept, system_clock).newest(run_id)

    def runs_with_open_gaps(self) -> list[str]:
        """Return the runs before which money is missing without a reason, oldest first."""
        query = (
            select(records.c.run_id)
            .where(records.c.kind == WalletGap.kind.value, records.c.state == OPEN)
            .order_by(records.c.record_id)
        )
        with reading(self.engine) as connection:
            return list(connection.execute(query).scalars())

    def pulse(self, run_id: str, *, alive: bool) -> RunActivity:
        """Return what became of a run's calls so far.

        Args:
            run_id: the run.
            alive: a process works on it, so that an intent is in flight, not in doubt.
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
        found = select(records.c.key).where(records.c.kind == RecordKind.USER.value).limit(1)
        return connection.execute(found).first() is not None


def look_into(
    home: Path,
    *,
    url: str = "",
    data_key: str = "",
    clock: Clock = system_clock,
    patience_s: float = PATIENCE_S,
) -> Look | None:
    """Look into the journal of a HOME; None where there never was one.

    Raises:
        JournalError: it is damaged, locked, of another version, unreachable, or has vanished.
        SettingsError: its URL cannot be read.
    """
    engine = make_engine(url or journal_url(home), busy_timeout_s=patience_s)
    try:
        if not _is_there(engine, home):
            engine.dispose()
            return None
        with reading(engine) as connection:
            facts = read_meta(connection)
        require_declared(facts)
        trouble: NightscreenError | None = None
        sealer = None
        try:
            lender = lender_key_of(engine, configured_key(home, data_key), home)
            sealer = make_sealer(engine, lender, home)
        except NightscreenError as error:
            trouble = error
        holders = make_holders(engine, takes_lock=False)
        return Look(
            engine,
            holders,
            Runs(engine, holders, clock),
            Money(engine, clock),
            trouble,
            facts.get(LENDER_KEY, ""),
            sealer,
        )
    except BaseException:
        engine.dispose()
        raise


def _is_there(engine: Engine, home: Path) -> bool:
    """Return whether there is a journal; one that HOME remembers and that is gone is an error."""
    file = sqlite_file(engine)
    found = file is None or file.exists()
    if found:
        look_first(engine)
        found = has_tables(engine)
    if not found and (home / MARKER).exists():
        raise JournalError(
            f"{home / MARKER} remembers a journal that is not there any more; restore it from a "
            "backup, or correct NIGHTSCREEN_JOURNAL_URL"
        )
    return found
