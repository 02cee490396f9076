"""Cash flow: compute one row of figures for each customer from typed transactions.

DuckDB computes the figures, with the same restrictions as a policy. Narrations are first matched by
the rules of `data/narrations.toml`, which a lender can correct, and then dropped: the definitions
of `data/features.sql` see categories and numbers, never a text, so that no figure can depend on
whom a customer gives money to. A pull writes a row, in the journal and in the run's folder, for
each customer with a live consent and a stored list, and for no one else. A pull of accounts
computes the figures again, with the current balance.
"""

from __future__ import annotations

import re
from contextlib import closing, contextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self, TypeAlias

import duckdb
import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field, model_validator

from nightscreen.client.wire import Scope
from nightscreen.files.outputs import CASHFLOW_FILE
from nightscreen.journal.consents import Consents, keep_figures, live_figures
from nightscreen.operations.pulled_records import MONEY, PullStore, load_fields
from nightscreen.policy.engine import locked_connection
from nightscreen.schemas.clock import instant_text, to_instant
from nightscreen.schemas.consented import KEPT, CashFigures, GrantState, PulledKind
from nightscreen.schemas.enriched import CASHFLOW_SCHEMA, FEATURES, figures_document
from nightscreen.schemas.errors import SettingsError
from nightscreen.schemas.rows import INSTANT
from nightscreen.schemas.shipped import DATA, read_model

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from duckdb import DuckDBPyConnection

    from nightscreen.calling.run import Run
    from nightscreen.config.settings import Settings
    from nightscreen.journal import Journal
    from nightscreen.schemas.consented import Pulled


# --- rules for narrations ---

NARRATIONS: Final = DATA / "narrations.toml"

_SENSITIVE: Final = """
CHURCH TITHE TITHES OFFERING OFFERTORY PARISH DIOCESE MINISTRY MINISTRIES PASTOR CHAPEL CATHEDRAL
GOSPEL FELLOWSHIP EVANGELICAL MOSQUE MASJID ZAKAT ZAKKAT SADAQAH SADAKA ISLAMIC IMAM JUMAT SHRINE
TEMPLE RELIGIOUS RCCG MFM WINNERS NASFAT REDEEMED
HOSPITAL HOSPITALS CLINIC CLINICS PHARMACY CHEMIST MEDICAL HEALTH DIALYSIS MATERNITY DOCTOR DENTAL
HMO NHIS LABORATORY DIAGNOSTIC SURGERY
UNIONS NLC TUC ASUU NUT NURTW NUPENG PENGASSAN NMA
PARTY APC PDP APGA ADC SDP NNPP CAMPAIGN POLITICAL
"""
SENSITIVE: Final = frozenset(_SENSITIVE.split())
"""No rule may use these words, which reveal religion, health, union or party. A bank is called
Union: that word is refused only next to dues."""
_DUES: Final = (
    *("UNION DUE", "UNION DUES", "UNION FEE", "UNION FEES", "UNION LEVY", "UNION CHECK OFF"),
    "CHECK OFF DUES",
)
_UNION_DUES: Final = re.compile(rf"\b({'|'.join(_DUES)})\b")
_WORD: Final = re.compile(r"[A-Z0-9#]+\*?")


Words = tuple[Annotated[str, Field(min_length=2, max_length=60)], ...]


class NarrationRule(BaseModel):
    """One rule; the head of `data/narrations.toml` explains each field."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9 ,]{1,59}$")]
    category: Annotated[str, Field(pattern=r"^[a-z][a-z_]{1,29}$")]
    direction: Literal["credit", "debit", "any"] = "any"
    words: Annotated[Words, Field(min_length=1)]
    unless: Words = ()
    broad: bool = False

    @model_validator(mode="after")
    def _refuse_words(self) -> Self:
        """Refuse sensitive words, and signs that a pattern cannot contain."""
        for phrase in self.words:
            plain = phrase.upper()
            words = re.findall(r"[A-Z0-9]+", plain)
            sensitive = next((word for word in words if word in SENSITIVE), None)
            if sensitive is None and _UNION_DUES.search(" ".join(words)):
                sensitive = "UNION DUES"
            if sensitive is not None:
                raise ValueError(
                    f"the rule {self.name!r} rests on {sensitive}: religion, health, unions and "
                    "parties are no ground for a figure about anybody; take the word out"
                )
            if not all(_WORD.fullmatch(word) for word in re.findall(r"[^\s/.&'-]+", plain)):
                raise ValueError(
                    f"the rule {self.name!r} has a word of other signs than letters, digits, # "
                    "and *"
                )
        return self

    @property
    def pattern(self) -> str:
        """Return an RE2 pattern for the rule's words in a padded text."""
        return pattern_of(self.words)

    @property
    def exception(self) -> str:
        """Return an RE2 pattern for the words that exclude a text from the rule."""
        if not self.broad:
            return pattern_of(self.unless)
        return pattern_of((*self.unless, *sorted(SENSITIVE), *_DUES))


