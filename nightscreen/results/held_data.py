"""Data from other runs that a screening run may use: BVN details and cash flow.

Only rows with valid consent get any. BVNs are confirmed by `operations.bvn`; here their answers
are looked up by pseudonym, whatever their age: a policy can test `bvn_checked_at`. Cash flow is
computed when transactions are pulled (`operations/cashflow`); here it is compared with the
amount that the row requests.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from nightscreen.client.response_parser import parse_answer
from nightscreen.journal.consents import live_figures
from nightscreen.journal.records import Records
from nightscreen.planning.eligibility import consent_column
from nightscreen.schemas.answers import BvnDetails
from nightscreen.schemas.checks import Operation, SubjectKind
from nightscreen.schemas.clock import to_instant
from nightscreen.schemas.columns import REQUESTED, Flaw
from nightscreen.schemas.consented import CashFigures
from nightscreen.schemas.enriched import (
    AFFORDABLE,
    BVN_FIELDS,
    CHECKED_AT,
    TX_FIELDS,
    figure_values,
)
from nightscreen.values.whose import same_account

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nightscreen.journal import Journal
    from nightscreen.schemas.answers import BvnAccount

_WATCHLISTED, _ACCOUNT_STATUS, _STATUSES, _BVN_CHECKED_AT = (name for name, _ in BVN_FIELDS)
_BVN = Operation.BVN_FINISH
_CONSENT_COLUMNS = ("consented_at", "consent_expires_at", "consent_withdrawn_at")
MONTH_DAYS = 30  # as `values/amounts.py` reads the months of a tenor


@dataclass(frozen=True, slots=True)
class HeldData:
    """Looks up BVN details and cash flow for rows."""

    has_bvns: bool  # the journal has an answer about any BVN; if not, none is looked up
    has_figures: bool  # the journal has cash flow of any customer; if not, none is looked up
    at: int  # the instant consent is judged at, microseconds
    since: int  # figures from before this instant are too old
    _journal: Journal = field(repr=False)

    @classmethod
    def of(cls, journal: Journal, at: int, since: int) -> HeldData:
        """Return the data that a journal holds, for consent judged at an instant."""
        has_bvns = journal.answers.any_of(_BVN.value)
        has_figures = bool(Records(journal, CashFigures).run_ids())
        return cls(has_bvns, has_figures, at, since, journal)

    def columns(self, rows: pa.Table) -> dict[str, pa.Array]:
        """Return the columns of `BVN_FIELDS` and `TX_FIELDS` for rows of an input.

        A value is null if nothing is held, if the answer lacks it, if it is too old, or if there is
        no valid consent.
        """
        if not rows.num_rows or not (self.has_bvns or self.has_figures):
            return nothing_held(rows.num_rows)
        batch = rows.combine_chunks().to_batches()[0]
        lawful = consent_column(batch, at=to_instant(self.at)).to_pylist()
        values: list[dict[str, Any]] = [{} for _ in lawful]
        if self.has_bvns:
            self._add_bvns(values, rows, lawful)
        if self.has_figures:
            self._add_cash_flow(values, rows, lawful)
        table = pa.Table.from_pylist(values, schema=pa.schema([*BVN_FIELDS, *TX_FIELDS]))
        return {name: table[name].combine_chunks() for name in table.column_names}

    def _add_bvns(self, values: list[dict[str, Any]], rows: pa.Table, lawful: list[bool]) -> None:
        bvns, flaws = rows["bvn"].to_pylist(), rows["flaws"].to_pylist()
        subjects = {
            place: self._journal.pseudonyms.subject(SubjectKind.BVN.value, bvn)
            for place, bvn in enumerate(bvns)
            if bvn and lawful[place] and not flaws[place] & Flaw.BVN
        }
        answers = self._journal.answers
        stored = answers.latest(_BVN.value, list(set(subjects.values())))
        asked = rows.select(["bank_code", "account_number"]).to_pylist()
        for place, subject in subjects.items():
            if (latest := stored.get(subject)) is None:
                continue
            values[place][_BVN_CHECKED_AT] = to_instant(latest.answered_at)
            answer = parse_answer(_BVN, answers.body(_BVN.value, latest))
            if isinstance(answer, BvnDetails):
                statuses = {each.account_status for each in answer.accounts if each.account_status}
                values[place] |= {
                    _WATCHLISTED: None if answer.watchlisted is None else int(answer.watchlisted),
                    _STATUSES: sorted(statuses) if answer.accounts else None,
                    _ACCOUNT_STATUS: _own_status(**asked[place], accounts=answer.accounts),
                }

    def _add_cash_flow(
        self, values: list[dict[str, Any]], rows: pa.Table, lawful: list[bool]
    ) -> None:
        """Add the cash flow of customers who did not withdraw consent.

        The customer's grant is the consent. But if the row has consent columns of its own, that
        consent must be valid too: not ended, withdrawn or unreadable.
        """
        requests = rows.select(["customer_id", "flaws", *_CONSENT_COLUMNS, *REQUESTED]).to_pylist()
        customers = {
            place: self._journal.pseudonyms.customers_anywhere([row["customer_id"]])
            for place, row in enumerate(requests)
            if lawful[place]
            or not (row["flaws"] & Flaw.CONSENT or any(row[name] for name in _CONSENT_COLUMNS))
        }
        held = live_figures(self._journal, set(customers.values()), self.since)
        for place, customer in customers.items():
            if (figures := held.get(customer)) is not None:
                figures_of_row = figure_values(figures)
                instalment = instalment_of(*(requests[place][name] for name in REQUESTED))
                values[place] |= {
                    **figures_of_row,
                    CHECKED_AT: to_instant(figures.at),
                    AFFORDABLE: affordable(instalment, figures_of_row["tx_instalment_most"]),
                }


def _own_status(
    bank_code: str | None, account_number: str | None, accounts: Iterable[BvnAccount]
) -> str | None:
    """Return the status of the row's own account, if it is among those of the BVN."""
    if not account_number:
        return None
    asked = f"{bank_code or ''}-{account_number}"
    own = (
        each.account_status
        for each in accounts
        if each.account_number and same_account(asked, each.bank_code, each.account_number)
    )
    return next(own, None)


def instalment_of(
    amount: Decimal | None, tenor_days: int | None, instalment: Decimal | None
) -> Decimal | None:
    """Return the monthly instalment; None if nothing is requested.

    From amount and tenor it is the amount in equal parts without interest, one for each thirty
    days; a loan of thirty days or less is repaid in one part.
    """
    if instalment is not None:
        return instalment
    if amount is None or tenor_days is None:
        return None
    return amount / max(Decimal(1), Decimal(tenor_days) / MONTH_DAYS)


def affordable(instalment: Decimal | None, most: Decimal | None) -> bool | None:
    """Return whether an instalment is at most `most`; None if either is unknown."""
    return None if instalment is None or most is None else instalment <= most


def nothing_held(rows: int) -> dict[str, pa.Array]:
    """Return the columns without values, as in test mode."""
    return {name: pa.nulls(rows, kind) for name, kind in (*BVN_FIELDS, *TX_FIELDS)}
