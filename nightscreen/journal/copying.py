"""Backup and restore: a whole copy of a journal, made while runs go on.

A backup is a folder that works as a HOME except for its data key: an SQLite journal and the file
with the journal's id. Tables that only last for a run or a session are not in it. A person with
journal and key can read every answer and try out every BVN, so the key is left out, or sealed with
a passphrase. The backup of a PostgreSQL journal is an SQLite file too: it needs no server tools of
the right version, can be opened anywhere, and is restored by the code that wrote it.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import secrets
import shutil
import sqlite3
import sys
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import func, insert, select, text

from nightscreen.files.private_files import (
    make_private_folder,
    sync_folder,
    write_private,
    write_private_once,
)
from nightscreen.files.sealing import Sealer
from nightscreen.journal.database import Database
from nightscreen.journal.keyset import KEY_BYTES, KEY_FILE, encode_key, require_in_force
from nightscreen.journal.opening import (
    JOURNAL_FILE,
    MARKER,
    journal_of,
    journal_url,
    make_private_file,
)
from nightscreen.journal.schema import (
    PASSING_TABLES,
    VERSION,
    meta,
    metadata,
    read_meta,
    records,
    require_declared,
)
from nightscreen.schemas.clock import LAGOS, Clock, system_clock, to_instant
from nightscreen.schemas.errors import (
    JournalDamagedError,
    JournalError,
    JournalKeyError,
    OutputError,
    SettingsError,
    UsageError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection, Table

    from nightscreen.config.settings import Settings
    from nightscreen.journal.storage import Storage

SEALED_KEY_FILE = "data.key.sealed"
LEAST_PASSPHRASE = 12
_COST = {"n": 2**17, "r": 8, "p": 1, "maxmem": 2**28}
"""Parameters of scrypt: 128 MB and about half a second per guess."""
_SEALED_AS = b"scrypt-131072-8-1"
_SALT_BYTES = 16  # 128 bits, as NIST SP 800-132 asks
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_BLOCK = 1000  # rows read and written at once: bounds memory, however long a table is
_BLOCK_OF_RECORDS = 50  # a record may have an attachment of some megabytes


def back_up(journal: Storage, folder: Path, *, passphrase: str = "") -> None:
    """Copy a journal into a new folder, whole or not at all; folder 0700, files 0600.

    A passphrase seals a copy of the data key beside it.

    Raises:
        UsageError: the passphrase is too short.
        OutputError: the folder is not empty, or cannot be written.
        JournalError: the journal cannot be read, or its key was rotated since it was opened.
    """
    if passphrase:
        require_in_force(journal)
    with _appearing_folder(folder) as partial:
        file = partial / JOURNAL_FILE
        make_private_file(file)
        _copy_out(journal.database, file)
        (partial / f"{JOURNAL_FILE}-wal").unlink(missing_ok=True)
        (partial / f"{JOURNAL_FILE}-shm").unlink(missing_ok=True)
        if passphrase:
            write_private(partial / SEALED_KEY_FILE, seal_key(journal.lender_key, passphrase))
        write_private(partial / MARKER, f'{{"journal_id": "{journal.journal_id}"}}'.encode())


def back_up_dated(
    settings: Settings,
    folder: str,
    *,
    keep: int,
    passphrase_file: str = "",
    clock: Clock = system_clock,
) -> dict[str, Any]:
    """Copy the journal into `folder/DAY`, by Lagos's calendar, and remove the oldest copies.

    Copies are removed only after the new one is complete; other files and folders are not touched.

    Raises:
        SettingsError: the passphrase cannot be read.
        OutputError: there is a copy of today, or the folder cannot be written.
        JournalError: the journal cannot be read.
    """
    passphrase = read_passphrase(Path(passphrase_file) if passphrase_file else None)
    place = make_private_folder(Path(folder), ours=False)
    day = f"{to_instant(clock()).astimezone(LAGOS):%Y-%m-%d}"
    with journal_of(settings, clock=clock) as journal:
        back_up(journal, place / day, passphrase=passphrase)
    copies = sorted(each for each in place.iterdir() if _DAY.fullmatch(each.name))
    for old in copies[:-keep]:
        shutil.rmtree(old)
    key = "sealed" if passphrase else "absent"
    return {"copy": day, "key": key, "removed": len(copies[:-keep])}


def _copy_out(database: Database, file: Path) -> None:
    """Copy a snapshot of a journal into an SQLite file; writers can continue meanwhile."""
    with (
        closing(Database(journal_url(file.parent))) as copy,
        database.snapshot() as source,
        copy.writing() as target,
    ):
        _copy_tables(source, target)
    with closing(sqlite3.connect(file)) as single:  # a copy is one file, with no log beside it
        single.execute("PRAGMA journal_mode=DELETE")


def restore(
    folder: Path, home: Path, *, url: str = "", configured: str = "", passphrase: str = ""
) -> None:
    """Restore a backup as the journal of a HOME, whole or not at all.

    Args:
        folder: a folder made by `back_up`.
        home: the HOME; gets the backup's key unless it has one, or one is configured.
        url: the database of the restored journal; by default SQLite under HOME.
        configured: the data key of the settings, if any.
        passphrase: opens the sealed key in the backup.

    Raises:
        JournalError: there is no backup there, it is of another version, or there is a journal
            already.
        JournalKeyError: there is no data key.
    """
    if not (folder / JOURNAL_FILE).exists():
        raise JournalError(f"{folder} is no backup of a journal: it has no {JOURNAL_FILE}")
    with (
        closing(Database(journal_url(folder))) as source,
        closing(Database(url or journal_url(home))) as target,
    ):
        source.require_sound_file()
        with source.reading() as old:
            require_declared(read_meta(old, VERSION))
        make_private_folder(home)
        has_key = bool(configured) or os.path.lexists(home / KEY_FILE)
        key = b"" if has_key else _key_of(folder, home, passphrase)
        if target.file is not None:
            make_private_file(target.file)
        with source.reading() as old, target.writing() as new:
            _copy_tables(old, new)
            if key:
                write_private_once(home / KEY_FILE, encode_key(key))


def _key_of(folder: Path, home: Path, passphrase: str) -> bytes:
    """Return the data key that is sealed in a backup."""
    sealed = folder / SEALED_KEY_FILE
    if not sealed.exists():
        raise JournalKeyError(
            f"the backup holds no data key: put yours back as {home / KEY_FILE} or set "
            "NIGHTSCREEN_DATA_KEY, then restore again"
        )
    if not passphrase:
        raise JournalKeyError(
            "the backup's data key is sealed to a passphrase: name a file that holds it with "
            "--passphrase-file"
        )
    return unseal_key(sealed.read_bytes(), passphrase)


def _copy_tables(source: Connection, target: Connection) -> None:
    """Create the tables and copy every row in the order of its key."""
    metadata.create_all(target)
    if target.execute(select(meta.c.name)).first() is not None:
        raise JournalError(
            "there is a journal already where the backup should go; nothing was changed: move it "
            "away first, or set NIGHTSCREEN_HOME or NIGHTSCREEN_JOURNAL_URL to another place"
        )
    for table in metadata.sorted_tables:
        if table in PASSING_TABLES:
            continue
        query = select(table).order_by(*table.primary_key.columns)
        size = _BLOCK_OF_RECORDS if table is records else _BLOCK
        result = source.execute(query, execution_options={"yield_per": size})
        for rows in result.mappings().partitions(size):
            target.execute(insert(table), [dict(row) for row in rows])
    if target.dialect.name == "postgresql":
        for table in metadata.sorted_tables:
            _count_on(target, table)


def _count_on(target: Connection, table: Table) -> None:
    """Set a table's sequence to the highest copied number."""
    number = table.autoincrement_column
    last = target.execute(select(func.max(number))).scalar() if number is not None else None
    if number is not None and last:
        counter = text("SELECT setval(pg_get_serial_sequence(:table, :column), :last)")
        given = {"table": table.name, "column": number.name, "last": last}
        target.execute(counter, given)


