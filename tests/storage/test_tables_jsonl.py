"""JSON Lines: values as they are written, broken lines as broken rows."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightscreen.schemas.errors import InputError
from nightscreen.storage.tables import open_source


def save(folder: Path, text: str) -> Path:
    """Write lines as they stand."""
    path = folder / "batch.jsonl"
    path.write_text(text, encoding="utf-8", newline="")
    return path


def test_values_are_text_as_written(tmp_path: Path) -> None:
    """Big numbers and decimals never pass through a float."""
    line = (
        '{"customer_id": 123456789012345678901, "bvn": "022", "exposure": 1250000.10, '
        '"a": 2.21E+10, "b": true, "c": null, "d": {"x": [1.10, "é", null]}, "e": NaN}\r\n'
    )
    source = open_source(save(tmp_path, line))
    assert source.format == "jsonl"
    assert list(next(source.batches()).columns.to_pylist()[0].values()) == [
        "123456789012345678901", "022", "1250000.10", "2.21E+10", "true", None,
        '{"x": [1.10, "é", null]}', None,
    ]  # fmt: skip


def test_broken_lines_are_broken_rows_and_the_rest_goes_on(tmp_path: Path) -> None:
    """Each bears its line; blank lines count but are no rows."""
    text = '{"customer_id":"C1"}\n\n{"customer_id":\n[1]\n{"customer_id":"C2"}'
    batch = next(open_source(save(tmp_path, text)).batches())
    assert batch.lines == [1, 5]
    assert [(row.line, row.code) for row in batch.broken] == [(3, "broken"), (4, "broken")]
    assert batch.broken[0].values == ('{"customer_id":',)


def test_a_key_that_first_occurs_far_down_is_a_column(tmp_path: Path) -> None:
    """A withdrawal of consent in the last line must not be lost."""
    text = '{"customer_id":"C1"}\n' * 5000 + '{"consent_withdrawn_at":"2025-01-01"}\n'
    source = open_source(save(tmp_path, text))
    assert source.header.columns[1].known == "consent_withdrawn_at"
    assert [*source.batches()][-1].columns.column(1)[-1].as_py() == "2025-01-01"


def test_lines_without_any_object_are_told(tmp_path: Path) -> None:
    """A file of fragments is no batch."""
    with pytest.raises(InputError, match="no line holds a JSON object"):
        open_source(save(tmp_path, '{"customer_id":\n{\n'))


WORDS = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]))
"""Texts a row may hold: one with a zero byte is refused."""


@settings(deadline=None)
@given(
    st.lists(
        st.dictionaries(st.sampled_from(["bvn", "note", "é"]), WORDS | st.none() | st.integers()),
        min_size=1,
        max_size=20,
    )
)
def test_any_object_comes_back(rows: list[dict[str, str | int | None]]) -> None:
    """What was written is read, with its line."""
    text = "".join(f"{json.dumps({'customer_id': 'C', **row})}\n" for row in rows)
    with tempfile.TemporaryDirectory() as folder:
        batch = next(open_source(save(Path(folder), text)).batches())
    assert batch.lines == list(range(1, len(rows) + 1))
    for found, row in zip(batch.columns.to_pylist(), rows, strict=True):
        for key, value in row.items():
            assert found[key] == (value if value is None else str(value))
