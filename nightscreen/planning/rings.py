"""Rings: customers connected by a BVN, account, phone, email or photograph.

Found among the pseudonyms that the journal keeps and those of the batch at hand, as connected
components by SQL. An identifier of more customers than a set number is a hub (an employer, an
agent, a branch's phone) and ties nobody. The policy decides what a ring means, never more than a
review (`policy/load.py`).
"""

from __future__ import annotations

from contextlib import closing
from itertools import chain
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from nightscreen.files.sealing import pieces_of
from nightscreen.planning.shared_identifiers import saved_sightings
from nightscreen.policy.engine import locked_connection
from nightscreen.schemas.enriched import RING, RING_SIZE
from nightscreen.schemas.plan import SUBJECT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duckdb import DuckDBPyConnection

    from nightscreen.files.workspace import Workspace
    from nightscreen.journal.identifier_history import Sightings

RINGS: Final = "rings"  # their name in the workspace until the run is written
RINGS_SCHEMA: Final = pa.schema(
    [
        pa.field("ring", pa.int64(), nullable=False),
        pa.field("customer", pa.string(), nullable=False),
        pa.field("here", pa.bool_(), nullable=False),
        pa.field("ties", pa.list_(pa.string()), nullable=False),
        pa.field("ring_size", pa.int64(), nullable=False),
    ]
)
"""One row for each customer of a ring that has somebody of the run in it, by pseudonyms alone."""
_SEEN: Final = pa.schema([("kind", pa.string()), ("identifier", SUBJECT), ("customer", SUBJECT)])

# Of each identifier that few enough customers share, who has it.
_TIES: Final = """
    CREATE TEMP TABLE ties AS
    SELECT kind, identifier, customer
    FROM (SELECT DISTINCT kind, identifier, customer FROM seen)
    QUALIFY count(*) OVER (PARTITION BY kind, identifier) BETWEEN 2 AND {most}
"""
# Everybody takes the least label of all who share something with them, then that label's own: so a
# chain of any length is one ring after a number of steps that grows with its logarithm.
_STEP: Final = """
    CREATE OR REPLACE TEMP TABLE step AS
    WITH least_of AS (
        SELECT kind, identifier, min(label) AS label
        FROM ties JOIN labels USING (customer) GROUP BY kind, identifier
    ), nearer AS (
        SELECT customer, min(label) AS label
        FROM ties JOIN least_of USING (kind, identifier) GROUP BY customer
    )
    SELECT nearer.customer, least(nearer.label, own.label) AS label
    FROM nearer JOIN nearer AS own ON own.customer = nearer.label
"""
_RINGS: Final = """
    WITH members AS (
        SELECT label, customer, list_sort(list(DISTINCT kind)) AS ties
        FROM ties JOIN labels USING (customer) GROUP BY label, customer
    ), sized AS (
        SELECT members.*, count(*) OVER (PARTITION BY label) AS ring_size,
            customer IN (SELECT customer FROM present) AS here
        FROM members
    )
    SELECT (('0x' || left(hex(label), 15))::BIGINT) AS ring, lower(hex(customer)) AS customer,
        here, ties, ring_size
    FROM sized QUALIFY bool_or(here) OVER (PARTITION BY label)
    ORDER BY ring, customer
"""


def ring_columns(rings: pa.Table, customers: bytes) -> dict[str, pa.Array]:
    """Return ring and its size for rows, by their customers' pseudonyms, joined."""
    rows = {key: index for index, key in enumerate(rings["customer"].to_pylist())}
    indices = pa.array([rows.get(piece.hex()) for piece in pieces_of(customers)], pa.int64())
    return {name: rings[name].combine_chunks().take(indices) for name in (RING, RING_SIZE)}


def no_rings(rows: int) -> dict[str, pa.Array]:
    """Return the columns where rings are not looked for."""
    return {name: pa.nulls(rows, pa.int64()) for name in (RING, RING_SIZE)}


def find_rings(
    sightings: Sightings, workspace: Workspace, present: Iterator[bytes], *, most: int
) -> pa.Table:
    """Return the rings that customers of a run are in, as `RINGS_SCHEMA` has them.

    Args:
        sightings: what earlier batches saw.
        workspace: the run's, with its own sightings that the journal does not have.
        present: the pseudonyms of the run's customers, joined, some at a time.
        most: customers who may share an identifier before it is a hub.
    """
    with closing(locked_connection()) as connection:
        connection.execute("CREATE TEMP TABLE seen (kind VARCHAR, identifier BLOB, customer BLOB)")
        connection.execute("CREATE TEMP TABLE present (customer BLOB)")
        known = (pa.table(list(columns), schema=_SEEN) for columns in sightings.all_seen())
        for table in chain(known, saved_sightings(workspace, _SEEN)):
            _put(connection, "seen", table)
        for joined in present:
            column = pa.array(np.frombuffer(joined, "V16").tolist(), SUBJECT)
            _put(connection, "present", pa.table({"customer": column}))
        connection.execute(_TIES.format(most=most))
        connection.execute("DROP TABLE seen")
        connection.execute(
            "CREATE TEMP TABLE labels AS SELECT DISTINCT customer, customer AS label FROM ties"
        )
        while _moved(connection):
            connection.execute("CREATE OR REPLACE TEMP TABLE labels AS SELECT * FROM step")
        return connection.sql(_RINGS).to_arrow_table().cast(RINGS_SCHEMA)


def _moved(connection: DuckDBPyConnection) -> bool:
    """Take a step; return whether anybody's label changed."""
    connection.execute(_STEP)
    changed = "SELECT 1 FROM step JOIN labels USING (customer) WHERE step.label <> labels.label"
    return connection.execute(f"{changed} LIMIT 1").fetchone() is not None


def _put(connection: DuckDBPyConnection, name: str, table: pa.Table) -> None:
    connection.register("block", table)
    connection.execute(f"INSERT INTO {name} SELECT * FROM block")  # noqa: S608 - our own table
    connection.unregister("block")
