"""The frame: SQL over pseudonyms, which takes nothing that names a person and leaves nothing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from nightscreen.files.frame import Frame, joined_bytes, pseudonym_column, read_queries
from nightscreen.schemas.errors import OutputError

QUERIES = """
Whatever stands before the first section is for people.

-- name: count
-- Two statements, and a comment.
CREATE TABLE counted AS
SELECT id, count(*) AS size FROM seen GROUP BY id;
DELETE FROM counted WHERE size < {least};

-- name: ascending
SELECT id, size FROM counted ORDER BY id;

-- name: how_many
SELECT count(*) AS ids FROM counted;

-- name: all
SELECT number FROM seen ORDER BY number;

-- name: twice
CREATE TABLE twice AS
SELECT id, other, row_number() OVER (ORDER BY other, id) AS place
FROM seen CROSS JOIN (SELECT id AS other FROM seen LIMIT 40);

-- name: pairs
SELECT id, other FROM seen CROSS JOIN (SELECT id AS other FROM seen LIMIT 40) ORDER BY other, id;

-- name: until_late
SELECT CASE WHEN id < {late} THEN id ELSE error('late') END AS id FROM seen;

-- name: read
SELECT * FROM read_csv('{file}');

-- name: widen
SET memory_limit = '8GB';
"""


@pytest.fixture
def queries(tmp_path: Path) -> dict[str, list[str]]:
    """Return the sections of a file of SQL."""
    (tmp_path / "some.sql").write_text(QUERIES)
    return read_queries(tmp_path / "some.sql")


def ids(size: int) -> dict[str, Any]:
    return {"id": pseudonym_column(os.urandom(16 * size))}


def test_pseudonyms_come_in_the_order_of_their_bytes(queries: dict[str, list[str]]) -> None:
    """As the journal has them, whatever their first bit."""
    seen = [bytes([first]) + bytes(15) for first in (255, 0, 128, 127, 255, 128)]
    with Frame(queries) as frame:
        frame.make("seen", pa.table({"id": pseudonym_column(b"".join(seen[:3]))}))
        frame.add("seen", pa.table({"id": pseudonym_column(b"".join(seen[3:]))}))
        frame.run("count", least=1)
        found = frame.table("ascending")
        assert joined_bytes(found["id"]) == b"".join(sorted(set(seen)))
        assert found["size"].to_pylist() == [1, 1, 2, 2]
        assert frame.row("how_many") == {"ids": 4}


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["22212345678"]),
        pa.array([b"22212345678"]),
        pa.array([b"sixteen bytes it"], pa.binary(16)),
        pa.array(["22212345678"]).dictionary_encode(),
        pa.array([["22212345678"]]),
    ],
)
def test_nothing_enters_that_could_name_a_person(
    queries: dict[str, list[str]], column: pa.Array
) -> None:
    """No text, and no bytes but pseudonyms; the refusal does not show the value."""
    with Frame(queries) as frame, pytest.raises(TypeError, match=r"seen\.bvn") as refused:
        frame.make("seen", pa.table({"bvn": column}))
    assert "22212345678" not in str(refused.value)


def test_what_does_not_fit_is_written_to_its_folder_and_removed(
    tmp_path: Path, queries: dict[str, list[str]]
) -> None:
    """Only where there is a folder; without one the limit holds, and the error says what to do."""
    block = pa.table(ids(20_000))
    with Frame(queries, tmp_path / "spilled", memory="20MB") as frame:
        frame.make("seen", block)
        frame.run("twice")
        assert list((tmp_path / "spilled").iterdir())
    assert not (tmp_path / "spilled").exists()
    with Frame(queries, memory="20MB") as frame:
        frame.make("seen", block)
        with pytest.raises(OutputError, match="disk space"):
            frame.run("twice")
        with pytest.raises(OutputError, match="disk space"):
            list(frame.pieces("pairs", [800_000]))


def test_portions_come_while_the_rest_is_worked_out(queries: dict[str, list[str]]) -> None:
    """A result is never in memory as a whole, and portions that do not fit it are an error."""
    with Frame(queries) as frame:
        frame.make("seen", pa.table({"id": pa.array(range(500_000))}))
        found = frame.pieces("until_late", [10, 20_000, 479_990], late=400_000)
        assert next(found)["id"].to_pylist() == list(range(10))
        assert next(found)["id"].to_pylist() == list(range(10, 20_010))
        with pytest.raises(OSError, match="late"):
            next(found)
        for sizes, error in (([10, 499_989], "too many"), ([500_001], "too few")):
            with pytest.raises(RuntimeError, match=error):
                list(frame.pieces("until_late", sizes, late=500_000))


def test_a_frame_reaches_no_file_and_keeps_its_limits(
    tmp_path: Path, queries: dict[str, list[str]]
) -> None:
    """Rows in clear lie in files: none of them can come in by way of a query."""
    (tmp_path / "rows.csv").write_text("bvn\n22212345678\n")
    with Frame(queries, tmp_path / "spilled") as frame:
        with pytest.raises(duckdb.PermissionException):
            frame.table("read", file=str(tmp_path / "rows.csv"))
        with pytest.raises(duckdb.InvalidInputException):
            frame.run("widen")
