"""The audit: who did or saw what and when, in the desk's own file.

A customer stands in it by a keyed pseudonym, to be found by, and sealed, to be shown to those who
may. Nothing is ever changed or removed here.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nightscreen.storage.clock import instant_text

if TYPE_CHECKING:
    from nightscreen.desk.accounts import Accounts
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
