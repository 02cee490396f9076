"""The audit: who did or saw what and when, at the desk and by command, as a chain of digests.

An entry's mark is a keyed digest of the entry and of the previous mark; the beginning and end of
the chain are stored sealed. So verification names every entry that was changed, removed or moved,
even at the end. An entry has a customer's keyed pseudonym, to search by, and the sealed id, to show
to authorised people. The digest covers only whether there is a customer: an erasure removes the
pseudonym and replaces the id by a sealed empty text, which needs the journal's key.
"""

from __future__ import annotations

import getpass
import hmac
import json
import os
import unicodedata
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sqlalchemy import and_, delete, func, insert, or_, select, true, update

from nightscreen.journal.database import Turn
from nightscreen.journal.schema import AUDITED, audit, open_text, put_meta, read_meta, sealed_text
from nightscreen.journal.storage import Part
from nightscreen.schemas.clock import instant_text
from nightscreen.schemas.errors import JournalDamagedError, JournalKeyError
from nightscreen.schemas.stops import StopReason

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from sqlalchemy import ColumnElement, Connection, Row, RowMapping

    from nightscreen.journal.runs import RunRecord

ENDS: Final = "audit"
"""Name in `meta` of the sealed beginning and end of the chain."""
NEWEST: Final = 2**62
"""Higher than the number or instant of any entry."""
RUN_STOPPED, RUN_RESUMED = "run stopped", "run resumed"
"""Actions of entries about stopping and resuming a run at the desk."""
_BATCH = "desk audit"
_ACCOUNT = " (account "
_NAMED = 20
"""This many findings are named, the rest counted."""
_ENDS_CHANGED = "where the desk's audit begins and ends was changed or removed"


class _Ends(NamedTuple):
    """The beginning and end of the chain; marks are hexadecimal.

    Attributes:
        first: number of the oldest stored entry.
        before: the mark of the entry before it.
        last: number of the newest entry; 0 for none yet.
        mark: its mark.
    """

    first: int = 1
    before: str = ""
    last: int = 0
    mark: str = ""

    def text(self) -> bytes:
        return json.dumps(self).encode()


NO_ENTRIES: Final = _Ends().text()


class AuditQuery(NamedTuple):
    """A search for entries; empty and None fields match all.

    Attributes:
        action: the exact action.
        customer_id: the exact customer id.
        search: words in user, action, run or detail; or a customer id, or an entry's number.
        since: the first instant, in microseconds.
        until: the instant after the last one.
        by_customer: whether `search` may be a customer id.
    """

    action: str = ""
    customer_id: str = ""
    search: str = ""
    since: int | None = None
    until: int | None = None
    by_customer: bool = True


EVERY_ENTRY: Final = AuditQuery()


