"""How loans performed: bad rates by decision, reason, policy and month of disbursement.

All figures are SQL over pseudonyms. A loan counts once: as good, bad or too young to judge. Rates
have Wilson's interval, so that three loans without a failure do not look like a perfect rule.
`operations/loan_book.py` imports a lender's file.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from decimal import Decimal
from math import sqrt
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from nightscreen.files.sealing import pieces_of
from nightscreen.journal.records import Records
from nightscreen.policy.engine import locked_connection
from nightscreen.reading.merge_rows import standing_of
from nightscreen.results.final_decision import decisions_as_of
from nightscreen.schemas.clock import LAGOS, lagos_day, to_instant
from nightscreen.schemas.offers import LinkState, Offer
from nightscreen.schemas.outcomes import (
    BadLoan,
    DecisionAsOf,
    LoanDay,
    LoanOutcome,
    LoanStanding,
    OutcomeClass,
    OutcomeSource,
)
from nightscreen.schemas.rows import NAIRA

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import date

    from duckdb import DuckDBPyConnection, DuckDBPyRelation

    from nightscreen.files.sealing import Pseudonyms
    from nightscreen.journal import Journal

Z = 1.959964  # of the normal distribution, for intervals of 95 %
NO_DECISION = "none"  # the decision if no run had decided before the disbursement
_LENT_TO = pa.schema(
    [
        pa.field("loan", pa.string()),
        pa.field("customer", pa.string()),
        pa.field("disbursed_at", pa.int64()),
        pa.field("vintage", pa.string()),
        pa.field("decision", pa.string()),
        pa.field("decided_by", pa.string()),
        pa.field("policy", pa.string()),
        pa.field("reasons", pa.list_(pa.string())),
        pa.field("class", pa.string()),
        pa.field("lent", NAIRA),
        pa.field("lost", NAIRA),
    ]
)
_COUNTS = """
    count(loan) AS loans,
    count(*) FILTER (class = 'good') AS good,
    count(*) FILTER (class = 'bad') AS bad,
    count(*) FILTER (class = 'young') AS young,
    coalesce(sum(lent), 0) AS lent,
    coalesce(sum(lost) FILTER (class = 'bad'), 0) AS lost,
    count(*) FILTER (class = 'bad' AND lost IS NULL) AS lost_unknown
"""
_BY_REASON = """
    CREATE TEMP VIEW by_reason AS
    SELECT * EXCLUDE reasons, unnest(list_distinct(reasons)) AS reason FROM loans
"""
_CELLS = """
    WITH paid AS (
        SELECT loans.*, number, was, now FROM loans JOIN moves USING (customer)
        WHERE decided_at <= disbursed_at
        QUALIFY row_number() OVER (PARTITION BY loan ORDER BY decided_at DESC, number DESC) = 1
    ),
    cells AS (SELECT was, now, count(*) AS rows FROM moves GROUP BY ALL)
    SELECT was AS "from", now AS "to", any_value(cells.rows) AS rows,
        any_value(cells.rows) - count(DISTINCT number) AS never_lent, {counts}
    FROM cells LEFT JOIN paid USING (was, now) GROUP BY was, now ORDER BY was, now
"""
"""A loan belongs to the newest run that had decided on its customer before the disbursement, and so
counts once, however many runs the customer was in."""


def wilson(bad: int, known: int) -> tuple[float, float] | None:
    """Return Wilson's interval of the rate `bad / known`; None if `known` is 0."""
    if not known:
        return None
    rate = bad / known
    middle = rate + Z * Z / (2 * known)
    spread = Z * sqrt(rate * (1 - rate) / known + Z * Z / (4 * known * known))
    whole = 1 + Z * Z / known
    return max(0.0, (middle - spread) / whole), min(1.0, (middle + spread) / whole)


def rate_document(bad: int, good: int) -> dict[str, float] | None:
    """Return a bad rate with its interval; None if no loan is old enough."""
    interval = wilson(bad, bad + good)
    if interval is None:
        return None
    low, high = (round(each, 4) for each in interval)
    return {"value": round(bad / (bad + good), 4), "low": low, "high": high}


# --- the loans ---


def known_outcomes(journal: Journal) -> list[LoanOutcome]:
    """Return every known loan: as the lender imported it, else as `loans track` has seen it."""
    imported = Records(journal, LoanOutcome).all()
    keys = {each.key for each in imported}
    tracked = (_followed(journal, offer) for offer in linked_offers(journal))
    followed = [each for each in tracked if each is not None and each.key not in keys]
    asked = [(each.customer_id, each.disbursed_at) for each in followed]
    decided = zip(followed, decisions_as_of(journal, asked), strict=True)
    return [*imported, *(each.model_copy(update={"stood": stood}) for each, stood in decided)]


def loan_key(journal: Journal, loan_id: str) -> str:
    """Return the pseudonym of a loan's id; a lender's id may be the service's reference."""
    return journal.pseudonyms.subject("loan outcome", loan_id).hex()


