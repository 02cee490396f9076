"""The chain of the desk's audit: each entry has a keyed digest of itself and the one before it.

A changed, removed or moved entry is noticed and named by its number. The chain has a commitment for
a customer, a salted digest of the pseudonym: erasure removes salt, pseudonym and sealed id and
leaves the commitment, so that the chain stays valid and nothing leads back to anybody.
`desk/audit.py` writes the content of entries.
"""

from __future__ import annotations

import hmac
import json
import secrets
import sqlite3
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from nightscreen.journal.desk_file import DESK_FILE
from nightscreen.schemas.errors import JournalBusyError, JournalDamagedError, JournalKeyError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from nightscreen.files.sealing import Pseudonyms, Sealer
    from nightscreen.journal.opening import Journal

AUDIT_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS audit (
  id INTEGER PRIMARY KEY, at INTEGER NOT NULL, user TEXT NOT NULL, action TEXT NOT NULL,
  run_id TEXT NOT NULL, customer BLOB, sealed BLOB, detail TEXT NOT NULL,
  salt BLOB, whose BLOB, before BLOB, mark BLOB);
CREATE INDEX IF NOT EXISTS audit_by_customer ON audit (customer);
"""
ENDS_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS audit_ends (
  first INTEGER NOT NULL, before BLOB NOT NULL, last INTEGER NOT NULL, mark BLOB NOT NULL,
  tag BLOB NOT NULL);
"""
CONTEXT: Final = b"desk audit"
_BATCH = "desk audit"
_SALT_BYTES = 16
_PATIENCE_S = 30
_NAMED = 20
"""This many findings are named, the rest counted."""


@dataclass(frozen=True, slots=True)
class _Ends:
    """From where to where the chain reaches.

    Attributes:
        first: number of the oldest entry that is kept.
        before: the mark of the one before that.
        last: number of the newest entry; 0 for none yet.
        mark: its mark.
        sound: whether this is as it was written.
    """

    first: int = 1
    before: bytes = b""
    last: int = 0
    mark: bytes = b""
    sound: bool = True


@dataclass(frozen=True, slots=True)
class AuditChain:
    """Writes entries into the chain, takes customers and old entries out of it, and verifies it.

    Each method works within the caller's transaction on the desk's file.
    """

    pseudonyms: Pseudonyms = field(repr=False)

    def customer(self, customer_id: str) -> bytes:
        """Return the pseudonym a customer has in the audit."""
        return self.pseudonyms.customer(_BATCH, customer_id)

    def _digest(self, kind: str, *parts: object) -> bytes:
        """Return a digest that nobody without the journal's key can make."""
        key = hmac.digest(self.pseudonyms.key, b"nightscreen desk audit", "sha256")
        plain = [part.hex() if isinstance(part, bytes) else part for part in parts]
        return hmac.digest(key, json.dumps([kind, *plain]).encode(), "sha256")

    def _mark(self, number: int, row: sqlite3.Row | dict[str, Any], before: bytes) -> bytes:
        fields = (row[name] for name in ("at", "user", "action", "run_id", "detail", "whose"))
        return self._digest("entry", number, *fields, before)

    def append(self, connection: sqlite3.Connection, entry: dict[str, Any]) -> None:
        """Write an entry at the chain's end; it has the columns that say something, by name."""
        ends = self._ends(connection)
        last = connection.execute("SELECT id, mark FROM audit ORDER BY id DESC LIMIT 1").fetchone()
        # what somebody else put there is left as it is, for `journal verify` to find
        number = max(ends.last, last["id"] if last else 0) + 1
        before = ends.mark if ends.sound or last is None else last["mark"] or b""
        row = {"id": number, **entry, "salt": None, "whose": b"", "before": before}
        if entry["customer"] is not None:
            row["salt"] = secrets.token_bytes(_SALT_BYTES)
            row["whose"] = self._digest("customer", row["salt"], entry["customer"])
        row["mark"] = self._mark(number, row, before)
        names = ", ".join(row)
        marks = ", ".join(f":{name}" for name in row)
        connection.execute(f"INSERT INTO audit ({names}) VALUES ({marks})", row)  # noqa: S608 - our own names
        if ends.sound:
            self._write_ends(connection, _Ends(ends.first, ends.before, number, row["mark"]))

    def erase(self, connection: sqlite3.Connection, customers: Iterable[bytes]) -> int:
        """Take customers out of their entries; who did what, and when, stays in the chain."""
        done = 0
        for customer in customers:
            rows = connection.execute(
                "SELECT id, mark FROM audit WHERE customer = ?", (customer,)
            ).fetchall()
            connection.executemany(
                "UPDATE audit SET customer = NULL, sealed = NULL, salt = ? WHERE id = ?",
                [(self._digest("erased", row["mark"]), row["id"]) for row in rows],
            )
            done += len(rows)
        return done

    def drop_before(self, connection: sqlite3.Connection, instant: int) -> int:
        """Remove the oldest entries, up to the first that is not older than an instant."""
        ends = self._ends(connection)
        number = connection.execute(OLDER, (instant,)).fetchone()[0]
        if not number:
            return 0
        last = connection.execute(
            "SELECT id, mark FROM audit ORDER BY id LIMIT 1 OFFSET ?", (number - 1,)
        ).fetchone()
        connection.execute("DELETE FROM audit WHERE id <= ?", (last["id"],))
        if ends.sound:
            kept = _Ends(last["id"] + 1, last["mark"], ends.last, ends.mark)
            self._write_ends(connection, kept)
        return int(number)

    def _ends(self, connection: sqlite3.Connection) -> _Ends:
        row = connection.execute("SELECT * FROM audit_ends").fetchone()
        if row is None:
            anything = connection.execute("SELECT 1 FROM audit LIMIT 1").fetchone()
            return _Ends(sound=anything is None)
        stored = (row["first"], row["before"], row["last"], row["mark"])
        return _Ends(*stored, sound=row["tag"] == self._digest("ends", *stored))

    def _write_ends(self, connection: sqlite3.Connection, ends: _Ends) -> None:
        said = (ends.first, ends.before, ends.last, ends.mark)
        connection.execute("DELETE FROM audit_ends")
        connection.execute(
            "INSERT INTO audit_ends VALUES (?, ?, ?, ?, ?)", (*said, self._digest("ends", *said))
        )

    def findings(self, connection: sqlite3.Connection, sealer: Sealer) -> list[str]:
        """Return a sentence for each entry that is not as it was written, or not there."""
        ends, found = self._ends(connection), []
        if not ends.sound:
            found.append("where the desk's audit begins and ends was changed or removed")
            ends = _Ends(first=0)
        expected, before = ends.first, ends.before if ends.first else None
        for row in connection.execute("SELECT * FROM audit ORDER BY id"):
            number = row["id"]
            own = row["mark"] == self._mark(number, row, row["before"])
            if expected and number > expected:
                found.append(_missing(expected, number - 1))
            elif own and before is not None and row["before"] != before:
                found.append(f"entry {number} of the desk's audit does not follow the one before")
            if not own:
                found.append(f"entry {number} of the desk's audit was changed or moved")
            elif not self._is_of_entry(row, sealer):
                found.append(f"entry {number} of the desk's audit: its customer was changed")
            expected, before = number + 1, row["mark"] if own else None
        if ends.sound and ends.first and ends.last >= expected:
            found.append(_missing(expected, ends.last))
        rest = len(found) - _NAMED
        return [
            *found[:_NAMED],
            *([f"{rest} more entries of the desk's audit"] if rest > 0 else []),
        ]

    def _is_of_entry(self, row: sqlite3.Row, sealer: Sealer) -> bool:
        """Return whether pseudonym and sealed id are those of the entry, or were erased by us."""
        customer, sealed, salt = row["customer"], row["sealed"], row["salt"]
        if customer is None:
            erased: bool = not row["whose"] or salt == self._digest("erased", row["mark"])
            return sealed is None and erased
        try:
            plain = sealer.open(sealed or b"", CONTEXT).decode()
        except (JournalDamagedError, JournalKeyError, UnicodeDecodeError, TypeError):
            return False
        committed: bool = row["whose"] == self._digest("customer", salt, customer)
        return committed and self.customer(plain) == customer


