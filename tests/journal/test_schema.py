"""The schema: every table and every column of bytes declares what the loops over it go by."""

from __future__ import annotations

import pytest
from sqlalchemy import LargeBinary, Table

from nightscreen.config.settings import GROUNDS
from nightscreen.journal.schema import PASSING, PASSING_TABLES, WITH_JOURNAL, metadata

TABLES = list(metadata.tables.values())


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_table_says_how_long_its_rows_are_kept(table: Table) -> None:
    """By a ground that has a period, by a rule of its own, or with the journal; in one way only."""
    grounds = {column.info["ground"] for column in table.c if "ground" in column.info}
    assert grounds <= set(GROUNDS)
    kept = table.info.get("kept")
    assert kept in {None, WITH_JOURNAL, PASSING}
    assert [bool(grounds), "old" in table.info, kept is not None].count(True) == 1


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_bytes_are_sealed_or_a_pseudonym_or_a_digest(table: Table) -> None:
    """What is sealed says what binds it; of a pseudonym it is known whose it is."""
    for column in table.c:
        said = {"seal", "whose", "by_kind", "digest"} & set(column.info)
        assert len(said) == isinstance(column.type, LargeBinary), column
        if "seal" in said:
            assert all(name in table.c for name in column.info["seal"].bound_by)
        if "by_kind" in said:
            assert "of_person" in table.info
        if "whose" in said and column.info["whose"].leaves:
            assert all(name in table.c for name in column.info["whose"].leaves)


def test_nobody_stands_in_a_table_that_no_erasure_reaches() -> None:
    """A table with a column called after a customer or an identifier says whose it is."""
    for table in TABLES:
        for column in table.c:
            if column.name in {"customer", "subject", "identifier", "bvn"}:
                assert {"whose", "by_kind"} & set(column.info), column
    assert all(table.info.get("kept") == PASSING for table in PASSING_TABLES)
