"""Open a journal: an existing one is recognised by its key, another HOME's journal is refused.

Opening read-only takes no lock and changes nothing, for diagnosis. `Journal` combines the parts of
the journal, each from its own module.
"""

from __future__ import annotations

import json
import os
import secrets
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NoReturn

from sqlalchemy import URL, inspect

from nightscreen.files.private_files import make_private_folder, write_private
from nightscreen.files.sealing import Pseudonyms, Sealer
from nightscreen.journal.answers import Answers
from nightscreen.journal.calls import Calls
from nightscreen.journal.database import BUSY_TIMEOUT_S, Database
from nightscreen.journal.holders import AdvisoryHolders, FileHolders, Holders, pid_of
from nightscreen.journal.keyset import (
    LENDER_KEY,
    PSEUDONYM_KEY,
    configured_key,
    first_keys,
    lender_key_of,
    make_key,
    make_sealer,
    retire_old_key,
)
from nightscreen.journal.lookups import Askers, Lookups
from nightscreen.journal.money import Money
from nightscreen.journal.runs import Runs
from nightscreen.journal.schema import (
    VERSION,
    declared_version,
    meta,
    metadata,
    open_text,
    put_meta,
    read_meta,
    require_declared,
)
from nightscreen.journal.storage import Storage
from nightscreen.schemas.clock import Clock, system_clock
from nightscreen.schemas.errors import JournalError, JournalKeyError, NightscreenError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from nightscreen.config.settings import Settings

JOURNAL_FILE = "journal.sqlite"
MARKER = "journal.json"
_ID = "journal_id"
PATIENCE_S = 3.0
"""How long read-only opening waits if another process has locked the journal."""


@dataclass(eq=False)
class Journal(Storage):
    """An open journal, with the parts that runs use."""

    def __post_init__(self) -> None:
        """Make the parts."""
        self.calls = Calls(self)
        self.answers = Answers(self)
        self.money = Money(self)
        self.runs = Runs(self)
        self.lookups = Lookups(self)
        self.askers = Askers(self)


def open_journal(
    home: Path,
    *,
    url: str = "",
    data_key: str = "",
    clock: Clock = system_clock,
    busy_timeout_s: float = BUSY_TIMEOUT_S,
) -> Journal:
    """Open the journal of a HOME, or create it if there never was one.

    Args:
        home: folder for state; made with mode 0700.
        url: SQLAlchemy URL; empty for SQLite under HOME.
        data_key: base64 key in the settings; empty for the one under HOME.
        clock: gives the current instant.
        busy_timeout_s: how long to wait if another process has locked the journal.

    Raises:
        JournalKeyError: the key is missing or is another journal's.
        JournalError: the journal is damaged, locked, of another version, or has vanished.
        SettingsError: the URL or the key cannot be read.
    """
    make_private_folder(home)
    database = Database(url or journal_url(home), busy_timeout_s=busy_timeout_s)
    with ExitStack() as undone:
        undone.callback(database.close)
        remembered = _remembered(home)
        _private_from_birth(database, home)
        facts = _facts_of(database, home)
        if facts is None:
            _create(database, home, data_key)
            facts = _facts_of(database, home) or {}
        journal = _unlocked(database, home, data_key, clock, facts)
        undone.callback(journal.holders.release)
        _recognise(home, remembered, journal.journal_id)
        retire_old_key(database, journal.holders, journal.lender_key)
        undone.pop_all()
    return journal


def journal_of(
    settings: Settings,
    *,
    clock: Clock = system_clock,
    busy_timeout_s: float = BUSY_TIMEOUT_S,
) -> Journal:
    """Open the journal of the settings, like `open_journal`."""
    return open_journal(
        settings.home,
        url=settings.journal_url,
        data_key=settings.data_key.get_secret_value(),
        clock=clock,
        busy_timeout_s=busy_timeout_s,
    )


def open_read_only(settings: Settings, *, clock: Clock = system_clock) -> Journal | None:
    """Open the journal of the settings read-only; None if there never was one.

    Nothing is created, locked, recovered or put in doubt, so that it works on a full disk and
    during a run. It also works without the key: `key_trouble` then says why no sealed value opens.

    Raises:
        JournalError: it is damaged, locked, of another version, unreachable, or has vanished.
        SettingsError: its URL cannot be read.
    """
    home = settings.home
    database = Database(settings.journal_url or journal_url(home), busy_timeout_s=PATIENCE_S)
    with ExitStack() as undone:
        undone.callback(database.close)
        if database.file is not None and not database.file.exists():  # a connection would make it
            refuse_vanished(home)
            return None
        facts = _facts_of(database, home)
        if facts is None:
            return None
        data_key = settings.data_key.get_secret_value()
        found = _unlocked(database, home, data_key, clock, facts, looks_only=True)
        undone.pop_all()
    return found


def pids_at_work(settings: Settings) -> list[int]:
    """Return the processes of this machine that have an SQLite journal open."""
    folder = Database(settings.journal_url or journal_url(settings.home)).holders_folder
    living = [] if folder is None else FileHolders(folder, takes_lock=False).living()
    return sorted({pid for pid in map(pid_of, living) if pid is not None})


def _facts_of(database: Database, home: Path) -> dict[str, str] | None:
    """Return a journal's values of `meta`, by name; None if there never was a journal.

    Raises:
        JournalError: it is damaged, of another version, or has vanished.
    """
    database.require_sound_file()
    with database.reading() as connection:
        if not inspect(connection).has_table(meta.name):
            refuse_vanished(home)
            return None
        facts = read_meta(connection, VERSION, _ID, LENDER_KEY, PSEUDONYM_KEY)
    require_declared(facts)
    return facts