class _Source(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    noise: Words


class Narrations(BaseModel):
    """The contents of `data/narrations.toml`."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    thresholds: dict[
        Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,40}$")],
        Annotated[Decimal, Field(ge=0, max_digits=18, decimal_places=10)],
    ]
    source: _Source
    rule: Annotated[tuple[NarrationRule, ...], Field(min_length=1, max_length=200)]


def pattern_of(words: tuple[str, ...]) -> str:
    """Return an RE2 pattern for any of some words in a text that is padded with blanks."""
    return f" (?:{'|'.join(map(_phrase_pattern, words))}) "


def _phrase_pattern(phrase: str) -> str:
    plain = " ".join(re.sub(r"[^A-Z0-9#*]+", " ", phrase.upper()).split())
    return plain.replace("#", "[0-9]+").replace("*", "[A-Z0-9]*")


# --- figures ---

DEFINITIONS: Final = DATA / "features.sql"
MEMORY: Final = "512MB"  # enough for a block of `write_cash_flow`; nothing is spilled to disk

_TEXT: Final = pa.string()
TRANSACTIONS: Final = pa.schema(
    dict.fromkeys(("customer_id", "account_number", "currency"), _TEXT)
    | dict.fromkeys(("amount", "balance"), MONEY)
    | dict.fromkeys(("entry_type", "transaction_type", "status", "narration", "reference"), _TEXT)
    | dict.fromkeys(("transaction_date", "deleted_on"), INSTANT)
)
"""The columns of typed transactions that are used. Of equal instants the newer comes first."""
CUSTOMERS: Final = pa.schema({"customer_id": _TEXT, "checked_at": INSTANT})
ACCOUNTS: Final = pa.schema(
    dict.fromkeys(("customer_id", "account_number", "account_name", "currency"), _TEXT)
    | {"balance": MONEY, "last_balance_time": INSTANT, "deleted_on": INSTANT}
)
"""The columns of typed linked accounts that are used."""
NO_ACCOUNTS: Final = ACCOUNTS.empty_table()

_LAGOS: Final = "INTERVAL 1 HOUR"  # no daylight saving time
_PADDED: Final = (
    "' ' || trim(regexp_replace(upper(strip_accents({0})), '[^A-Z0-9]+', ' ', 'g')) || ' '"
)
_NAIRA: Final = ("NGN", "NAIRA", "")  # values of `currency` that mean naira
_NOT_SETTLED: Final = (
    *("pending", "processing", "failed", "failure", "declined", "cancelled", "canceled"),
    *("rejected", "reversed", "error", "abandoned"),
)
"""Values of `status` of transactions that moved no money, or were reversed."""
_ABOUT: Final = "see the head of data/features.sql"


@dataclass(frozen=True, slots=True)
class CashFlow:
    """A lender's rules and definitions, read once."""

    narrations: Narrations
    definitions: str  # SQL
    name: str  # of the file of definitions, for error texts

    @classmethod
    def of(cls, settings: Settings) -> CashFlow:
        """Read the files named by the settings, else those in HOME, else those of the package.

        Raises:
            SettingsError: a file cannot be read or has a mistake; the text names it.
        """
        path = settings.own_table("features") or DEFINITIONS
        try:
            definitions = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"{path} cannot be read: {error}") from None
        narrations = settings.own_table("narrations")
        rules = read_model(narrations or NARRATIONS, Narrations)
        cash_flow = cls(rules, definitions, str(path))
        if narrations is not None or path != DEFINITIONS:  # find mistakes before any call is made
            cash_flow.features(TRANSACTIONS.empty_table(), CUSTOMERS.empty_table())
        return cash_flow

    def features(
        self, transactions: pa.Table, customers: pa.Table, accounts: pa.Table = NO_ACCOUNTS
    ) -> pa.Table:
        """Return one row of `CASHFLOW_SCHEMA` for each customer, ordered by customer_id.

        Args:
            transactions: these customers' current transactions, with the columns of `TRANSACTIONS`.
            customers: each customer once, with the columns of `CUSTOMERS`.
            accounts: their linked accounts, if pulled, with the columns of `ACCOUNTS`.

        Raises:
            SettingsError: a definition is not valid SQL, uses what is not allowed, or returns two
                rows for a customer.
        """
        with self._matched(transactions, customers, accounts) as connection:
            connection.execute("DROP TABLE texts")
            connection.execute("ALTER TABLE transactions DROP COLUMN form")
            try:
                for statement in connection.extract_statements(self.definitions):
                    if statement.type is not duckdb.StatementType.CREATE:
                        raise SettingsError(
                            f"{self.name}: only CREATE TABLE and CREATE VIEW are allowed here, not "
                            f"{statement.type.name}; {_ABOUT}"
                        )
                    connection.execute(statement)
                return self._gathered(connection)
            except duckdb.OutOfMemoryException:
                raise SettingsError(
                    f"{self.name}: a definition needs more memory than it may use; make it simpler"
                ) from None
            except duckdb.Error as error:
                raise SettingsError(
                    f"{self.name}: {str(error).splitlines()[0]}; {_ABOUT}"
                ) from None

    def matches(
        self, transactions: pa.Table, customers: pa.Table, accounts: pa.Table = NO_ACCOUNTS
    ) -> list[dict[str, Any]]:
        """Return the transactions of each rule, counted, the most naira first, for JSON.

        Of a narration only the words that matched a rule are shown.
        """
        with self._matched(transactions, customers, accounts) as connection:
            rows = connection.sql(
                """
                SELECT nullif(rule, '') AS rule, nullif(category, '') AS category,
                    CASE WHEN credit THEN 'credit' ELSE 'debit' END AS direction,
                    list_sort(list(DISTINCT found) FILTER (found <> '')) AS words,
                    count(*) AS transactions, sum(amount)::VARCHAR AS naira,
                    max(day)::VARCHAR AS last
                FROM (
                    SELECT transactions.*, trim(texts.words) AS found
                    FROM transactions JOIN texts ON transactions.form = texts.form_id
                )
                GROUP BY rule, category, credit ORDER BY sum(amount) DESC, rule
                """
            ).to_arrow_table()
        return [{**row, "words": row["words"] or []} for row in rows.to_pylist()]

    @contextmanager
    def _matched(
        self, transactions: pa.Table, customers: pa.Table, accounts: pa.Table
    ) -> Iterator[DuckDBPyConnection]:
        """Yield a connection with the tables that the definitions use, and `texts`."""
        with closing(locked_connection(MEMORY)) as connection:
            for name, table in (
                ("raw", transactions.select(TRANSACTIONS.names)),
                ("raw_customers", customers),
                ("raw_accounts", accounts),
            ):
                connection.register(name, _for_duckdb(table))
            numbers = ", ".join(
                f"{value}::DECIMAL(18, 10) AS {name}"
                for name, value in self.narrations.thresholds.items()
            )
            connection.execute(f"CREATE TABLE thresholds AS SELECT {numbers}")
            for statements in (_SETTLED, self._texts(), _TRANSACTIONS):
                connection.execute(statements)
            for name in ("raw", "raw_customers", "raw_accounts"):
                connection.unregister(name)
            yield connection

    def _texts(self) -> str:
        """Return the SQL that matches every distinct text once."""
        rules, words = [], []
        for number, rule in enumerate(self.narrations.rule):
            condition = f"regexp_matches(whole, '{rule.pattern}')"
            if rule.unless or rule.broad:
                condition += f" AND NOT regexp_matches(whole, '{rule.exception}')"
            if rule.direction != "any":
                negation = "" if rule.direction == "credit" else "NOT "
                condition = f"{negation}of_credit AND {condition}"
            rules.append(f"WHEN {condition} THEN {number}")
            words.append(f"WHEN {number} THEN regexp_extract(whole, '{rule.pattern}')")
        names = ", ".join(f"'{rule.name}'" for rule in self.narrations.rule)
        categories = ", ".join(f"'{rule.category}'" for rule in self.narrations.rule)
        noise = "|".join(
            "".join(sign for sign in word.upper() if sign.isalnum())
            for word in self.narrations.source.noise
        )
        plain = f"regexp_replace(text, '\\b(?:{noise}|[A-Z]*[0-9][A-Z0-9]*)\\b', ' ', 'g')"
        return f"""
            CREATE TABLE texts AS
            WITH written AS (
                SELECT DISTINCT form, kind, credit AS of_credit FROM settled
            ), padded AS (
                SELECT *, {_PADDED.format("form")} AS text,
                    replace(text || {_PADDED.format("kind")}, '  ', ' ') AS whole
                FROM written
            ), ruled AS (
                SELECT *, CASE {" ".join(rules)} END AS number,
                    trim(regexp_replace({plain}, ' +', ' ', 'g')) AS plain
                FROM padded
            )
            SELECT row_number() OVER () AS form_id, form, kind, of_credit, text, plain,
                coalesce([{names}][number + 1], '') AS rule,
                coalesce([{categories}][number + 1], '') AS category,
                CASE number {" ".join(words)} ELSE '' END AS words,
                left(split_part(plain, ' ', 1), 6) || left(split_part(plain, ' ', 2), 3) AS payer,
                CASE WHEN payer || category <> '' THEN hash(coalesce(nullif(payer, ''), category))
                END AS source
            FROM ruled
            """  # noqa: S608 - from checked words only

    def _gathered(self, connection: DuckDBPyConnection) -> pa.Table:
        """Return a row for each customer, with a column for each feature."""
        views = {
            name
            for (name,) in connection.execute(
                "SELECT view_name FROM duckdb_views() WHERE NOT internal"
            ).fetchall()
        }
        missing = next((name for name in FEATURES if name not in views), None)
        if missing is not None:
            raise SettingsError(f"{self.name}: there is no view {missing}; {_ABOUT}")
        unknown = sorted(name for name in views if name.startswith("tx_") and name not in FEATURES)
        if unknown:
            raise SettingsError(
                f"{self.name}: {unknown[0]} is no feature; name what only others use without tx_"
            )
        customers = connection.sql("FROM customers ORDER BY customer_id").to_arrow_table()
        columns = [customers["name"], customers["checked_at"].cast(INSTANT)]
        empty = connection.from_arrow(CASHFLOW_SCHEMA.empty_table())
        sql_types = dict(zip(empty.columns, empty.dtypes, strict=True))
        for name, kind in FEATURES.items():
            # One by one: planning a join of all of them takes longer than computing them.
            column = connection.sql(
                f"SELECT CAST(value AS {sql_types[name]}) FROM customers "  # noqa: S608
                f"LEFT JOIN (FROM {name}) AS made (customer_id, value) USING (customer_id) "
                "ORDER BY customer_id"
            ).to_arrow_table()
            if column.num_rows != customers.num_rows:
                raise SettingsError(
                    f"{self.name}: {name} gives a customer several rows; group it by customer_id"
                )
            columns.append(column.column(0).cast(kind))
        return pa.table(columns, schema=CASHFLOW_SCHEMA)


