"""The audit: who did or saw what and when, at the desk and by command, as a chain of digests.

An entry's mark is a keyed digest of it and of the mark before it; where the chain begins and ends
is kept sealed. So an entry that was changed, removed or moved is named by its number, a cut tail
too. A customer stands in an entry by a keyed pseudonym, to be found by, and sealed, to be shown to
those who may. The chain has only that there is one: an erasure removes the pseudonym and seals
nothing in the place of the id, which nobody without the journal's key can do.
"""

from __future__ import annotations

import hmac
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sqlalchemy import and_, delete, func, insert, or_, select, true, update

from nightscreen.files.person import user_name
from nightscreen.journal.database import Turn
from nightscreen.journal.schema import AUDITED, audit, open_text, put_meta, read_meta, sealed_text
from nightscreen.schemas.clock import instant_text
from nightscreen.schemas.errors import JournalDamagedError, JournalKeyError
from nightscreen.schemas.stops import StopReason

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from sqlalchemy import ColumnElement, Connection, Row, RowMapping

    from nightscreen.journal.runs import RunRecord
    from nightscreen.journal.storage import Storage

ENDS: Final = "audit"
"""Name in `meta` of where the chain begins and ends, sealed."""
NEWEST: Final = 2**62
"""No entry has a number like that, or an instant."""
RUN_STOPPED, RUN_RESUMED = "run stopped", "run resumed"
"""What an entry says of who stopped a run at the desk, or resumed it there."""
_BATCH = "desk audit"
_NAMED = 20
"""This many findings are named, the rest counted."""
_ENDS_CHANGED = "where the desk's audit begins and ends was changed or removed"


