"""The engine that evaluates conditions: DuckDB on Arrow tables, locked down and bounded.

It has no access to files, network, settings, extensions or Python variables, and limits time and
memory. It is the second line of defence: `conditions` already refuses whatever would try.
`results/decide.py` applies the rules.
"""

from __future__ import annotations

import atexit
import threading
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from nightscreen.schemas.errors import PolicyError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from duckdb import DuckDBPyConnection

TIMEOUT_S = 60.0  # a choice, for all rules on one block of rows: no condition delays a run
MEMORY = "1GB"
_AGAIN_S = 0.1  # an interrupt between two statements stops nothing, so it is repeated

_CONFIG: dict[str, str] = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",
    "temp_directory": "",
    "threads": "1",
    # A division by zero is an error of its row, never an infinity that passes a threshold.
    "ieee_floating_point_ops": "false",
}


def locked_connection(memory: str = "", *, optimizer: bool = True) -> DuckDBPyConnection:
    """Return a connection that can read only the tables registered with it.

    Args:
        memory: opens a separate database with this memory limit, such as `256MB`, which takes
            30 ms. By default the connection is to a database that the process shares, where all
            tables must be TEMP. Neither spills to disk.
        optimizer: off for conditions, where planning takes longer than judging the rows. It would
            also move a part that two conditions share out of the TRY that guards each row.
    """
    if not memory:
        return _shared_database(optimizer=optimizer).cursor()
    optimizes = {"enable_optimizer": str(optimizer).lower()}
    connection = duckdb.connect(config={**_CONFIG, **optimizes, "memory_limit": memory})
    connection.execute("SET lock_configuration = true")
    return connection


@cache
def _shared_database(*, optimizer: bool) -> DuckDBPyConnection:
    return locked_connection(MEMORY, optimizer=optimizer)


def close_shared_database() -> None:
    """Close the process's shared database; the next connection opens it again."""
    _shared_database.cache_clear()


atexit.register(close_shared_database)  # DuckDB warns about connections still open at the exit


@contextmanager
def streamed(
    connection: DuckDBPyConnection, name: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> Iterator[None]:
    """Register batches as a table that one query inside the `with` may read.

    DuckDB reports whatever ends their iteration as an error of its own; it is raised as it was.
    """
    ended: list[Exception | KeyboardInterrupt | SystemExit] = []

    def watched() -> Iterator[pa.RecordBatch]:
        try:
            yield from batches
        except (Exception, KeyboardInterrupt, SystemExit) as error:
            ended.append(error)
            raise

    connection.register(name, pa.RecordBatchReader.from_batches(schema, watched()))
    try:
        yield
    except duckdb.Error:
        if ended:
            raise ended.pop() from None
        raise


def bounded(connection: DuckDBPyConnection, sql: str, timeout_s: float = TIMEOUT_S) -> pa.Table:
    """Return the result of a query, which must end within `timeout_s` seconds.

    Raises:
        PolicyError: it took longer, or needed too much memory.
        duckdb.Error: any other error.
    """
    done = threading.Event()
    watchdog = threading.Thread(target=_watch, args=(connection, done, timeout_s), daemon=True)
    watchdog.start()
    try:
        # a relation would be bound twice, which takes longer than judging thousands of rows
        connection.execute(f"CREATE OR REPLACE TEMP TABLE result AS {sql}")
        return connection.sql("FROM result").to_arrow_table()
    except duckdb.InterruptException:
        raise PolicyError(
            f"a condition of the policy took longer than {timeout_s:g} seconds and was stopped; "
            "make it simpler, and try it with: nightscreen policy check FILE"
        ) from None
    except duckdb.OutOfMemoryException:
        raise PolicyError(
            "a condition of the policy needs more memory than it may use; make it simpler"
        ) from None
    finally:
        done.set()
        watchdog.join()


def _watch(connection: DuckDBPyConnection, done: threading.Event, timeout_s: float) -> None:
    """Interrupt a connection when its time is up, repeatedly until it has stopped."""
    wait_s = timeout_s
    while not done.wait(wait_s):
        connection.interrupt()
        wait_s = _AGAIN_S
