"""The policy's SQL attacked: what the reading refuses, and what the engine refuses behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
import pytest

from nightscreen.policy.engine import bounded, locked_engine
from nightscreen.policy.sql import read_condition
from nightscreen.schemas.errors import PolicyError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ATTACKS = {
    "read a file": "read_text('/etc/passwd') is not null",
    "read a table file": "(select count(*) from read_csv('/etc/passwd')) > 0",
    "file as a table": "exists (from '/etc/passwd')",
    "list files": "glob('/*') is not null",
    "network": "(select count(*) from read_csv('http://127.0.0.1:9/x')) > 0",
    "environment": "getenv('HOME') is not null",
    "settings": "(select count(*) from duckdb_settings()) > 0",
    "one setting": "current_setting('threads') = '1'",
    "catalog": "(select count(*) from information_schema.tables) > 0",
    "query in a query": "query('select 1') is not null",
    "variable": "getvariable('x') is null",
    "sequence": "nextval('s') > 0",
    "another statement": "true; create table stolen as select 1",
    "closing the bracket": "true) from rows where (true",
    "closing it with a union": "true) union all select (true",
    "closing it with a common table": "true) from (values (1)) t(x) cross join rows where (true",
    "endless join": "(select count(*) from rows a, rows b, rows c, rows d) > 0",
    "recursion": "(with recursive t as (select 1 i union all select i + 1 from t) "
    "select max(i) from t) > 0",
    "huge text": "length(repeat('x', 1000000000)) > 1",
    "huge text by padding": "length(lpad('x', 1000000000, 'x')) > 1",
    "text that doubles": "length(full_name || full_name) > 1",
    "text that grows": "length(replace(full_name, 'a', 'aaaaaaaaaa')) > 1",
    "number that grows": "cast(exposure as varint) > 1",
    "range bomb": "length(range(1000000000)) > 1",
    "series bomb": "length(generate_series(1, 1000000000)) > 1",
    "unnest": "unnest([1, 2]) > 1",
    "list that doubles": "len(list_filter([1], lambda x: len([x, x]) > 1)) > 0",
    "list in a list": "list_filter([1], lambda x: len(list_filter([1], lambda y: true)) > 0) = [1]",
    "list made over": "list_transform(karma_listed_by, lambda x: x) is not null",
    "list reduced": "list_reduce([1, 2], lambda x, y: x + y) > 0",
    "regular expression bomb": "regexp_matches(full_name, '(?:a{0,500}){20}b')",
    "long regular expression": f"regexp_matches(full_name, '{'a?' * 200}')",
    "regular expression of a row": "regexp_matches(full_name, email)",
    "pattern of a row": "full_name like email",
    "star": "count(*) > 0",
    "columns": "columns('.*') is not null",
    "window": "row_number() over () < 10",
    "aggregate": "sum(exposure) > 0",
    "parameter": "exposure > $1",
    "number of a column": "#1 is null",
    "clock": "now() > karma_checked_at",
    "day": "current_date > date_of_birth",
    "chance": "random() > 0.5",
    "cast to something else": "cast(customer_id as json) is not null",
    "cast to a type of a schema": "cast(customer_id as main.secret) is not null",
    "function of a schema": "system.main.lower(customer_id) = 'x'",
    "column of a table": "rows.customer_id = 'x'",
    "collation": "customer_id collate nocase = 'x'",
    "copy": "copy rows to '/tmp/x'",
    "attach": "attach '/tmp/x.db'",
    "install": "install httpfs",
    "pragma": "pragma threads=4",
    "set": "set threads = 4",
    "deep brackets": "(" * 1900 + "true" + ")" * 1900,
    "deep negation": "not " * 900 + "true",
    "many parts": " or ".join(["exposure > 1"] * 300),
    "too long": "true " + " " * 4000,
    "nul character": "customer_id = '\x00' or (select 1) = 1",
}


@pytest.fixture
def engine() -> Iterator[duckdb.DuckDBPyConnection]:
    """Give a locked engine with rows to attack from."""
    with locked_engine("256MB") as connection:
        connection.register("rows", pa.table({"customer_id": [f"C{i}" for i in range(100_000)]}))
        yield connection


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS.keys())
def test_an_attack_is_refused_unread(engine: duckdb.DuckDBPyConnection, attack: str) -> None:
    """What is not one plain expression never becomes SQL that could be run."""
    condition = read_condition(engine, attack)
    assert condition.findings
    assert condition.sql == ""


@pytest.mark.parametrize(
    "statement",
    [
        "select * from read_text('/etc/passwd')",
        "select * from '/etc/passwd'",
        "select * from read_csv('http://127.0.0.1:9/x')",
        "copy rows to '{folder}/stolen.csv'",
        "attach '{folder}/stolen.db'",
        "export database '{folder}/stolen'",
        "install httpfs",
        "load httpfs",
        "set threads = 8",
        "set enable_external_access = true",
        "reset lock_configuration",
        "pragma temp_directory = '{folder}'",
        "select getenv('HOME')",
        "select * from treasure",
    ],
)
def test_the_engine_itself_reaches_nothing(
    engine: duckdb.DuckDBPyConnection, tmp_path: Path, statement: str
) -> None:
    """Behind the reading stands a second wall: files, network, settings and Python are out."""
    treasure = pa.table({"secret": ["gold"]})
    with pytest.raises(duckdb.Error):
        bounded(engine, statement.format(folder=tmp_path)).fetchall()
    assert list(tmp_path.iterdir()) == []
    assert treasure.num_rows == 1


@pytest.mark.parametrize(
    "statement",
    [
        "select count(*) from rows a, rows b, rows c where a.customer_id || b.customer_id <> 'x'",
        "select count(*) from range(1000000000000)",
        "with recursive t as (select 1 i union all select i + 1 from t) select max(i) from t",
    ],
)
def test_the_engine_stops_what_does_not_end(
    engine: duckdb.DuckDBPyConnection, statement: str
) -> None:
    """A watchdog interrupts the query in time, and says what to do."""
    with pytest.raises(PolicyError, match=r"took longer than 0\.3 seconds"):
        bounded(engine, statement, timeout_s=0.3)
    assert bounded(engine, "select 1").fetchall() == [(1,)]


def test_the_engine_does_not_outgrow_its_memory() -> None:
    """A query that would gather more than its memory is an error, and nothing is spilled."""
    with locked_engine("64MB") as connection, pytest.raises(PolicyError, match="more memory"):
        bounded(connection, "select list(range) from range(100000000)", timeout_s=20)


@pytest.mark.parametrize(
    "condition",
    [
        "exposure >= 100000",
        "karma_status = 'listed' -- as the service says",
        "full_name = 'O''Brien; drop table rows' /* a name */",
        "len(list_filter(karma_listings, lambda l: l.identity_kind = 'bvn')) > 0",
        "'bvn' in karma_listed_by",
        "ecosystem_extra ->> '$.employer' = 'x'",
        "case when exposure is null then true else exposure > 5 end",
        "date_diff('day', cast(karma_checked_at as date), date '2025-01-01') > 30",
        "bank_account_name ilike '%ltd%' and not regexp_matches(full_name, '^[A-Z]{2,5}$')",
        "karma_checked_at > timestamp '2025-01-01' - interval 30 days",
        "coalesce(exposure, 0) between 1 and 9 and exposure is distinct from 5",
        "try_cast(customer_id as integer) > 3",
    ],
)
def test_a_plain_condition_is_written_anew(
    engine: duckdb.DuckDBPyConnection, condition: str
) -> None:
    """What is allowed comes out as SQL that means the same when read again."""
    first = read_condition(engine, condition)
    assert first.findings == []
    again = read_condition(engine, first.sql)
    assert (again.findings, again.sql) == ([], first.sql)