class _Ends(NamedTuple):
    """From where to where the chain reaches; marks are hexadecimal.

    Attributes:
        first: number of the oldest entry that is kept.
        before: the mark of the one before that.
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
    """Which entries are asked for; what is empty or None does not narrow.

    Attributes:
        action: exactly.
        customer_id: exactly.
        search: words that stand in user, action, run or detail; or a customer id, or a number.
        since: the first instant, in microseconds.
        until: the instant after the last one.
        by_customer: a search finds a customer, too.
    """

    action: str = ""
    customer_id: str = ""
    search: str = ""
    since: int | None = None
    until: int | None = None
    by_customer: bool = True


EVERY_ENTRY: Final = AuditQuery()


@dataclass(frozen=True, slots=True)
class Audit:
    """Writes, reads and verifies the audit of a journal."""

    _journal: Storage = field(repr=False)

    # --- writing ---

    def write(
        self, user: str, action: str, *, run_id: str = "", customer_id: str = "", **detail: object
    ) -> None:
        """Write down what a user did or saw, at the chain's end."""
        entry: dict[str, Any] = {
            "at": self._journal.clock(),
            "user": user,
            "action": action,
            "run_id": run_id,
            "detail": json.dumps(detail, ensure_ascii=False, default=str),
        }
        if customer_id:
            entry["customer"] = self.customer(customer_id)
        with self._journal.database.recording(Turn.DESK) as connection:
            ends = self._ends(connection)
            newest = select(audit.c.number, audit.c.mark).order_by(audit.c.number.desc()).limit(1)
            row = connection.execute(newest).first()
            number, before = (0, b"") if row is None else (row.number, bytes(row.mark))
            if ends is not None and ends.last >= number:
                # what somebody else put behind the chain's end is left for `journal verify` to find
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
        """Write down what a command did or showed, under whose account on this machine it ran."""
        about = {"run_id": run_id, "customer_id": customer_id}
        self.write(user_name(), action, **about, **detail, by_command=True)

    def customer(self, customer_id: str) -> bytes:
        """Return the pseudonym a customer has in the audit."""
        return self._journal.pseudonyms.customer(_BATCH, customer_id)

    def forget(self, connection: Connection, customers: Collection[bytes]) -> None:
        """Take erased customers out of their entries; who did what, and when, stays."""
        theirs = audit.c.customer.in_(customers)
        for number in connection.execute(select(audit.c.number).where(theirs)).scalars():
            erased = {"customer": None, "sealed": self._sealed(number, "")}
            connection.execute(update(audit).where(audit.c.number == number).values(erased))

    def _sealed(self, number: int, customer_id: str) -> bytes:
        return self._journal.sealer.seal(customer_id.encode(), AUDITED.context(number))

    def _opened(self, number: int, sealed: bytes) -> str:
        return self._journal.sealer.open(bytes(sealed), AUDITED.context(number)).decode()

    def before(self, instant: int) -> int:
        """Return how many entries at the beginning are older than an instant."""
        with self._journal.database.reading() as connection:
            older = _older(connection, instant)
            query = select(func.count()).where(audit.c.number <= older)
            return int(connection.execute(query).scalar_one())

    def drop_before(self, instant: int) -> int:
        """Remove the oldest entries, up to the first that is not older than an instant."""
        with self._journal.database.writing() as connection:
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
        """Return the entries below a number that are asked for, newest first."""
        query = select(audit).where(self._condition(asked), audit.c.number < before)
        query = query.order_by(audit.c.number.desc()).limit(limit)
        return [self._entry(row) for row in self._journal.database.fetch(query)]

    def stopped_by(self, run: RunRecord) -> str | None:
        """Return who stopped a run at the desk since it was last begun; None where nobody did."""
        if run.stop_reason != StopReason.CANCELLED:
            return None
        return self.last_user(run.run_id, RUN_STOPPED, since=run.begun_at)

    def last_user(
        self, run_id: str, action: str, *, since: int = 0, until: int = NEWEST
    ) -> str | None:
        """Return who did something to a run last, from one instant to another."""
        kept = audit.c
        about = (kept.run_id == run_id, kept.action == action, kept.at.between(since, until))
        newest = select(kept.user).where(*about).order_by(kept.number.desc()).limit(1)
        found: str | None = self._journal.database.fetch_value(newest)
        return found

    def number_of(self, asked: AuditQuery) -> int:
        """Return how many entries are asked for."""
        query = select(func.count()).select_from(audit).where(self._condition(asked))
        return int(self._journal.database.fetch_value(query))

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
        """Return a digest of an entry and of those before it, which takes the journal's key."""
        key = hmac.digest(self._journal.pseudonyms.key, b"nightscreen desk audit", "sha256")
        names = ("number", "at", "user", "action", "run_id", "detail")
        told = [*(entry[name] for name in names), entry.get("sealed") is not None, before.hex()]
        return hmac.digest(key, json.dumps(told).encode(), "sha256")

    def _ends(self, connection: Connection) -> _Ends | None:
        """Return where the chain begins and ends; None where that was changed or removed."""
        kept = read_meta(connection, ENDS).get(ENDS, "")
        try:
            return _Ends(*json.loads(open_text(self._journal.sealer, kept, ENDS)))
        except (JournalDamagedError, JournalKeyError, ValueError):
            return None

    def _write_ends(self, connection: Connection, ends: _Ends) -> None:
        put_meta(connection, ENDS, sealed_text(self._journal.sealer, ends.text(), ENDS))

    def findings(self, connection: Connection) -> list[str]:
        """Return a sentence for each entry that is not as it was written, or not there."""
        ends = self._ends(connection)
        found = [] if ends is not None else [_ENDS_CHANGED]
        expected = 0 if ends is None else ends.first
        before = None if ends is None else bytes.fromhex(ends.before)
        rows = connection.execute(select(audit).order_by(audit.c.number)).mappings()
        for row in rows:
            if expected and row["number"] > expected:
                found.append(_missing(expected, row["number"] - 1))
                before = None  # which mark it follows is not known
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
        """Return whether pseudonym and sealed id are those of the entry, or were erased by us."""
        if row["sealed"] is None:
            return not row["customer"]
        try:
            plain = self._opened(row["number"], row["sealed"])
        except (JournalDamagedError, JournalKeyError, UnicodeDecodeError):
            return False
        return bytes(row["customer"] or b"") == (self.customer(plain) if plain else b"")


def _older(connection: Connection, instant: int) -> int:
    """Return the number of the last entry before the first that is not older than an instant."""
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
