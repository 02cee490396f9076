"""The mapping file: what it says is done, what it gets wrong is told by its key."""

from __future__ import annotations

from pathlib import Path

import pytest

from nightscreen.reading.mapping_file import read_mapping
from nightscreen.reading.open_file import TableSource, open_source
from nightscreen.schemas.errors import InputError, SettingsError


def opened(folder: Path, mapping: str, table: str) -> TableSource:
    """Write both files and open the table with the mapping."""
    (folder / "acme.toml").write_text(mapping, encoding="utf-8")
    (folder / "batch.csv").write_text(table, encoding="utf-8")
    return open_source(folder / "batch.csv", mapping=read_mapping(folder / "acme.toml"))


def test_columns_are_renamed_merged_defaulted_and_dropped(tmp_path: Path) -> None:
    """Merged columns stand in the order of the mapping, the others where they were."""
    source = opened(
        tmp_path,
        'drop = ["Religion"]\ndate_order = "DMY"\n'
        '[columns]\ncustomer_id = "No."\nfull_name = ["Given", "Clan"]\nbvn = []\n'
        '[defaults]\nconsent_channel = "branch"\nconsented_at = 2025-01-02\nexposure = 1.50\n',
        "No.,Clan,Religion,BVN,Given\n1,Oke,x,222,Ade\n",
    )
    header = source.header
    assert [(column.heading, column.known) for column in header.columns] == [
        ("No.", "customer_id"),
        ("Given", "full_name"),
        ("BVN", None),
        ("Clan", "full_name"),
    ]
    assert next(source.batches()).columns.to_pylist() == [
        {"No.": "1", "Given": "Ade", "BVN": "222", "Clan": "Oke"}
    ]
    assert header.defaults == {
        "consent_channel": "branch", "consented_at": "2025-01-02", "exposure": "1.50",
    }  # fmt: skip
    assert header.date_order == "dmy"


def test_the_mapping_wins_over_known_headings(tmp_path: Path) -> None:
    """The column that loses is carried under a name that cannot be mistaken."""
    source = opened(tmp_path, '[columns]\nphone = "Alt"\n', "customer_id,phone,Alt,GSM\n1,2,3,4\n")
    assert [(c.known, c.output) for c in source.header.columns] == [
        ("customer_id", "customer_id"), (None, "input_phone"), ("phone", "phone"), (None, "GSM"),
    ]  # fmt: skip


MISTAKES: list[tuple[str, str]] = [
    ("[columns]\n\nphon = 'GSM'\n", "[columns] phon is no column that nightscreen"),
    ("[columns]\n\nphon = 'GSM'\n", 'did you mean "phone"?'),
    ("colums = 1\n", 'colums is no key of a mapping file; did you mean "columns"?'),
    ("bvn = 'x'\n", "write it under [columns] or [defaults]: bvn = ..."),
    ("date_order = 'dym'\n", "must be one of dmy, mdy, ymd"),
    ("sheet = 3\n", "sheet must be the name of a sheet"),
    ("drop = 'x'\n", "drop must be a list of headings"),
    ("columns = 3\n", "must be a table"),
    ("[columns]\nbvn = 3\n", '[columns] bvn must be "Their Heading" or a list'),
    ("[defaults]\nbvn = '1'\n", "takes no default"),
    ("[defaults]\ndomain = true\n", "must be a text, number or date"),
    ("[columns\n", "not valid TOML"),
]


def test_each_mistake_names_its_key(tmp_path: Path) -> None:
    """File, key, and what to write instead."""
    for text, words in MISTAKES:
        path = tmp_path / "acme.toml"
        path.write_text(text, encoding="utf-8")
        with pytest.raises(SettingsError) as caught:
            read_mapping(path)
        assert str(path) in str(caught.value), (text, words)
        assert words in str(caught.value), (text, words)
        assert "\n" not in str(caught.value), (text, words)


def test_a_mapping_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    """So are a folder and a file that is no text."""
    with pytest.raises(SettingsError, match="no such mapping file"):
        read_mapping(tmp_path / "none.toml")
    with pytest.raises(SettingsError, match="a folder"):
        read_mapping(tmp_path)
    (tmp_path / "x.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SettingsError, match="not UTF-8"):
        read_mapping(tmp_path / "x.toml")


MISFITS: list[tuple[str, str]] = [
    ('[columns]\nphone = "GMS"\n', 'no heading "GMS" in'),
    ('[columns]\nphone = "GMS"\n', 'did you mean "GSM"?'),
    ('drop = ["Colour"]\n', 'drop: no heading "Colour"'),
    ('drop = ["GSM"]\n[columns]\nphone = "GSM"\n', '"GSM" is dropped'),
    ('[columns]\nphone = "GSM"\ndomain = "GSM"\n', '"GSM" is given twice, first to phone'),
    ('sheet = "One"\n', "is no workbook"),
]


def test_what_does_not_fit_the_file_is_told(tmp_path: Path) -> None:
    """The message names the mapping and what the file has."""
    for mapping, words in MISFITS:
        with pytest.raises(InputError) as caught:
            opened(tmp_path, mapping, "customer_id,GSM\n1,2\n")
        assert "acme.toml" in str(caught.value), (mapping, words)
        assert words in str(caught.value), (mapping, words)