def _refuse(trouble: NightscreenError) -> NoReturn:
    raise trouble


class _NoPseudonyms(Pseudonyms):
    """The pseudonyms of a journal without its key: none can be made."""

    def _of(self, *_parts: str) -> bytes:
        raise JournalKeyError("without the journal's data key nobody has a pseudonym")


def _unlocked(
    database: Database,
    home: Path,
    data_key: str,
    clock: Clock,
    facts: Mapping[str, str],
    *,
    looks_only: bool = False,
) -> Journal:
    """Open a journal by its key and take this process's lock; read-only needs neither.

    Raises:
        JournalKeyError: the key is missing or is another journal's.
        SettingsError: the key cannot be read.
    """
    lender_key, trouble = b"", None
    pseudonyms: Pseudonyms = _NoPseudonyms(b"")
    try:
        lender_key = lender_key_of(database, configured_key(home, data_key), home)
        sealer = make_sealer(database, lender_key, home)
        pseudonyms = Pseudonyms(open_text(sealer, facts[PSEUDONYM_KEY], PSEUDONYM_KEY))
    except NightscreenError as error:
        if not looks_only:
            raise
        trouble = error
        sealer = Sealer(reread=partial(_refuse, error))
    holders = _make_holders(database, takes_lock=not looks_only)
    return Journal(
        database=database,
        home=home,
        journal_id=facts[_ID],
        lender_key=lender_key,
        sealer=sealer,
        pseudonyms=pseudonyms,
        holders=holders,
        clock=clock,
        key_trouble=trouble,
        fingerprint=facts[LENDER_KEY],
    )


def journal_url(home: Path) -> str:
    """Return the URL of the SQLite journal under a HOME."""
    return URL.create("sqlite", database=str((home / JOURNAL_FILE).absolute())).render_as_string()


def journal_exists(home: Path, url: str = "") -> bool:
    """Return whether there is a journal, without creating one."""
    file = Database(url or journal_url(home)).file
    return file is None or file.exists()


def _make_holders(database: Database, *, takes_lock: bool) -> Holders:
    """Take this process's lock among those of the journal, or only read the others."""
    folder = database.holders_folder
    if folder is not None:
        return FileHolders(folder, takes_lock=takes_lock)
    with database.translate_errors():
        return AdvisoryHolders(database, takes_lock=takes_lock)


def _private_from_birth(database: Database, home: Path) -> None:
    """Create the journal's file before SQLite does, so that other users can never read it.

    An existing file is not opened: closing it would drop the locks that another connection of this
    process holds on it.
    """
    file = database.file
    if file is None or file.exists():
        return
    refuse_vanished(home)
    if not file.parent.is_dir():
        raise JournalError(
            f"the journal's folder {file.parent} does not exist; make it or correct "
            "NIGHTSCREEN_JOURNAL_URL"
        )
    make_private_file(file)


def make_private_file(file: Path) -> None:
    """Create an empty file that only its owner can read; an existing file stays unchanged.

    Raises:
        JournalError: it cannot be made.
    """
    try:
        os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        return
    except OSError as error:
        raise JournalError(
            f"cannot make the journal {file}: {error.strerror}; mend that or correct "
            "NIGHTSCREEN_JOURNAL_URL"
        ) from None


def _remembered(home: Path) -> str | None:
    """Return the id of the journal in HOME's marker, or None."""
    marker = home / MARKER
    try:
        return str(json.loads(marker.read_text("utf-8"))[_ID])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError):
        raise JournalError(
            f"{marker} cannot be read, so that it is not known which journal belongs here; restore "
            "it from a backup, or remove it if the journal is the right one"
        ) from None


def refuse_vanished(home: Path) -> None:
    """Refuse a new journal if HOME's marker names one: all answers would be bought again.

    Raises:
        JournalError: there is a marker.
    """
    if (home / MARKER).exists():
        raise JournalError(
            f"{home / MARKER} remembers a journal that is not there any more; restore it from a "
            "backup, correct NIGHTSCREEN_JOURNAL_URL, or remove that file to begin a new journal "
            "(every answer would then be paid for again)"
        )


def _recognise(home: Path, remembered: str | None, journal_id: str) -> None:
    """Refuse a journal other than the one in HOME's marker; write the marker for the first.

    Raises:
        JournalError: it is another journal.
    """
    if remembered is None:
        marker = json.dumps({_ID: journal_id}).encode()
        write_private(home / MARKER, marker)
    elif remembered != journal_id:
        raise JournalError(
            f"{home / MARKER} remembers journal {remembered}, this one is {journal_id}: correct "
            "NIGHTSCREEN_JOURNAL_URL or NIGHTSCREEN_HOME, or remove that file to go on with this "
            "one (what only the other knows would be paid for again)"
        )


def _create(database: Database, home: Path, data_key: str) -> None:
    """Create the tables and the keys, unless another process has just done so."""
    with database.writing() as connection:
        if inspect(connection).has_table(meta.name):
            return
        metadata.create_all(connection)
        key = configured_key(home, data_key)
        key = key if key is not None else make_key(home)
        put_meta(connection, VERSION, declared_version())
        put_meta(connection, _ID, secrets.token_hex(8))
        first_keys(connection, key)