OLDER: Final = (
    "SELECT count(*) FROM audit WHERE id < coalesce((SELECT min(id) FROM audit WHERE at >= ?),"
    " 9223372036854775807)"
)
"""Counts what is older than an instant, up to the first entry that is not."""


def audit_before(home: Path, instant: int) -> int:
    """Return how many entries at the beginning of a desk's audit are older than an instant."""
    if not (home / DESK_FILE).exists():
        return 0
    with _opened(home) as connection:
        return int(connection.execute(OLDER, (instant,)).fetchone()[0])


def forget_audit(journal: Journal, instant: int) -> int:
    """Remove entries of a desk's audit that are older than an instant; return how many.

    Raises:
        JournalBusyError: the desk keeps its file in use.
    """
    if not audit_before(journal.home, instant):
        return 0
    with _opened(journal.home) as connection:
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute("BEGIN IMMEDIATE")
        number = AuditChain(journal.pseudonyms).drop_before(connection, instant)
        connection.execute("COMMIT")
        return number


@contextmanager
def _opened(home: Path) -> Iterator[sqlite3.Connection]:
    """Give the desk's file; what is not committed when an error ends the block is undone."""
    try:
        with closing(
            sqlite3.connect(home / DESK_FILE, timeout=_PATIENCE_S, isolation_level=None)
        ) as connection:
            connection.row_factory = sqlite3.Row
            yield connection
    except sqlite3.OperationalError:
        raise JournalBusyError("the desk's file is in use; purge again in a minute") from None


def _missing(first: int, last: int) -> str:
    if first == last:
        return f"entry {first} of the desk's audit is missing"
    return f"entries {first} to {last} of the desk's audit are missing"


def broken_audit(journal: Journal) -> list[str]:
    """Return a sentence for each thing that is wrong with the audit of a desk."""
    file = journal.home / DESK_FILE
    if not file.exists():
        return []
    try:
        with closing(
            sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)
        ) as connection:
            connection.row_factory = sqlite3.Row
            connection.execute("BEGIN")
            columns = {row["name"] for row in connection.execute("PRAGMA table_info(audit)")}
            if "mark" not in columns:
                return ["the marks of the desk's audit were removed"] if columns else []
            chain = AuditChain(journal.pseudonyms)
            return chain.findings(connection, journal.sealer)
    except sqlite3.Error as error:
        return [f"the desk's file cannot be read: {error}"]