def linked_offers(journal: Journal) -> list[Offer]:
    """Return every offer that has a reference, in the order they were made."""
    offers = Records(journal, Offer).all(state=LinkState.OFFERED.value)
    return sorted(offers, key=lambda each: (each.offered_at or 0, each.subject))


def _followed(journal: Journal, offer: Offer) -> LoanOutcome | None:
    """Return a followed loan as an outcome; None if no disbursement was seen.

    The service gives no days past due: a loan is past due from the first day its status says so to
    the last day it still does.
    """
    views = [
        (each.at, standing_of(each.now.status.replace("_", " ")) or LoanStanding.OPEN, each.now)
        for each in offer.history
        if each.now.status
    ]
    lent = [view for view in views if view[1] is not LoanStanding.NOT_LENT]
    if not lent or offer.reference is None:
        return None
    outcome: LoanOutcome | None = None
    ends = [*(view[0] for view in lent[1:]), max(offer.followed_at or 0, lent[-1][0])]
    since: date | None = None
    for (at, standing, now), until in zip(lent, ends, strict=True):
        as_of = lagos_day(until if standing is LoanStanding.PAST_DUE else at)
        late = standing is LoanStanding.PAST_DUE
        since = (since or lagos_day(at)) if late else None
        day = LoanDay(
            as_of=as_of,
            standing=standing,
            status=now.status or "",
            principal=now.amount_disbursed or now.loan_amount,
            paid=now.paid,
            days_past_due=0 if since is None else (as_of - since).days,
        )
        if outcome is None:
            outcome = LoanOutcome(
                key=loan_key(journal, offer.reference),
                customer=offer.customer,
                batch=offer.batch,
                run_id=offer.source_run_id,
                at=at,
                customer_id=offer.customer_id,
                loan_id=offer.reference,
                source=OutcomeSource.FOLLOWED,
                disbursed_at=at,
                last=day,
            )
        else:
            outcome = outcome.with_day(day)
    return outcome


# --- figures ---


def loans_table(outcomes: Iterable[LoanOutcome], bad: BadLoan) -> pa.Table:
    """Return the disbursed loans, each with its class: good, bad or too young."""
    rows = []
    for each in outcomes:
        performance = each.judge(bad)
        if performance is None:
            continue
        decision = each.stood or DecisionAsOf(batch="", run_id="", decision=NO_DECISION)
        rows.append(
            {
                "loan": each.key,
                "customer": each.customer.hex(),
                "disbursed_at": each.disbursed_at,
                "vintage": f"{to_instant(each.disbursed_at).astimezone(LAGOS):%Y-%m}",
                "decision": decision.decision,
                "decided_by": decision.decided_by if each.stood else NO_DECISION,
                "policy": decision.policy or NO_DECISION,
                "reasons": list(decision.reasons),
                "class": performance.value,
                "lent": each.last.principal,
                "lost": each.lost if performance is OutcomeClass.BAD else None,
            }
        )
    return pa.Table.from_pylist(rows, _LENT_TO)


def outcomes_report(
    outcomes: Sequence[LoanOutcome], bad: BadLoan, *, batch: str | None = None
) -> dict[str, Any] | None:
    """Return how loans performed, as a JSON document; None if no loan is known.

    If `batch` is given, only loans that were decided in it count.
    """
    chosen = [
        each
        for each in outcomes
        if batch is None or (each.stood is not None and each.stood.batch == batch)
    ]
    if not chosen:
        return None
    loans = loans_table(chosen, bad)
    with closing(locked_connection()) as engine:
        engine.register("loans", loans)
        engine.execute(_BY_REASON)
        (total,) = _cells(engine, "")
        return {
            "bad": bad.model_dump(),
            "not_lent": len(chosen) - loans.num_rows,
            "total": total,
            "decisions": _cells(engine, "decision"),
            "decided_by": _cells(engine, "decided_by"),
            "policies": _cells(engine, "policy"),
            "vintages": _cells(engine, "vintage"),
            "reasons": [
                {
                    **each,
                    "caught": _share(each["bad"], total["bad"]),
                    "cost": _share(each["good"], total["good"]),
                }
                for each in _cells(engine, "reason", "by_reason")
            ],
        }


def _cells(engine: DuckDBPyConnection, keys: str, source: str = "loans") -> list[dict[str, Any]]:
    """Return counted loans grouped by columns, in their order, with rates; money as text."""
    grouped = "GROUP BY ALL ORDER BY ALL" if keys else ""
    select = f"SELECT {keys}{',' if keys else ''} {_COUNTS} FROM {source} {grouped}"  # noqa: S608 - of our own words
    return _rated(engine.sql(select))


def _rated(found: DuckDBPyRelation) -> list[dict[str, Any]]:
    return [
        {
            **each,
            "lent": f"{each['lent']:.2f}",
            "lost": f"{each['lost']:.2f}",
            "bad_rate": rate_document(each["bad"], each["good"]),
        }
        for each in found.to_arrow_table().to_pylist()
    ]


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None


# --- past runs decided again ---


