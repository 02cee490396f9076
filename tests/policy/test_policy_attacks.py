"""The policy's SQL attacked: what the reading refuses, and what the engine refuses behind it."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from nightscreen.policy.conditions import Condition, one_empty_row, read_conditions
from nightscreen.policy.engine import bounded, locked_connection
from nightscreen.policy.vocabulary import column_types
from nightscreen.schemas.errors import PolicyError

TYPES = column_types({})
ATTACKS: dict[str, str] = {
    **tomllib.loads(Path(__file__).with_name("attacks.toml").read_text("utf-8")),
    "long regular expression": f"regexp_matches(full_name, '{'a?' * 200}')",
    "deep brackets": "(" * 1900 + "true" + ")" * 1900,
    "deep negation": "not " * 900 + "true",
    "many parts": " or ".join(["exposure > 1"] * 300),
    "too long": "true " + " " * 4000,
    "nul character": "customer_id = '\x00' or (select 1) = 1",
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
        yield lambda when: read_conditions(connection, [when], TYPES, allow_sensitive=False)[0]


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
