"""What the service had answered before about those a run asked about once more.

A night on which only old answers are asked again is no sample of the batch: whoever judges its
rates must know what was to be expected. The judgement is in `report/anomaly_check.py`.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from sqlalchemy import exists, func, select

from nightscreen.journal.calls import UNREAD
from nightscreen.journal.engine import reading
from nightscreen.journal.schema import answers, calls, tallies
from nightscreen.schemas.calls import CallState

if TYPE_CHECKING:
    from sqlalchemy import Engine


def earlier_outcomes(engine: Engine, run_id: str, check: str, before: int) -> Counter[str]:
    """Return how many of a run's answered lookups of a check had which outcome before.

    Args:
        engine: the journal's database.
        run_id: the run.
        check: the check.
        before: an earlier answer is one that arrived before this instant, microseconds.

    Returns:
        Lookups by the outcome of their latest earlier answer; those never answered are left out.
    """
    asked = calls.alias("asked")
    latest = (
        select(answers.c.outcome)
        .where(
            answers.c.subject == asked.c.subject,
            answers.c.check == check,
            answers.c.answered_at < before,
            answers.c.outcome.not_in(UNREAD),
        )
        .order_by(answers.c.answered_at.desc(), answers.c.answer_id.desc())
        .limit(1)
        .correlate(asked)
        .scalar_subquery()
    )
    # looked at once: on a first night nobody's answers need be looked for one by one
    others = exists().where(tallies.c.run_id != run_id, tallies.c.check == check)
    each = (
        select(latest.label("outcome"))
        .where(
            asked.c.run_id == run_id,
            asked.c.check == check,
            asked.c.state == CallState.ANSWERED.value,
            others,
        )
        .subquery()
    )
    query = select(each.c.outcome, func.count()).group_by(each.c.outcome)
    with reading(engine) as connection:
        rows = connection.execute(query).all()
    return Counter({outcome: int(number) for outcome, number in rows if outcome is not None})