_SETTLED: Final = f"""
    CREATE TABLE customers AS
    SELECT row_number() OVER () AS customer_id, customer_id AS name, checked_at,
        (checked_at + {_LAGOS})::DATE AS as_of
    FROM raw_customers;

    CREATE TABLE accounts AS
    SELECT customers.customer_id, coalesce(account_number, '') AS account,
        coalesce(account_name, '') AS holder,
        try_cast(balance AS DECIMAL(18, 2)) AS balance,
        last_balance_time + {_LAGOS} AS balance_at
    FROM raw_accounts JOIN customers ON customers.name = raw_accounts.customer_id
    WHERE deleted_on IS NULL AND coalesce(upper(trim(currency)), 'NGN') IN {_NAIRA};

    CREATE TABLE owners AS
    SELECT customer_id,
        list_distinct(flatten(list(list_filter(
            string_split(trim({_PADDED.format("holder")}), ' '),
            lambda word: length(word) >= 3)))) AS names,
        list(DISTINCT account) FILTER (length(account) >= 10) AS numbers
    FROM accounts GROUP BY customer_id;
    ALTER TABLE accounts DROP COLUMN holder;

    CREATE TABLE settled AS
    SELECT row_number() OVER (ORDER BY raw.transaction_date, place DESC) AS id,
        customers.customer_id,
        coalesce(account_number, '') AS account,
        raw.transaction_date + {_LAGOS} AS moment,
        CASE WHEN upper(left(trim(entry_type), 1)) = 'C' THEN true
            WHEN upper(left(trim(entry_type), 1)) = 'D' THEN false
            WHEN lower(trim(transaction_type)) = 'credit' THEN true
            WHEN lower(trim(transaction_type)) = 'debit' OR raw.amount < 0 THEN false
        END AS credit,
        try_cast(abs(raw.amount) AS DECIMAL(18, 2)) AS amount,
        try_cast(raw.balance AS DECIMAL(18, 2)) AS balance,
        nullif(trim(reference), '') AS reference,
        upper(trim(coalesce(raw.narration, ''))) AS narration,
        regexp_replace(narration, '[0-9]{{4,}}', '0', 'g') AS form,
        upper(coalesce(transaction_type, '')) AS kind
    FROM (SELECT *, row_number() OVER () AS place FROM raw) AS raw
    JOIN customers ON customers.name = raw.customer_id
    WHERE raw.transaction_date <= checked_at AND deleted_on IS NULL
        AND coalesce(upper(trim(currency)), 'NGN') IN {_NAIRA}
        AND coalesce(lower(trim(status)), '') NOT IN {_NOT_SETTLED}
        AND raw.amount IS NOT NULL
    QUALIFY credit IS NOT NULL
    """  # noqa: S608 - constants
