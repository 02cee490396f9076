"""Cash flow in the journal: each pull's figures of each customer, sealed.

They are shown only while a consent is alive that covers what they rest on: `live` looks at grants
and figures in one query, so that no revoked consent is overtaken.
`operations/transactions/cashflow.py` computes them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
from sqlalchemy import delete, insert, select

from nightscreen.journal.engine import reading, writing
from nightscreen.journal.schema import FIGURES, cash_flows, consent_grants
from nightscreen.journal.vault import GrantState
from nightscreen.schemas.cashflow import FEATURES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sqlalchemy import Row

    from nightscreen.journal.storage import Storage

_SCOPES = "scopes"
_ALONE = ("transaction:list",)
"""The basis of figures stored before accounts were pulled."""
_BLOCK = 500
_flows, _grants = cash_flows.c, consent_grants.c


class Figures(NamedTuple):
    """The figures of one customer from one pull.

    Attributes:
        checked_at: when the service answered, microseconds.
        values: by column of `FEATURES`.
        scopes: what the consent must cover that they rest on.
    """

    customer: bytes
    run_id: str
    checked_at: int
    values: dict[str, Any]
    scopes: tuple[str, ...]

    def document(self) -> dict[str, Any]:
        """Return the figures as JSON can hold them: amounts and dates are text."""
        return {
            name: str(value) if isinstance(value, Decimal | date) else value
            for name, value in self.values.items()
        }


@dataclass(frozen=True, slots=True)
class CashFlows:
    """Keeps figures in an open journal."""

    _journal: Storage = field(repr=False)

    def keep(self, run_id: str, figures: Iterable[Figures]) -> None:
        """Keep a pull's figures; those of an earlier session of the same run are replaced."""
        rows = [
            {
                "customer": figure.customer,
                "run_id": run_id,
                "checked_at": figure.checked_at,
                "sealed": self._journal.sealer.seal(
                    json.dumps({**figure.document(), _SCOPES: figure.scopes}).encode(),
                    FIGURES.context(figure.customer, run_id),
                ),
            }
            for figure in figures
        ]
        with writing(self._journal.engine) as connection:
            for start in range(0, len(rows), _BLOCK):
                block = rows[start : start + _BLOCK]
                whose = [row["customer"] for row in block]
                connection.execute(
                    delete(cash_flows).where(_flows.run_id == run_id, _flows.customer.in_(whose))
                )
                connection.execute(insert(cash_flows), block)

    def any_held(self) -> bool:
        """Return whether figures of anybody are stored."""
        with reading(self._journal.engine) as connection:
            return connection.execute(select(_flows.flow_id).limit(1)).first() is not None

    def live(self, customers: Sequence[bytes], since: int) -> dict[bytes, Figures]:
        """Return the newest figures of customers whose consent covers all that they rest on.

        Args:
            customers: their pseudonyms.
            since: figures that were checked before this instant, microseconds, are too old.
        """
        found: dict[bytes, Figures] = {}
        for start in range(0, len(customers), _BLOCK):
            block = customers[start : start + _BLOCK]
            query = (
                select(cash_flows, _grants.scopes)
                .join(consent_grants, _grants.customer == _flows.customer)
                .where(
                    _flows.customer.in_(block),
                    _flows.checked_at >= since,
                    _grants.state == GrantState.LIVE.value,
                )
                .order_by(_flows.checked_at.desc(), _flows.flow_id.desc())
            )
            with reading(self._journal.engine) as connection:
                rows = connection.execute(query).all()
            for row in rows:
                if bytes(row.customer) not in found:
                    figures = self._figures(row)
                    if set(figures.scopes) <= set(row.scopes.split()):
                        found[figures.customer] = figures
        return found

    def of_customer(self, customer: bytes) -> list[Figures]:
        """Return all figures that are kept of a customer, newest first."""
        query = select(cash_flows).where(_flows.customer == customer)
        with reading(self._journal.engine) as connection:
            rows = connection.execute(query.order_by(_flows.checked_at.desc())).all()
        return [self._figures(row) for row in rows]

    def _figures(self, row: Row[Any]) -> Figures:
        customer = bytes(row.customer)
        context = FIGURES.context(customer, row.run_id)
        document = json.loads(self._journal.sealer.open(bytes(row.sealed), context))
        values = {name: _value(document.get(name), kind) for name, kind in FEATURES.items()}
        return Figures(
            customer, row.run_id, row.checked_at, values, tuple(document.get(_SCOPES, _ALONE))
        )


def _value(text: Any, kind: pa.DataType) -> Any:  # noqa: ANN401 - what the column holds
    """Return a value of JSON as its column has it."""
    if text is None:
        return None
    if pa.types.is_decimal(kind):
        return Decimal(text)
    return date.fromisoformat(text) if pa.types.is_date(kind) else text
