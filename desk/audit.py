"""The audit: who did or saw what and when, in the desk's own file.

A customer stands in it by a keyed pseudonym, to be found by, and sealed, to be shown to those who
may. Entries are never changed but for erasure, a new data key and the end of their period.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nightscreen.desk.accounts import Accounts
from nightscreen.storage.clock import instant_text
from nightscreen.storage.desk_file import DESK_FILE, UPLOADS
from nightscreen.storage.sealed_file import SUFFIX, reseal_file

if TYPE_CHECKING:
    from collections.abc import Collection

    from nightscreen.storage.journal import Journal

_BATCH = "desk audit"
_CONTEXT = b"desk audit"


@dataclass(frozen=True, slots=True)
class Audit:
    """Writes and reads entries.

    Attributes:
        accounts: whose file it lies in.
        journal: whose key seals customers.
    """

    accounts: Accounts
    journal: Journal

    def write(
        self, user: str, action: str, *, run_id: str = "", customer_id: str = "", **detail: object
    ) -> None:
        """Write down what a user did or saw."""
        key = sealed = None
        if customer_id:
            key = self.journal.pseudonyms.customer(_BATCH, customer_id)
            sealed = self.journal.sealer.seal(customer_id.encode(), _CONTEXT)
        row = (
            self.accounts.clock(),
            user,
            action,
            run_id,
            key,
            sealed,
            json.dumps(detail, ensure_ascii=False, default=str),
        )
        with self.accounts.transaction() as connection:
            connection.execute(
                "INSERT INTO audit (at, user, action, run_id, customer, sealed, detail)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                row,
            )

    def forget(self, customer_ids: Collection[str]) -> int:
        """Take erased customers out of the entries; who did what, and when, stays."""
        keys = [(self.journal.pseudonyms.customer(_BATCH, each),) for each in customer_ids]
        with self.accounts.transaction() as connection:
            connection.execute("PRAGMA secure_delete = ON")
            done = connection.executemany(
                "UPDATE audit SET customer = NULL, sealed = NULL,"
                " detail = json_set(detail, '$.customer', 'erased') WHERE customer = ?",
                keys,
            )
        self.accounts.empty_log()
        return max(0, done.rowcount)

    def reseal(self) -> int:
        """Seal customers under the present data key; return how many entries that were."""
        sealer = self.journal.sealer
        with self.accounts.transaction() as connection:
            rows = connection.execute("SELECT id, sealed FROM audit WHERE sealed NOT NULL")
            anew = [
                (sealer.seal(sealer.open(row["sealed"], _CONTEXT), _CONTEXT), row["id"])
                for row in rows.fetchall()
            ]
            connection.executemany("UPDATE audit SET sealed = ? WHERE id = ?", anew)
        return len(anew)

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
        key = self.journal.pseudonyms.customer(_BATCH, customer_id) if customer_id else None
        wanted = {"user": user, "action": action, "run_id": run_id, "customer": key}
        given = {name: value for name, value in wanted.items() if value}
        where = " AND ".join(f"{name} = ?" for name in given) or "1"
        rows = self.accounts.rows(
            f"SELECT * FROM audit WHERE {where} ORDER BY id DESC LIMIT ?",  # noqa: S608 - names of ours
            *given.values(),
            limit,
        )
        return [
            {
                "at": instant_text(row["at"]),
                "user": row["user"],
                "action": row["action"],
                "run_id": row["run_id"],
                "customer_id": self.journal.sealer.open(row["sealed"], _CONTEXT).decode()
                if row["sealed"]
                else "",
                "detail": json.loads(row["detail"]),
            }
            for row in rows
        ]


def stands_at_desk(journal: Journal, customer_id: str) -> bool:
    """Tell whether a customer stands in the audit of a desk."""
    audit = _audit_of(journal)
    return audit is not None and bool(audit.entries(customer_id=customer_id, limit=1))


def forget_at_desk(journal: Journal, customer_ids: Collection[str]) -> int:
    """Take erased customers out of the audit of a desk, where there is one."""
    audit = _audit_of(journal)
    return 0 if audit is None else audit.forget(customer_ids)


def reseal_desk(journal: Journal) -> int:
    """Seal what a desk holds under the present data key: its audit and the files brought to it."""
    audit = _audit_of(journal)
    if audit is None:
        return 0
    files = sorted((journal.home / UPLOADS).glob(f"*{SUFFIX}"))
    for file in files:
        reseal_file(file, journal.sealer)
    return audit.reseal() + len(files)


def _audit_of(journal: Journal) -> Audit | None:
    if not (journal.home / DESK_FILE).exists():
        return None
    return Audit(Accounts(journal.home, journal.clock), journal)
