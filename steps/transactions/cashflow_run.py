"""A pull's cash flow: transactions from the journal, figures into it and the run's folder.

Whose consent is alive and whose list was kept has a row; nobody else. What the figures are is
`cashflow`'s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from nightscreen.client.aggregator import Scope
from nightscreen.schemas.cashflow import CASHFLOW_FILE, CASHFLOW_SCHEMA, FEATURES
from nightscreen.schemas.pulls import KEPT, Pulled
from nightscreen.steps.transactions.cashflow import CUSTOMERS, INPUT
from nightscreen.steps.transactions.json_decode import parse_text
from nightscreen.steps.transactions.transaction_fields import load_fields
from nightscreen.storage.cash_flows import CashFlows, Figures
from nightscreen.storage.clock import instant_text, to_instant, to_micros
from nightscreen.storage.transactions import Transactions
from nightscreen.storage.vault import Vault

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from nightscreen.steps.transactions.cashflow import CashFlow
    from nightscreen.steps.transactions.sync import TransactionSync
    from nightscreen.steps.transactions.transaction_fields import TransactionFields
    from nightscreen.storage.journal import Journal
    from nightscreen.storage.transactions import Version

BLOCK = 100_000
"""Transactions that are worked on at once: some 350 MB with the program's own."""


def write_cash_flow(
    pull: TransactionSync, pulls: Iterable[Pulled], ids: Mapping[bytes, str]
) -> int:
    """Write `cashflow.parquet` and keep its rows in the journal; return how many there are.

    Raises:
        SettingsError: a definition has a mistake.
        OutputError: the file cannot be written.
        JournalError: the journal cannot be used.
    """
    due = [each for each in pulls if each.outcome in KEPT and each.customer in ids]
    return pull.run.folder.write_parquet(CASHFLOW_FILE, CASHFLOW_SCHEMA, _tables(pull, due, ids))


def _tables(
    pull: TransactionSync, due: Sequence[Pulled], ids: Mapping[bytes, str]
) -> Iterator[pa.Table]:
    customers: list[Pulled] = []
    rows: list[dict[str, Any]] = []
    for each in due:
        customers.append(each)
        rows += current_rows(pull.fields, pull.store.current(each.customer), ids[each.customer])
        if len(rows) >= BLOCK:
            yield _kept(pull, customers, rows, ids)
            customers, rows = [], []
    if customers:
        yield _kept(pull, customers, rows, ids)


def _kept(
    pull: TransactionSync,
    customers: Sequence[Pulled],
    rows: Sequence[Mapping[str, Any]],
    ids: Mapping[bytes, str],
) -> pa.Table:
    """Return the figures of some customers, and keep them."""
    asked = customer_table((ids[each.customer], each.answered_at or 0) for each in customers)
    table = pull.cash_flow.features(transaction_table(rows), asked)
    figures = [
        Figures(
            each.customer,
            pull.run.run_id,
            to_micros(row["tx_checked_at"]),
            {name: row[name] for name in FEATURES},
        )
        for each, row in zip(customers, table.to_pylist(), strict=True)
    ]
    CashFlows(pull.run.journal).keep(pull.run.run_id, figures)
    return table


def explain_cash_flow(
    journal: Journal, cash_flow: CashFlow, customer_id: str
) -> dict[str, Any] | None:
    """Return a customer's newest figures, and which rule took which transactions, as JSON has them.

    None where no consent is alive or nothing was pulled. Of a narration nothing is shown but the
    words of a rule: whom somebody pays is not for the page.
    """
    customer = Vault.of(journal).customer(customer_id)
    figures = CashFlows(journal).live([customer], Scope.TRANSACTION_LIST, 0).get(customer)
    if figures is None:
        return None
    rows = current_rows(load_fields(), Transactions.of(journal).current(customer), customer_id)
    asked = customer_table([(customer_id, figures.checked_at)])
    return {
        "run_id": figures.run_id,
        "checked_at": instant_text(figures.checked_at),
        "figures": figures.document(),
        "rules": [
            {
                "rule": each.rule or None,
                "category": each.category or None,
                "direction": each.direction,
                "words": [word for word in each.words if word],
                "transactions": each.transactions,
                "naira": str(each.naira),
                "last": each.last.isoformat(),
            }
            for each in cash_flow.matches(transaction_table(rows), asked)
        ],
    }


def customer_table(customers: Iterable[tuple[str, int]]) -> pa.Table:
    """Return customers with the instant of their answer, microseconds, as `CashFlow` takes them."""
    rows = [{"customer_id": id_, "checked_at": to_instant(at)} for id_, at in customers]
    return pa.Table.from_pylist(rows, schema=CUSTOMERS)


def transaction_table(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Return rows of `current_rows` as `CashFlow` takes them."""
    return pa.Table.from_pylist(list(rows), schema=INPUT)


def current_rows(
    fields: TransactionFields, versions: Iterable[Version], customer_id: str
) -> list[dict[str, Any]]:
    """Return a customer's transactions as they stand now; what cannot be read is left out."""
    return [
        {**fields.view(parse_text(each.raw)).values, "customer_id": customer_id}
        for each in versions
        if each.problem is None
    ]