@contextmanager
def _appearing_folder(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder that becomes `folder` on a clean exit."""
    partial = folder.absolute().with_name(f".{folder.name}.{secrets.token_hex(4)}.part")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise OutputError(f"{folder} holds something already; name a new folder for the backup")
    try:
        yield make_private_folder(partial)
        for file in partial.iterdir():
            with file.open("rb") as handle:
                os.fsync(handle.fileno())
        partial.rename(folder.absolute())
        sync_folder(folder.absolute().parent)
    except OSError as error:
        raise OutputError(f"cannot write the backup {folder}: {error.strerror or error}") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)


# --- the data key, sealed to a passphrase ---


def seal_key(key: bytes, passphrase: str) -> bytes:
    """Return the content of a file with a key sealed to a passphrase.

    Raises:
        UsageError: the passphrase is too short.
    """
    if len(passphrase) < LEAST_PASSPHRASE:
        raise UsageError(f"the passphrase has under {LEAST_PASSPHRASE} characters; take a longer")
    salt = secrets.token_bytes(_SALT_BYTES)
    sealed = Sealer(_stretched(passphrase, salt)).seal(key, _SEALED_AS)
    return _SEALED_AS + b" " + base64.b64encode(salt + sealed) + b"\n"


def unseal_key(line: bytes, passphrase: str) -> bytes:
    """Return the key that `seal_key` sealed.

    Raises:
        JournalKeyError: the passphrase is wrong, or the line is damaged.
    """
    try:
        form, text = line.split()
        salted = base64.b64decode(text, validate=True)
        sealer = Sealer(_stretched(passphrase, salted[:_SALT_BYTES]))
        return sealer.open(salted[_SALT_BYTES:], form)
    except (ValueError, JournalDamagedError, JournalKeyError):
        raise JournalKeyError(
            "the passphrase does not open the backup's key, or the file was changed; give the one "
            "the backup was made with"
        ) from None


def read_passphrase(file: Path | None) -> str:
    """Return the first line of a file, or of standard input for `-`; empty for None.

    Raises:
        SettingsError: the file cannot be read, or its first line is empty.
    """
    if file is None:
        return ""
    try:
        text = sys.stdin.readline() if str(file) == "-" else file.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        raise SettingsError(f"the passphrase's file {file} cannot be read as text") from None
    line = text.partition("\n")[0]
    if not line.strip():
        raise SettingsError(f"the first line of the passphrase's file {file} is empty")
    return line.rstrip("\r\n")


def _stretched(passphrase: str, salt: bytes) -> bytes:
    return hashlib.scrypt(passphrase.encode(), salt=salt, dklen=KEY_BYTES, **_COST)