"""SQL: customers, their linked accounts and own names, and every transaction that moved money, in
one format for all sources."""

_TRANSACTIONS: Final = """
    CREATE TABLE transactions AS
    SELECT id, settled.customer_id, account, moment, moment::DATE AS day,
        date_trunc('month', moment)::DATE AS month, credit, amount, balance,
        CASE WHEN length(reference) >= 6 THEN hash(reference) END AS reference,
        hash(narration) AS text, form_id AS form,
        coalesce(texts.source, hash(narration)) AS source,
        rule, category,
        coalesce(
            (len(names) >= 2
                AND len(list_filter(
                    names, lambda word: contains(texts.text, ' ' || word || ' '))) >= 2
                AND len(list_filter(string_split(texts.plain, ' '),
                    lambda word: length(word) >= 3 AND NOT list_contains(names, word))) = 0)
            OR len(list_filter(numbers, lambda number: number <> account
                AND contains(narration, number)
                AND contains(' ' || regexp_replace(narration, '[^A-Z0-9]+', ' ', 'g') || ' ',
                    ' ' || number || ' '))) >= 1,
            false) AS own_name
    FROM settled
    JOIN texts ON texts.form = settled.form AND texts.kind = settled.kind
        AND texts.of_credit = settled.credit
    LEFT JOIN owners ON owners.customer_id = settled.customer_id
    WHERE amount > 0;
    DROP TABLE settled;
    DROP TABLE owners;
    ALTER TABLE texts DROP COLUMN plain;
    ALTER TABLE texts DROP COLUMN text
    """
