"""The engine that evaluates conditions: DuckDB on Arrow tables, locked down and bounded.

No files, no network, no settings, no extensions, no Python variables; a clock and a memory limit.
It is the second wall: `conditions` lets nothing through that would try. Rules are applied in
`results/decide.py`.
"""

from __future__ import annotations

import atexit
import threading
from functools import cache
from typing import TYPE_CHECKING

import duckdb

from nightscreen.schemas.errors import PolicyError

if TYPE_CHECKING:
    import pyarrow as pa
    from duckdb import DuckDBPyConnection

TIMEOUT_S = 60.0  # a choice, for all rules on one block of rows: no condition holds up a night
MEMORY = "1GB"
_AGAIN_S = 0.1  # an interrupt that came between two statements had nothing to stop

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
    """Return a connection that reaches nothing but the tables registered with it.

    Args:
        memory: most that a database of its own may use, such as `256MB`. Without it the connection
            is to one that the whole process shares: it opens in no time, where one of its own
            takes 30 ms, and all that is created there has to be TEMP. Nothing is spilled to disk.
        optimizer: not for conditions. Rows are judged one by one there: nothing to gain, and
            planning costs more than judging. It would also move a part that two conditions share
            out of the TRY that guards each row.
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
    """Close what the process shares; it is opened again where it is asked for."""
    _shared_database.cache_clear()


atexit.register(close_shared_database)  # DuckDB's own module complains of what outlives it


def bounded(connection: DuckDBPyConnection, sql: str, timeout_s: float = TIMEOUT_S) -> pa.Table:
    """Return what a query says, which must end within `timeout_s` seconds.

    Raises:
        PolicyError: it took longer, or more memory than it may use.
        duckdb.Error: whatever else DuckDB says of it.
    """
    done = threading.Event()
    watchdog = threading.Thread(target=_watch, args=(connection, done, timeout_s), daemon=True)
    watchdog.start()
    try:
        # as a relation it would be bound twice, which takes longer than judging thousands of rows
        connection.execute(f"CREATE OR REPLACE TEMP TABLE said AS {sql}")
        return connection.sql("FROM said").to_arrow_table()
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
    """Interrupt a connection when its time is up, again and again until it has stopped."""
    wait_s = timeout_s
    while not done.wait(wait_s):
        connection.interrupt()
        wait_s = _AGAIN_S