@dataclass(frozen=True, slots=True)
class LoanPerformance:
    """How customers of past runs repaid the loans that they got after the decision."""

    loans: pa.Table  # as returned by `loans_table`
    bad: BadLoan  # what counts as bad
    _pseudonyms: Pseudonyms = field(repr=False)

    @classmethod
    def of(cls, journal: Journal, bad: BadLoan) -> LoanPerformance | None:
        """Return the loans that a journal knows; None if it knows none."""
        loans = loans_table(known_outcomes(journal), bad)
        return cls(loans, bad, journal.pseudonyms) if loans.num_rows else None

    def customers(self, customer_ids: Sequence[str]) -> pa.Array:
        """Return the pseudonym of each customer who got a loan, null for all others."""
        joined = self._pseudonyms.customers_anywhere(customer_ids)
        names = pa.array([each.hex() for each in pieces_of(joined)], pa.string())
        mine = pc.is_in(names, value_set=self.loans["customer"].combine_chunks())
        return pc.if_else(mine, names, None)

    def document(self, engine: DuckDBPyConnection) -> dict[str, Any]:
        """Return the loans by old and new decision, and which policy they show to be better.

        Args:
            engine: has these `loans` and a table `moves` of customers (null without a loan) with
                their `number`, `decided_at`, and the old (`was`) and new (`now`) decision.
        """
        cells = _rated(engine.sql(_CELLS.format(counts=_COUNTS)))
        return {"cells": cells, **_verdict(cells)}


_APPROVE, _REVIEW = "approve", "review"
_STRICTNESS = {_APPROVE: 0, _REVIEW: 1, "undecided": 1, "decline": 2}


def _verdict(cells: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the loans of customers whom each policy approves, and which policy they favour.

    The new policy is better if customers on whom it is stricter repaid worse, or customers on whom
    it is milder repaid better, than customers whom both leave in the milder decision. The intervals
    must not overlap. Reviewed customers count too, since they may get a loan after the review.
    Customers who never got a loan are counted as `unproven`; nothing is guessed about them.
    """
    verdicts = set()
    for milder in (_APPROVE, _REVIEW):
        stay = _sum(each for each in cells if each["from"] == each["to"] == milder)
        left = _sum(each for each in cells if each["from"] == milder and _stricter(each) > 0)
        came = _sum(each for each in cells if each["to"] == milder and _stricter(each) < 0)
        opposite = {"worse": "better", "better": "worse", "alike": "alike"}
        verdicts |= {opposite[_pays(left, stay)], _pays(came, stay)}
    clear = sorted(verdicts - {"alike"})
    kept = _sum(each for each in cells if each["from"] == each["to"] == _APPROVE)
    dropped = _sum(each for each in cells if each["from"] == _APPROVE != each["to"])
    added = _sum(each for each in cells if each["to"] == _APPROVE != each["from"])
    return {
        "approved_before": _sum((kept, dropped)),
        "approved_after": _sum((kept, added)),
        "no_longer_approved": dropped,
        "newly_approved": added,
        "unproven": added["never_lent"],
        "verdict": clear[0] if len(clear) == 1 else "cannot_tell",
    }


def _stricter(cell: Mapping[str, Any]) -> int:
    """Return how much stricter the new decision of a cell is; below zero if it is milder."""
    return _STRICTNESS[cell["to"]] - _STRICTNESS[cell["from"]]


def verdict_in_words(paid: Mapping[str, Any], after: str) -> list[str]:
    """Return sentences on which policy the loans favour, and on how many had no loan.

    Args:
        paid: a document of `LoanPerformance.document`.
        after: the name of the new policy.
    """
    texts = {
        "better": f"{after} is better: the loans of those who move tell them apart.",
        "worse": f"{after} is worse: the loans of those who move tell them apart.",
        "cannot_tell": "Which is better cannot be told: too few of those who move were lent to, "
        "or they paid much like the others.",
    }
    sentences = [texts[paid["verdict"]]]
    if paid["unproven"]:
        sentences.append(
            f"{paid['unproven']:,} whom {after} would approve were never lent to: how they would "
            "have paid, nobody knows."
        )
    return sentences


def _pays(moved: Mapping[str, Any], stayed: Mapping[str, Any]) -> str:
    """Return `better` or `worse` if the intervals of the bad rates do not overlap, else `alike`."""
    mine, theirs = moved["bad_rate"], stayed["bad_rate"]
    if mine is None or theirs is None:
        return "alike"
    if mine["low"] > theirs["high"]:
        return "worse"
    return "better" if mine["high"] < theirs["low"] else "alike"


def _sum(cells: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    listed = list(cells)
    names = ("rows", "never_lent", "loans", "good", "bad", "young", "lost_unknown")
    total: dict[str, Any] = {name: sum(each[name] for each in listed) for name in names}
    for name in ("lent", "lost"):
        total[name] = f"{sum((Decimal(each[name]) for each in listed), Decimal(0)):.2f}"
    return {**total, "bad_rate": rate_document(total["bad"], total["good"])}
