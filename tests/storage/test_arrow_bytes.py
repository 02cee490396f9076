"""A look at the bytes of a column tells what each of its texts begins and ends with."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from nightscreen.files.arrow_bytes import Edges, inside, table_of, table_of_ends

cells = st.lists(st.none() | st.text(st.characters(blacklist_categories=["Cs"]), max_size=4))


@given(cells, st.integers(0, 3), st.integers(0, 3))
def test_edges_are_those_of_each_text(texts: list[str | None], before: int, after: int) -> None:
    """Of any part of a column; an absent or empty text has none."""
    column = pa.array([*["x"] * before, *texts, *["yz"] * after], pa.string())
    edges = Edges.of(column.slice(before, len(texts)))
    plain = [(text or "").encode() for text in texts]
    assert edges.first.tolist() == [text[0] if text else 0 for text in plain]
    assert edges.last.tolist() == [text[-1] if text else 0 for text in plain]
    assert edges.lengths.tolist() == [len(text) for text in plain]


def test_all_bytes_of_a_part_lie_between_its_ends() -> None:
    """The part begins where its first text does."""
    ends, data = inside(pa.array(["ab", "c\u00e9", None, "d"]).slice(1, 2))
    assert data[ends[0] : ends[-1]].tobytes() == "c\u00e9".encode()


def test_a_table_tells_groups_of_letters_by_their_first_and_last_bytes() -> None:
    """Each group has a bit of its own; a letter of several bytes counts by one of them."""
    table = table_of("ab", "b\u00e9")
    assert [int(table[byte]) for byte in (*b"abc", "\u00e9".encode()[0])] == [1, 3, 0, 2]
    assert table_of_ends("\u00e9")["\u00e9".encode()[-1]] == 1
