"""Cash flow at hand, as a screening run may see it: of customers whose consent is alive, no others.

The figures were worked out when their transactions were pulled (`operations/transactions`); here
they are found again, and held against what the row requests.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from nightscreen.journal.consents import live_figures
from nightscreen.journal.records import Records
from nightscreen.planning.consent import consent_column
from nightscreen.schemas.cashflow import AFFORDABLE, CHECKED_AT, TX_FIELDS, figure_values
from nightscreen.schemas.clock import to_instant
from nightscreen.schemas.columns import REQUESTED, Flaw
from nightscreen.schemas.consented import CashFigures

if TYPE_CHECKING:
    from nightscreen.journal import Journal

MONTH_DAYS = 30


@dataclass(frozen=True, slots=True)
class CashFlowAtHand:
    """Finds figures for rows."""

    any_held: bool  # the journal has figures of anybody; else nothing is looked for
    at: int  # the instant consent is judged at, microseconds
    since: int  # figures from before this instant are too old
    _journal: Journal = field(repr=False)

    @classmethod
    def of(cls, journal: Journal, at: int, since: int) -> CashFlowAtHand:
        """Return what a journal has at hand, for consent judged at an instant."""
        any_held = bool(Records.of(journal, CashFigures).run_ids())
        return cls(any_held, at, since, journal)

    def columns(self, rows: pa.Table) -> dict[str, pa.Array]:
        """Return the columns of `TX_FIELDS` for rows of an input.

        Null where nothing is held, where it is too old, and where no consent stands behind it: the
        grant must be alive with its scope, and the file must not say that consent has ended.
        """
        if not self.any_held or not rows.num_rows:
            return no_cash_flow(rows.num_rows)
        places = self._customers(rows)
        held = live_figures(self._journal, set(places.values()), self.since)
        requested = rows.select(REQUESTED).to_pylist()
        found: list[dict[str, Any]] = [{} for _ in requested]
        for row, customer in places.items():
            if (figures := held.get(customer)) is not None:
                values = figure_values(figures)
                instalment = instalment_of(*(requested[row][name] for name in REQUESTED))
                found[row] = {
                    **values,
                    CHECKED_AT: to_instant(figures.at),
                    AFFORDABLE: affordable(instalment, values["tx_instalment_most"]),
                }
        table = pa.Table.from_pylist(found, schema=pa.schema(TX_FIELDS))
        return {name: table[name].combine_chunks() for name in table.column_names}

    def _customers(self, rows: pa.Table) -> dict[int, bytes]:
        """Return the pseudonym of each row's customer, but for those who took consent back.

        The grant is the consent. A row whose file tells of consent to the lender must not be one
        whose consent has ended, was withdrawn or cannot be read.
        """
        batch = rows.combine_chunks().to_batches()[0]
        counts = consent_column(batch, at=to_instant(self.at)).to_pylist()
        told = rows.select(
            ("consented_at", "consent_expires_at", "consent_withdrawn_at", "flaws")
        ).to_pylist()
        names = self._journal.pseudonyms
        found = {}
        for place, customer_id in enumerate(rows["customer_id"].to_pylist()):
            says = told[place].pop("flaws") & Flaw.CONSENT or any(told[place].values())
            if counts[place] or not says:
                found[place] = names.customers_anywhere([customer_id])
        return found


def instalment_of(
    amount: Decimal | None, tenor_days: int | None, instalment: Decimal | None
) -> Decimal | None:
    """Return what is to be paid each month; None where it is not requested.

    Of amount and tenor it is the amount in equal parts, one a month of thirty days, without
    interest; a loan of a month or less is paid back at once.
    """
    if instalment is not None:
        return instalment
    if amount is None or tenor_days is None:
        return None
    return amount / max(Decimal(1), Decimal(tenor_days) / MONTH_DAYS)


def affordable(instalment: Decimal | None, most: Decimal | None) -> bool | None:
    """Tell whether an instalment can be borne; None where either is unknown."""
    return None if instalment is None or most is None else instalment <= most


def no_cash_flow(rows: int) -> dict[str, pa.Array]:
    """Return the columns where nothing may be shown, as in test mode."""
    return {name: pa.nulls(rows, kind) for name, kind in TX_FIELDS}