class Audit(Part):
    """Writes, reads and verifies the audit of a journal."""

    # --- writing ---

    def write(
        self, user: str, action: str, *, run_id: str = "", customer_id: str = "", **detail: object
    ) -> None:
        """Append an entry on what a user did or saw."""
        entry: dict[str, Any] = {
            "at": self._clock(),
            "user": user,
            "action": action,
            "run_id": run_id,
            "detail": json.dumps(detail, ensure_ascii=False, default=str),
        }
        if customer_id:
            entry["customer"] = self.customer(customer_id)
        with self._database.recording(Turn.DESK) as connection:
            ends = self._ends(connection)
            newest = select(audit.c.number, audit.c.mark).order_by(audit.c.number.desc()).limit(1)
            row = connection.execute(newest).first()
            number, before = (0, b"") if row is None else (row.number, bytes(row.mark))
            if ends is not None and ends.last >= number:
                # rows added after the chain's end by other means are left for `journal verify`
                number, before = ends.last, bytes.fromhex(ends.mark)
            entry["number"] = number = number + 1
            if customer_id:
                entry["sealed"] = self._sealed(number, customer_id)
            entry["mark"] = self._mark(entry, before)
            connection.execute(insert(audit), entry)
            if ends is not None:
                self._write_ends(connection, ends._replace(last=number, mark=entry["mark"].hex()))

    def write_by_command(
        self,
        action: str,
        *,
        run_id: str = "",
        customer_id: str = "",
        **detail: Any,  # noqa: ANN401 - as `write` takes it
    ) -> None:
        """Append an entry on what a command did or showed, with this machine's account."""
        about = {"run_id": run_id, "customer_id": customer_id}
        self.write(user_name(), action, **about, **detail, by_command=True)

    def customer(self, customer_id: str) -> bytes:
        """Return a customer's pseudonym in the audit."""
        return self.journal.pseudonyms.customer(_BATCH, customer_id)

    def forget(self, connection: Connection, customers: Collection[bytes]) -> None:
        """Remove erased customers from their entries; user, action and time stay."""
        theirs = audit.c.customer.in_(customers)
        for number in connection.execute(select(audit.c.number).where(theirs)).scalars():
            erased = {"customer": None, "sealed": self._sealed(number, "")}
            connection.execute(update(audit).where(audit.c.number == number).values(erased))

    def _sealed(self, number: int, customer_id: str) -> bytes:
        return self._sealer.seal(customer_id.encode(), AUDITED.context(number))

    def _opened(self, number: int, sealed: bytes) -> str:
        return self._sealer.open(bytes(sealed), AUDITED.context(number)).decode()

    def before(self, instant: int) -> int:
        """Return how many of the oldest entries are from before an instant."""
        with self._database.reading() as connection:
            older = _older(connection, instant)
            query = select(func.count()).where(audit.c.number <= older)
            return int(connection.execute(query).scalar_one())

    def drop_before(self, instant: int) -> int:
        """Delete the oldest entries from before an instant; return their number."""
        with self._database.writing() as connection:
            ends, older = self._ends(connection), _older(connection, instant)
            mark = connection.execute(select(audit.c.mark).where(audit.c.number == older)).scalar()
            if mark is None:
                return 0
            gone = connection.execute(delete(audit).where(audit.c.number <= older)).rowcount
            if ends is not None:
                kept = ends._replace(first=older + 1, before=bytes(mark).hex())
                self._write_ends(connection, kept)
            return gone

    # --- reading ---

    def find(
        self, asked: AuditQuery = EVERY_ENTRY, *, limit: int = 500, before: int = NEWEST
    ) -> list[dict[str, Any]]:
        """Return matching entries below a number, newest first."""
        query = select(audit).where(self._condition(asked), audit.c.number < before)
        query = query.order_by(audit.c.number.desc()).limit(limit)
        return [self._entry(row) for row in self._database.fetch(query)]

    def stopped_by(self, run: RunRecord) -> str | None:
        """Return who stopped a run at the desk since it last started, or None."""
        if run.stop_reason != StopReason.CANCELLED:
            return None
        return self.last_user(run.run_id, RUN_STOPPED, since=run.begun_at)

    def last_user(
        self, run_id: str, action: str, *, since: int = 0, until: int = NEWEST
    ) -> str | None:
        """Return the last user with an action on a run between two instants."""
        kept = audit.c
        about = (kept.run_id == run_id, kept.action == action, kept.at.between(since, until))
        newest = select(kept.user).where(*about).order_by(kept.number.desc()).limit(1)
        found: str | None = self._database.fetch_value(newest)
        return found

    def number_of(self, asked: AuditQuery) -> int:
        """Return the number of matching entries."""
        query = select(func.count()).select_from(audit).where(self._condition(asked))
        return int(self._database.fetch_value(query))

    def _entry(self, row: Row[Any]) -> dict[str, Any]:
        customer = "" if row.sealed is None else self._opened(row.number, row.sealed)
        is_erased = row.sealed is not None and not customer
        return {
            "number": row.number,
            "at": instant_text(row.at),
            "user": row.user,
            "action": row.action,
            "run_id": row.run_id,
            "customer_id": customer,
            "pseudonym": bytes(row.customer or b"").hex(),
            "detail": json.loads(row.detail) | ({"customer": "erased"} if is_erased else {}),
            "mark": bytes(row.mark).hex(),
        }

    def _condition(self, asked: AuditQuery) -> ColumnElement[bool]:
        kept, text = audit.c, asked.search.strip()
        found = [kept.action == asked.action] if asked.action else []
        if asked.customer_id:
            found.append(kept.customer == self.customer(asked.customer_id))
        if asked.since is not None:
            found.append(kept.at >= asked.since)
        if asked.until is not None:
            found.append(kept.at < asked.until)
        if text:
            number = int(text) if text.isdecimal() and len(text) < 16 else -1  # noqa: PLR2004 - no audit is longer
            pseudonym = self.customer(text) if asked.by_customer else b""
            line = kept.action + " " + kept.user + " " + kept.run_id + " " + kept.detail
            said = [line.icontains(word, autoescape=True) for word in text.split()]
            found.append(or_(kept.customer == pseudonym, kept.number == number, and_(*said)))
        return and_(true(), *found)

    # --- the chain ---

    def _mark(self, entry: Mapping[str, Any] | RowMapping, before: bytes) -> bytes:
        """Return the keyed digest of an entry and the previous mark."""
        key = hmac.digest(self.journal.pseudonyms.key, b"nightscreen desk audit", "sha256")
        names = ("number", "at", "user", "action", "run_id", "detail")
        told = [*(entry[name] for name in names), entry.get("sealed") is not None, before.hex()]
        return hmac.digest(key, json.dumps(told).encode(), "sha256")

    def _ends(self, connection: Connection) -> _Ends | None:
        """Return the beginning and end of the chain; None if they were changed or removed."""
        kept = read_meta(connection, ENDS).get(ENDS, "")
        try:
            return _Ends(*json.loads(open_text(self._sealer, kept, ENDS)))
        except (JournalDamagedError, JournalKeyError, ValueError):
            return None

    def _write_ends(self, connection: Connection, ends: _Ends) -> None:
        put_meta(connection, ENDS, sealed_text(self._sealer, ends.text(), ENDS))

    def findings(self, connection: Connection) -> list[str]:
        """Return a sentence for each entry that was changed or is missing."""
        ends = self._ends(connection)
        found = [] if ends is not None else [_ENDS_CHANGED]
        expected = 0 if ends is None else ends.first
        before = None if ends is None else bytes.fromhex(ends.before)
        rows = connection.execute(select(audit).order_by(audit.c.number)).mappings()
        for row in rows:
            if expected and row["number"] > expected:
                found.append(_missing(expected, row["number"] - 1))
                before = None  # the previous mark is unknown
            mark = bytes(row["mark"])
            if before is not None and mark != self._mark(row, before):
                found.append(f"entry {row['number']} of the desk's audit was changed or moved")
            elif not self._is_of_entry(row):
                found.append(f"entry {row['number']} of the desk's audit: its customer was changed")
            expected, before = row["number"] + 1, mark
        if ends is not None and ends.last >= expected:
            found.append(_missing(expected, ends.last))
        rest = len(found) - _NAMED
        return [*found[:_NAMED], *([f"{rest} more entries of the desk's audit"] * (rest > 0))]

    def _is_of_entry(self, row: RowMapping) -> bool:
        """Return whether pseudonym and sealed id match the entry, or were properly erased."""
        if row["sealed"] is None:
            return not row["customer"]
        try:
            plain = self._opened(row["number"], row["sealed"])
        except (JournalDamagedError, JournalKeyError, UnicodeDecodeError):
            return False
        return bytes(row["customer"] or b"") == (self.customer(plain) if plain else b"")


