"""A pull's cash flow: transactions from the journal, figures into it and the run's folder.

Whose consent is live and whose list was kept has a row; nobody else. A pull of accounts works the
figures out again, for the balance of today. What the figures are is `cashflow`'s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from nightscreen.client.aggregator import Scope
from nightscreen.files.outputs import CASHFLOW_FILE
from nightscreen.journal.consents import Consents, keep_figures, live_figures
from nightscreen.operations.transactions.cashflow import ACCOUNTS, CUSTOMERS, TRANSACTIONS
from nightscreen.operations.transactions.records import load_fields
from nightscreen.operations.transactions.store import PullStore
from nightscreen.schemas.cashflow import CASHFLOW_SCHEMA, figures_document
from nightscreen.schemas.clock import instant_text, to_instant, to_micros
from nightscreen.schemas.consented import CashFigures, GrantState
from nightscreen.schemas.pulls import KEPT, PulledKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from nightscreen.calling.run import Run
    from nightscreen.journal import Journal
    from nightscreen.operations.transactions.cashflow import CashFlow
    from nightscreen.schemas.pulls import Pulled

BLOCK = 250_000  # transactions that are worked on at once: some 400 MB with the program's own


class CashFlowInput(NamedTuple):
    """A customer's typed records as they stand now; the unreadable are left out."""

    customer: bytes
    customer_id: str
    checked_at: int  # when the newest list of their transactions was answered, microseconds
    scopes: tuple[str, ...]  # those of the consent that the figures rest on
    transactions: pa.Table
    accounts: pa.Table


def write_cash_flow(
    run: Run, store: PullStore, cash_flow: CashFlow, pulls: Iterable[Pulled]
) -> int:
    """Write `cashflow.parquet` and keep its rows in the journal; return how many there are.

    Raises:
        SettingsError: a definition has a mistake.
        OutputError: the file cannot be written.
        JournalError: the journal cannot be used.
    """
    tables = (_kept(run, cash_flow, block) for block in _blocks(_inputs(run, store, pulls)))
    return run.folder.write_parquet(CASHFLOW_FILE, CASHFLOW_SCHEMA, tables)


def _inputs(run: Run, store: PullStore, pulls: Iterable[Pulled]) -> Iterator[CashFlowInput]:
    live = Consents.of(run.journal).grants(GrantState.LIVE, Scope.TRANSACTION_LIST)
    grants = {each.customer: each for each in live}
    for each in pulls:
        grant = grants.get(each.customer)
        if grant is None or each.state not in KEPT:
            continue
        answered: Pulled | None = each
        if each.pulled is not PulledKind.TRANSACTION:
            answered = store.last_kept(each.customer, PulledKind.TRANSACTION)
        checked_at = None if answered is None else answered.answered_at
        if checked_at is not None:
            used = (Scope.TRANSACTION_LIST, Scope.BANK_ACCOUNT_LIST)
            scopes = tuple(scope for scope in used if grant.allows(scope))
            yield _input(store, each.customer, grant.customer_id, checked_at, scopes)


def _input(
    store: PullStore,
    customer: bytes,
    customer_id: str,
    checked_at: int,
    scopes: tuple[str, ...],
) -> CashFlowInput:
    def table(kind: PulledKind, schema: pa.Schema) -> pa.Table:
        fields = load_fields(kind)
        rows = [
            {**fields.typed(version.raw, schema.names), "customer_id": customer_id}
            for block in store.current(customer, kind)
            for version in block
            if version.problem is None
        ]
        return pa.Table.from_pylist(rows, schema)

    has_accounts = Scope.BANK_ACCOUNT_LIST in scopes
    return CashFlowInput(
        customer,
        customer_id,
        checked_at,
        scopes,
        table(PulledKind.TRANSACTION, TRANSACTIONS),
        table(PulledKind.BANK_ACCOUNT, ACCOUNTS) if has_accounts else ACCOUNTS.empty_table(),
    )


def _blocks(inputs: Iterable[CashFlowInput]) -> Iterator[list[CashFlowInput]]:
    block: list[CashFlowInput] = []
    rows = 0
    for each in inputs:
        block.append(each)
        rows += each.transactions.num_rows
        if rows >= BLOCK:
            yield block
            block, rows = [], 0
    if block:
        yield block


def _tables(block: Sequence[CashFlowInput]) -> tuple[pa.Table, pa.Table, pa.Table]:
    """Return transactions, customers and accounts of some customers, as `CashFlow` takes them."""
    asked = [
        {"customer_id": each.customer_id, "checked_at": to_instant(each.checked_at)}
        for each in block
    ]
    return (
        pa.concat_tables([each.transactions for each in block]),
        pa.Table.from_pylist(asked, CUSTOMERS),
        pa.concat_tables([each.accounts for each in block]),
    )


def _kept(run: Run, cash_flow: CashFlow, block: Sequence[CashFlowInput]) -> pa.Table:
    """Return the figures of some customers, and keep them."""
    table = cash_flow.features(*_tables(block))
    figures = [
        CashFigures(
            key=each.customer.hex(),
            customer=each.customer,
            run_id=run.run_id,
            at=to_micros(row["tx_checked_at"]),
            scopes=each.scopes,
            figures=figures_document(row),
        )
        for each, row in zip(block, table.to_pylist(), strict=True)
    ]
    keep_figures(run.journal, figures)
    return table


def explain_cash_flow(
    journal: Journal, cash_flow: CashFlow, customer_id: str
) -> dict[str, Any] | None:
    """Return a customer's newest figures, and which rule took which transactions, as JSON has them.

    None where no consent is live or nothing was pulled. Of a narration nothing is shown but the
    words of a rule: whom somebody pays is not for the page.
    """
    customer = journal.pseudonyms.customers_anywhere([customer_id])
    figures = live_figures(journal, [customer]).get(customer)
    if figures is None:
        return None
    used = _input(PullStore(journal), customer, customer_id, figures.at, figures.scopes)
    return {
        "run_id": figures.run_id,
        "checked_at": instant_text(figures.at),
        "figures": figures.figures,
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
            for each in cash_flow.matches(*_tables([used]))
        ],
    }