"""SQL: transactions as the definitions see them. `own_name`: the narration has two of the
customer's own names and no other name, or the number of another of their accounts."""


def _for_duckdb(table: pa.Table) -> pa.Table:
    """Return a table whose instants have no zone, so that the machine's zone cannot shift them."""
    for index, column in enumerate(table.schema):
        if column.type == INSTANT:
            values = table[column.name].cast(pa.timestamp("us"))
            table = table.set_column(index, column.name, values)
    return table


BLOCK = 250_000  # transactions processed at once: some 400 MB with the program's own memory
_Tables: TypeAlias = tuple[pa.Table, pa.Table, pa.Table]
"""Transactions, customers and accounts: the arguments of `CashFlow.features`."""


def write_cash_flow(
    run: Run, store: PullStore, cash_flow: CashFlow, pulls: Iterable[Pulled]
) -> int:
    """Write `cashflow.parquet`, save its rows in the journal, and return how many there are.

    Raises:
        SettingsError: a definition has a mistake.
        OutputError: the file cannot be written.
        JournalError: the journal cannot be used.
    """

    def computed(figures: Sequence[CashFigures], tables: Sequence[_Tables]) -> pa.Table:
        """Compute and save the figures of some customers."""
        table = cash_flow.features(*map(pa.concat_tables, zip(*tables, strict=True)))
        rows = zip(figures, table.to_pylist(), strict=True)
        filled = [each.model_copy(update={"figures": figures_document(row)}) for each, row in rows]
        keep_figures(run.journal, filled)
        return table

    def blocks() -> Iterator[pa.Table]:
        block, tables, rows = list[CashFigures](), list[_Tables](), 0
        for figures, customer_id in _consenting(run, store, pulls):
            block.append(figures)
            tables.append(_typed(store, figures, customer_id))
            rows += tables[-1][0].num_rows
            if rows >= BLOCK:
                yield computed(block, tables)
                block, tables, rows = [], [], 0
        if block:
            yield computed(block, tables)

    return run.folder.write_parquet(CASHFLOW_FILE, CASHFLOW_SCHEMA, blocks())