def _older(connection: Connection, instant: int) -> int:
    """Return the number of the last of the oldest entries from before an instant, or 0."""
    kept = audit.c
    younger = select(func.min(kept.number)).where(kept.at >= instant)
    first = connection.execute(younger).scalar()
    query = select(func.max(kept.number))
    found = connection.execute(query if first is None else query.where(kept.number < first))
    return int(found.scalar() or 0)


def _missing(first: int, last: int) -> str:
    if first == last:
        return f"entry {first} of the desk's audit is missing"
    return f"entries {first} to {last} of the desk's audit are missing"


# --- names of persons and machine accounts, in the audit and in records ---


def user_name() -> str:
    """Return the machine account that runs this process."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container whose user has no name
        return f"user {os.getuid()}"


def named_by_account(name: str) -> str:
    """Return a name for records of a command: the name given, with the machine's account."""
    name, account = " ".join(name.split()), user_name()
    return account if same_person(name, account) or not name else f"{name}{_ACCOUNT}{account})"


def same_person(one: str, other: str) -> bool:
    """Return whether two recorded names are of the same person, in any spelling.

    If only one of them has an account, this is compared with the other name too.
    """
    (name, account), (other_name, other_account) = _parts(one), _parts(other)
    if name == other_name:
        return True
    has_one_account = bool(account) != bool(other_account)
    return has_one_account and (account or other_account) == (other_name if account else name)


def _parts(recorded: str) -> tuple[str, str]:
    """Return the name and the account of a recorded name, normalised; the account may be empty."""
    text = " ".join(unicodedata.normalize("NFKC", recorded).casefold().split())
    name, between, account = text.rpartition(_ACCOUNT)
    return (name, account.removesuffix(")")) if between else (text, "")
