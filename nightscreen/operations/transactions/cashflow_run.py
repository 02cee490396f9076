"""A pull's cash flow: transactions from the journal, figures into it and the run's folder.

Whose consent is alive and whose list was kept has a row; nobody else. A pull of accounts works the
figures out again, for the balance of today. What the figures are is
`cashflow`'s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from nightscreen.client.aggregator import Scope
from nightscreen.files.outputs import CASHFLOW_FILE
from nightscreen.journal.consents import keep_figures, live_figures
from nightscreen.operations.transactions.cashflow import ACCOUNTS, CUSTOMERS, INPUT, NAIRA_WORDS
from nightscreen.operations.transactions.json_decode import parse_text
from nightscreen.operations.transactions.record_fields import load_fields
from nightscreen.operations.transactions.transaction_files import Transactions
from nightscreen.schemas.cashflow import CASHFLOW_SCHEMA, CashFigures, figures_document
from nightscreen.schemas.clock import instant_text, to_instant, to_micros
from nightscreen.schemas.consented import GrantState
from nightscreen.schemas.pulls import KEPT, Pulled, PulledKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from nightscreen.journal import Journal
    from nightscreen.operations.transactions.cashflow import CashFlow
    from nightscreen.operations.transactions.record_fields import RecordFields
    from nightscreen.operations.transactions.sync import TransactionSync
    from nightscreen.operations.transactions.transaction_files import Version

_TRANSACTIONS, _ACCOUNTS = Scope.TRANSACTION_LIST, Scope.BANK_ACCOUNT_LIST
BLOCK = 250_000
"""Transactions that are worked on at once: some 400 MB with the program's own."""


_USED = frozenset(INPUT.names) | {"account_name", "last_balance_time"}
"""The typed columns that figures rest on; to read the others too would double the time."""


class _Due(NamedTuple):
    """A customer whose figures are worked out.

    Attributes:
        checked_at: when the newest list of their transactions was answered, microseconds.
        scopes: those of the consent that the figures rest on.
    """

    customer: bytes
    customer_id: str
    checked_at: int
    scopes: tuple[str, ...]


def write_cash_flow(pull: TransactionSync, pulls: Iterable[Pulled]) -> int:
    """Write `cashflow.parquet` and keep its rows in the journal; return how many there are.

    Raises:
        SettingsError: a definition has a mistake.
        OutputError: the file cannot be written.
        JournalError: the journal cannot be used.
    """
    tables = _tables(pull, _due(pull, pulls))
    return pull.run.folder.write_parquet(CASHFLOW_FILE, CASHFLOW_SCHEMA, tables)


def _due(pull: TransactionSync, pulls: Iterable[Pulled]) -> Iterator[_Due]:
    grants = {each.customer: each for each in pull.consents.grants(GrantState.LIVE, _TRANSACTIONS)}
    for each in pulls:
        grant = grants.get(each.customer)
        if grant is None or each.outcome not in KEPT:
            continue
        checked_at = each.answered_at
        if pull.kind is not PulledKind.TRANSACTION:
            checked_at = pull.store.answered_at(each.customer)
        if checked_at is not None:
            scopes = tuple(scope for scope in (_TRANSACTIONS, _ACCOUNTS) if grant.allows(scope))
            yield _Due(each.customer, grant.customer_id, checked_at, scopes)


def _tables(pull: TransactionSync, due: Iterable[_Due]) -> Iterator[pa.Table]:
    types, account_types = load_fields(), load_fields(PulledKind.BANK_ACCOUNT)
    customers: list[_Due] = []
    transactions: list[pa.Table] = []  # a row of Python's own would take ten times the memory
    rows = 0
    accounts: list[dict[str, Any]] = []
    for each in due:
        customers.append(each)
        current = current_rows(types, pull.store.current(each.customer), each.customer_id)
        transactions.append(transaction_table(current))
        rows += len(current)
        if _ACCOUNTS in each.scopes:
            linked = pull.store.current(each.customer, PulledKind.BANK_ACCOUNT)
            accounts += current_rows(account_types, linked, each.customer_id)
        if rows >= BLOCK:
            yield _kept(pull, customers, pa.concat_tables(transactions), accounts)
            customers, transactions, rows, accounts = [], [], 0, []
    if customers:
        yield _kept(pull, customers, pa.concat_tables(transactions), accounts)


def _kept(
    pull: TransactionSync,
    customers: Sequence[_Due],
    transactions: pa.Table,
    accounts: Sequence[Mapping[str, Any]],
) -> pa.Table:
    """Return the figures of some customers, and keep them."""
    asked = customer_table((each.customer_id, each.checked_at) for each in customers)
    linked = account_table(accounts)
    table = pull.cash_flow.features(transactions, asked, linked)
    figures = [
        CashFigures(
            key=each.customer.hex(),
            customer=each.customer,
            run_id=pull.run.run_id,
            at=to_micros(row["tx_checked_at"]),
            scopes=each.scopes,
            figures=figures_document(row),
        )
        for each, row in zip(customers, table.to_pylist(), strict=True)
    ]
    keep_figures(pull.run.journal, figures)
    return table


def explain_cash_flow(
    journal: Journal, cash_flow: CashFlow, customer_id: str
) -> dict[str, Any] | None:
    """Return a customer's newest figures, and which rule took which transactions, as JSON has them.

    None where no consent is alive or nothing was pulled. Of a narration nothing is shown but the
    words of a rule: whom somebody pays is not for the page.
    """
    customer = journal.pseudonyms.customers_anywhere([customer_id])
    figures = live_figures(journal, [customer]).get(customer)
    if figures is None:
        return None
    store = Transactions.of(journal)
    rows = current_rows(load_fields(), store.current(customer), customer_id)
    accounts: list[dict[str, Any]] = []
    if _ACCOUNTS in figures.scopes:
        linked = store.current(customer, PulledKind.BANK_ACCOUNT)
        accounts = current_rows(load_fields(PulledKind.BANK_ACCOUNT), linked, customer_id)
    asked = customer_table([(customer_id, figures.at)])
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
            for each in cash_flow.matches(transaction_table(rows), asked, account_table(accounts))
        ],
    }


def customer_table(customers: Iterable[tuple[str, int]]) -> pa.Table:
    """Return customers with the instant of their answer, microseconds, as `CashFlow` takes them."""
    rows = [{"customer_id": id_, "checked_at": to_instant(at)} for id_, at in customers]
    return pa.Table.from_pylist(rows, schema=CUSTOMERS)


def transaction_table(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Return rows of `current_rows` as `CashFlow` takes them."""
    return pa.Table.from_pylist(list(rows), schema=INPUT)


def account_table(rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """Return linked accounts, typed, as `CashFlow` takes them: those in naira that still stand."""
    return pa.Table.from_pylist(
        [
            {
                "customer_id": row["customer_id"],
                "account": row.get("account_number"),
                "name": row.get("account_name"),
                "balance": row.get("balance"),
                "balance_at": row.get("last_balance_time"),
            }
            for row in rows
            if row.get("deleted_on") is None
            and (row.get("currency") or "NGN").strip().upper() in NAIRA_WORDS
        ],
        schema=ACCOUNTS,
    )


def current_rows(
    fields: RecordFields, versions: Iterable[Version], customer_id: str
) -> list[dict[str, Any]]:
    """Return what counts of a customer's records as they stand now; the unreadable are left out."""
    return [
        {**fields.values(parse_text(each.raw), _USED), "customer_id": customer_id}
        for each in versions
        if each.problem is None
    ]