def _consenting(
    run: Run, store: PullStore, pulls: Iterable[Pulled]
) -> Iterator[tuple[CashFigures, str]]:
    """Yield empty figures and the customer_id of each pulled customer with a live consent."""
    live = Consents(run.journal).grants(GrantState.LIVE, Scope.TRANSACTION_LIST)
    grants = {each.customer: each for each in live}
    for each in pulls:
        grant = grants.get(each.customer)
        if grant is None or each.state not in KEPT:
            continue
        answered: Pulled | None = each
        if each.pulled is not PulledKind.TRANSACTION:
            with run.journal.database.reading() as connection:
                answered = store.last_stored(connection, each.customer, PulledKind.TRANSACTION)
        checked_at = None if answered is None else answered.answered_at
        if checked_at is not None:
            scopes = (Scope.TRANSACTION_LIST, Scope.BANK_ACCOUNT_LIST)
            figures = CashFigures(
                key=each.customer.hex(),
                customer=each.customer,
                run_id=run.run_id,
                at=checked_at,
                scopes=tuple(scope for scope in scopes if grant.allows(scope)),
                figures={},
            )
            yield figures, grant.customer_id


def _typed(store: PullStore, figures: CashFigures, customer_id: str) -> _Tables:
    """Return a customer's current records, without unreadable ones."""

    def table(kind: PulledKind, schema: pa.Schema) -> pa.Table:
        fields = load_fields(kind)
        rows = [
            {**fields.typed(raw, schema.names), "customer_id": customer_id}
            for stored, raw in store.current(figures.customer, kind)
            if stored.problem is None
        ]
        return pa.Table.from_pylist(rows, schema)

    customer = {"customer_id": customer_id, "checked_at": to_instant(figures.at)}
    has_accounts = Scope.BANK_ACCOUNT_LIST in figures.scopes
    return (
        table(PulledKind.TRANSACTION, TRANSACTIONS),
        pa.Table.from_pylist([customer], CUSTOMERS),
        table(PulledKind.BANK_ACCOUNT, ACCOUNTS) if has_accounts else NO_ACCOUNTS,
    )


def explain_cash_flow(
    journal: Journal, cash_flow: CashFlow, customer_id: str
) -> dict[str, Any] | None:
    """Return a customer's newest figures and the transactions of each rule, for JSON.

    None without a live consent or without figures. Of a narration only the words of a rule are
    shown, not whom the customer pays.
    """
    customer = journal.pseudonyms.customers_anywhere([customer_id])
    figures = live_figures(journal, [customer]).get(customer)
    if figures is None:
        return None
    return {
        "run_id": figures.run_id,
        "checked_at": instant_text(figures.at),
        "figures": figures.figures,
        "rules": cash_flow.matches(*_typed(PullStore(journal), figures, customer_id)),
    }
