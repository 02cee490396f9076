"""The policy's SQL attacked: what the reading refuses, and what the engine refuses behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from nightscreen.policy.conditions import Condition, one_empty_row, read_condition
from nightscreen.policy.engine import bounded, locked_connection
from nightscreen.policy.vocabulary import column_types
from nightscreen.schemas.errors import PolicyError

TYPES = column_types({})
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
    "sleep": "sleep_ms(10) is null",
    "write into the log": "write_log('x') is null",
    "raise": "error('stop') is null",
    "raise by a macro": "assert_true(false) is null",
    "number of a transaction": "txid_current() > 0",
    "who asks": "current_user = 'x'",
    "which database": "current_database() = 'memory'",
    "version of the engine": "version() = 'x'",
    "hash that a release changes": "hash(customer_id) % 2 = 0",
    "clock without a name": "age(karma_checked_at) > interval 30 days",
    "clock that is called steady": "current_localtimestamp() > karma_checked_at",
    "time zone of the session": "timezone('Africa/Lagos', karma_checked_at) is null",
    "instant with a zone": "cast(karma_checked_at as timestamptz) is null",
    "a new identifier": "uuid() is not null",
    "seed": "setseed(0.5) is null",
    "text by a format": "printf('%1000000000d', 1) = 'x'",
    "text by another base": "to_base(1, 2, 1000000) = 'x'",
    "text by a bar": "bar(1, 0, 1, 1000000) = 'x'",
    "text put together": "concat_ws(',', full_name, full_name) = 'x'",
    "text by a regular expression": "regexp_replace(full_name, '', 'aaaa', 'g') = 'x'",
    "text taken to pieces": "len(string_split(full_name, '')) > 1",
    "text turned to bytes": "encode(full_name) is not null",
    "each letter with each": "levenshtein(full_name, email) > 3",
    "list of a list": "len(list_value([1], [2])) > 1",
    "list joined by a macro": "list_append(karma_listed_by, 'x') is not null",
    "list sorted by a lambda": "list_sort(karma_listed_by) is not null",
    "list folded": "list_aggregate(karma_listed_by, 'string_agg', ',') = 'x'",
    "lambda alone": "(lambda x: x) is null",
    "lambda of two names": "len(list_filter(karma_listed_by, lambda x, i: i > 1)) > 0",
    "lambda over a column": "len(list_filter(karma_listed_by, lambda exposure: exposure > 1)) > 0",
    "lambda in another function": "starts_with(full_name, lambda x: x)",
    "any of a list": "'bvn' = any(karma_listed_by)",
    "query in a case": "case when (select true) then true end",
    "query in a list": "exposure in (select 1)",
    "row of values": "(exposure, cost) = (1, 2)",
    "record": "struct_pack(a := exposure).a > 1",
    "map": "map {'a': exposure}['a'] > 1",
    "slice of a text": "full_name[1:3] = 'x'",
    "glob of a row": "full_name glob email",
    "pattern with its escape of a row": "full_name like 'a%' escape email",
    "path of a row": "json_extract_string(ecosystem_extra, full_name) = 'x'",
    "plan of a query": "json_serialize_plan('select 1') is not null",
    "table of types": "typeof(exposure) = 'DECIMAL'",
    "enum of a type": "enum_first(null::bool) is null",
    "no such column": "no_such_column",
    "row number": "rowid > 1",
    "table as a value": "rows is null",
    "all columns of a table": "rows.* is not null",
    "filter of an aggregate": "count(exposure) filter (exposure > 1) > 0",
    "named argument": "lower(x := full_name) = 'x'",
    "number that cannot be": "cast('abc' as integer) > 3",
    "day that cannot be": "date_of_birth > 'tomorrow'",
    "number in a list that cannot be": "exposure in ('1', 'much')",
    "part of a day that is none": "date_part('shoe', date_of_birth) > 1",
    "cast in a lambda that cannot be": "len(list_filter(karma_listings, "
    "lambda each: each.default_date > 'never')) > 0",
    "sentence after the condition": "true order by 1",
    "limit": "true) limit (1",
    "second value": "true), (true",
    "name for the value": "true) as decision, (true",
    "into a table": "true) into stolen from (select 1",
    "comment that does not end": "true /* and",
    "quote that does not end": "customer_id = 'x",
}


@pytest.fixture(scope="module")
def engine() -> Iterator[duckdb.DuckDBPyConnection]:
    with locked_connection("256MB") as connection:
        customers = pa.array([f"C{i}" for i in range(100_000)])
        connection.register("rows", pa.table({"customer_id": customers}))
        yield connection


@pytest.fixture(scope="module")
def read() -> Iterator[Callable[[str], Condition]]:
    """Give what reads a condition as a policy that wants nothing sensitive has it."""
    with locked_connection("256MB", optimizer=False) as connection:
        connection.register("rows", one_empty_row(TYPES))
        yield lambda when: read_condition(connection, when, TYPES, allow_sensitive=False)


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS.keys())
def test_an_attack_is_refused(read: Callable[[str], Condition], attack: str) -> None:
    """What is not one plain expression over known columns never becomes SQL that is run on rows."""
    condition = read(attack)
    assert condition.issues
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
        bounded(engine, statement.format(folder=tmp_path))
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
    assert bounded(engine, "select 1 as one").to_pylist() == [{"one": 1}]


def test_the_engine_does_not_outgrow_its_memory() -> None:
    """A query that would gather more than its memory is an error, and nothing is spilled."""
    with locked_connection("64MB") as connection, pytest.raises(PolicyError, match="more memory"):
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
    read: Callable[[str], Condition], condition: str
) -> None:
    """What is allowed comes out as SQL that means the same when read again."""
    first = read(condition)
    assert first.issues == ()
    again = read(first.sql)
    assert (again.issues, again.sql) == ((), first.sql)
