"""Money that left the wallet between two runs, in the journal and in the report."""

from __future__ import annotations

from typing import Any, Self

from nightscreen.schemas.money import naira_text
from nightscreen.schemas.records import Ground, JournalRecord

OPEN, EXPLAINED = "open", "explained"


class WalletGap(JournalRecord, kind="wallet_gap", ground=Ground.APPROVALS, waiting={OPEN}):
    """Money that left the wallet between two runs without a call that explains it.

    It is open until a person notes the reason. Its key is the later run's id.
    """

    batch: str = ""
    run_before: str  # the earlier run
    micro: int  # the amount in micro-naira
    state: str = OPEN  # `open` or `explained`
    reason: str = ""  # where the money went; empty while it is open
    by: str = ""  # who noted it
    noted_at: int = 0  # when, microseconds; 0 while it is open

    def explained(self, reason: str, by: str, at: int) -> Self:
        """Return a copy with the reason noted."""
        noted = {"state": EXPLAINED, "reason": reason, "by": by, "noted_at": at}
        return self.model_copy(update=noted)


def between_document(run_before: str, micro: int) -> dict[str, Any]:
    """Return the report's `balance.between_runs`: what left the wallet since an earlier run.

    The amount is negative if money was added.
    """
    return {"run_before": run_before, "missing": naira_text(micro)}
