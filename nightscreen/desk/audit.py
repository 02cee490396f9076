"""The audit: who did or saw what and when, in the desk's own file.

A customer stands in it by a keyed pseudonym, to be found by, and sealed, to be shown to those who
may. Entries are chained (`journal/audit_chain.py`) and never changed but for erasure, a new data
key and the end of their period.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from nightscreen.desk.accounts import Accounts
from nightscreen.desk.cases import Cases
from nightscreen.files.person import user_name
from nightscreen.journal.audit_chain import CONTEXT, AuditChain
from nightscreen.journal.desk_file import DESK_FILE
from nightscreen.schemas.clock import instant_text

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from nightscreen.journal import Journal


@dataclass(frozen=True, slots=True)
class AuditQuery:
    """Which entries are asked for; what is empty or None does not narrow.

    Attributes:
        user: exactly.
        action: exactly.
        run_id: exactly.
        customer_id: exactly.
        search: words that stand in user, action, run or detail; or a customer id, or a number.
        since: the first instant, in microseconds.
        until: the instant after the last one.
        by_customer: a search finds a customer, too.
    """

    user: str = ""
    action: str = ""
    run_id: str = ""
    customer_id: str = ""
    search: str = ""
    since: int | None = None
    until: int | None = None
    by_customer: bool = True


NEWEST: Final = 2**62
"""No entry has a number like that."""
_HAS = " OR ".join(f"{name} LIKE ? ESCAPE '\\'" for name in ("action", "user", "run_id", "detail"))


@dataclass(frozen=True, slots=True)
class Audit:
    """Writes and reads entries.

    Attributes:
        accounts: whose file it lies in.
        journal: whose keys chain entries and seal customers.
    """

    accounts: Accounts
    journal: Journal

    @property
    def _chain(self) -> AuditChain:
        return AuditChain(self.journal.pseudonyms)

    def write(
        self, user: str, action: str, *, run_id: str = "", customer_id: str = "", **detail: object
    ) -> None:
        """Write down what a user did or saw."""
        key = sealed = None
        if customer_id:
            key = self._chain.customer(customer_id)
            sealed = self.journal.sealer.seal(customer_id.encode(), CONTEXT)
        entry = {
            "at": self.accounts.clock(),
            "user": user,
            "action": action,
            "run_id": run_id,
            "customer": key,
            "sealed": sealed,
            "detail": json.dumps(detail, ensure_ascii=False, default=str),
        }
        with self.accounts.transaction() as connection:
            self._chain.append(connection, entry)

    def forget(self, customer_ids: Collection[str]) -> int:
        """Take erased customers out of the entries; who did what, and when, stays."""
        with self.accounts.transaction() as connection:
            connection.execute("PRAGMA secure_delete = ON")
            done = self._chain.erase(connection, map(self._chain.customer, customer_ids))
        self.accounts.empty_log()
        return done

    def entries(
        self,
        *,
        user: str = "",
        action: str = "",
        run_id: str = "",
        customer_id: str = "",
        limit: int = 500,
    ) -> list[dict[str, Any]]:
        """Return entries, newest first."""
        return self.find(AuditQuery(user, action, run_id, customer_id), limit=limit)

    def find(self, asked: AuditQuery, *, limit: int, before: int = NEWEST) -> list[dict[str, Any]]:
        """Return the entries below a number that are asked for, newest first."""
        where, values = self._conditions(asked)
        return self._read(
            f"SELECT * FROM audit WHERE {where} AND id < ? ORDER BY id DESC LIMIT ?",  # noqa: S608 - words of ours
            *values,
            before,
            limit,
        )

    def of_numbers(self, numbers: Sequence[int]) -> list[dict[str, Any]]:
        """Return entries by their numbers, newest first."""
        marks = ", ".join("?" * len(numbers))
        return self._read(f"SELECT * FROM audit WHERE id IN ({marks}) ORDER BY id DESC", *numbers)  # noqa: S608 - marks

    def _read(self, sql: str, *values: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - what SQLite stores
        return [
            {
                "number": row["id"],
                "at": instant_text(row["at"]),
                "user": row["user"],
                "action": row["action"],
                "run_id": row["run_id"],
                "customer_id": self.journal.sealer.open(row["sealed"], CONTEXT).decode()
                if row["sealed"]
                else "",
                "pseudonym": row["customer"].hex() if row["customer"] else "",
                "detail": json.loads(row["detail"])
                | ({"customer": "erased"} if row["whose"] and not row["customer"] else {}),
                "mark": row["mark"].hex(),
            }
            for row in self.accounts.rows(sql, *values)
        ]

    def page(self, asked: AuditQuery, before: int, limit: int) -> tuple[int, list[int]]:
        """Return how many entries are asked for, and the numbers of those below one, newest first.

        Words are looked for once, whatever the number of pages.
        """
        where, values = self._conditions(asked)
        rows = self.accounts.rows(
            f"WITH found AS MATERIALIZED (SELECT id FROM audit WHERE {where})"  # noqa: S608 - words of ours
            " SELECT count(*) AS id FROM found UNION ALL SELECT * FROM"
            " (SELECT id FROM found WHERE id < ? ORDER BY id DESC LIMIT ?)",
            *values,
            before,
            limit,
        )
        return rows[0]["id"], [row["id"] for row in rows[1:]]

    def _conditions(self, asked: AuditQuery) -> tuple[str, list[Any]]:
        """Return a condition in SQL, and its values in order."""
        customer = self._chain.customer(asked.customer_id) if asked.customer_id else None
        exact = {
            "user = ?": asked.user,
            "action = ?": asked.action,
            "run_id = ?": asked.run_id,
            "customer = ?": customer,
            "at >= ?": asked.since,
            "at < ?": asked.until,
        }
        given = {said: value for said, value in exact.items() if value not in ("", None)}
        said, values = list(given), list(given.values())
        text = asked.search.strip()
        if text:
            words = [re.sub(r"([\\%_])", r"\\\1", word) for word in text.split()]
            every = " AND ".join(f"({_HAS})" for _ in words)
            said.append(f"(customer = ? OR id = ? OR ({every}))")
            number = int(text) if text.isdecimal() and len(text) < 16 else -1  # noqa: PLR2004 - no audit is longer
            values += [self._chain.customer(text) if asked.by_customer else b"", number]
            values += [f"%{word}%" for word in words for _ in range(4)]
        return " AND ".join(said) or "1", values


def stands_at_desk(journal: Journal, customer_id: str) -> bool:
    """Tell whether a customer stands in the audit of a desk."""
    audit = audit_of(journal)
    return audit is not None and bool(audit.entries(customer_id=customer_id, limit=1))


def forget_at_desk(journal: Journal, customer_ids: Collection[str]) -> int:
    """Take erased customers out of a desk, if there is one; return how many entries bore them."""
    audit = audit_of(journal)
    if audit is None:
        return 0
    Cases(audit.accounts, journal).forget(customer_ids)
    return audit.forget(customer_ids)


def write_by_command(
    journal: Journal,
    action: str,
    *,
    run_id: str = "",
    customer_id: str = "",
    **detail: Any,  # noqa: ANN401 - as `Audit.write` takes it
) -> None:
    """Write what a command did or showed into a desk's audit, where there is a desk.

    It stands there under whose account on this machine the command ran.
    """
    audit = audit_of(journal)
    if audit is not None:
        about = {"run_id": run_id, "customer_id": customer_id}
        audit.write(user_name(), action, **about, **detail, by_command=True)


def audit_of(journal: Journal) -> Audit | None:
    """Return the audit of a journal's desk; None where there is no desk."""
    if not (journal.home / DESK_FILE).exists():
        return None
    return Audit(Accounts(journal.home, journal.clock), journal)
