"""Headings and the mapping file: what is understood, what is carried, and what is asked back."""

from __future__ import annotations

from pathlib import Path

import pytest

from nightscreen.reading.columns import (
    HEADINGS_FILE,
    fold,
    heading_words,
    is_output_name,
    understand,
)
from nightscreen.reading.mapping_file import read_mapping
from nightscreen.reading.open_file import TableSource, open_source
from nightscreen.results.enriched import enriched_schema
from nightscreen.schemas.columns import CUSTOMERS, LOAN_DAYS, OTPS
from nightscreen.schemas.errors import InputError, SettingsError
from nightscreen.schemas.rows import SourceColumn
from nightscreen.schemas.shipped import read_rows
from tests.screening import csv_rows

HERE = Path("batch.csv")


def known(*headings: str) -> list[str | None]:
    """Return what each heading is taken for, after a customer_id."""
    header = understand(HERE, ["customer_id", *headings])
    return [column.known for column in header.columns[1:]]


def outputs(*headings: str) -> list[str]:
    """Return the output name of each heading, after a customer_id."""
    header = understand(HERE, ["customer_id", *headings])
    return [column.output for column in header.columns[1:]]


def test_common_headings_are_known() -> None:
    """Case, blanks, dots, dashes and currency make no difference; of some nothing is known."""
    rows = csv_rows(Path(__file__).with_name("common_headings.csv"))
    assert rows
    for row in rows:
        assert known(row["heading"]) == [row["means"] or None], row


def test_every_word_of_the_list_means_a_known_column_and_stands_once() -> None:
    """The list has no slip: no unknown column, no word under two meanings."""
    rows = read_rows(HEADINGS_FILE)
    kinds = {"customers": CUSTOMERS, "loan_days": LOAN_DAYS, "otps": OTPS, "last_choice": CUSTOMERS}
    for row in rows:
        kind = kinds.get(row["use"])
        meant = tuple(column for column in row["means"].split("|") if column)
        assert kind is None or set(meant) <= set(kind.columns)
        if row["use"] in {"customers", "loan_days", "otps"} and kind is not None:
            assert heading_words(kind)[fold(row["heading"])].columns == meant
    assert {row["use"] for row in rows} == {*kinds, "loan_book", "short_form"}


def test_other_names_are_first_names_unless_there_is_a_first_name() -> None:
    """The heading takes the place that is free, wherever it stands."""
    assert known("Other Names", "Surname") == ["first_name", "last_name"]
    assert known("Other Names", "First Name") == ["middle_name", "first_name"]


def test_two_headings_of_one_meaning_are_asked_back() -> None:
    """The error names both and the line that settles it."""
    with pytest.raises(InputError) as caught:
        known("GSM", "Mobile")
    assert '"GSM" and "Mobile" both mean phone' in str(caught.value)
    assert 'phone = "GSM" (or ["GSM", "Mobile"] to merge them)' in str(caught.value)


def test_carried_columns_never_take_the_name_of_an_output_column() -> None:
    """Whatever their case, since the policy's engine does not tell cases apart."""
    assert outputs("Cost", "karma_status", "ecosystem_x", "bank_account_ref", "notes") == [
        "input_Cost", "input_karma_status", "input_ecosystem_x", "input_bank_account_ref", "notes",
    ]  # fmt: skip
    assert outputs("decision", "input_decision") == ["input_decision", "input_decision_2"]
    assert outputs("GSM", "batch_same_bvn") == ["phone", "input_batch_same_bvn"]


def test_what_seems_to_be_about_consent_is_pointed_out_first() -> None:
    """A withdrawal that is not understood must not pass unseen."""
    header = understand(HERE, ["customer_id", " bvn", "Customer revoked?"])
    assert '"Customer revoked?" seems to be about consent' in header.findings[0]


def test_the_columns_of_a_quarantine_file_are_left_out() -> None:
    """All four together only; each alone is the file's own."""
    header = understand(HERE, ["customer_id", "bvn", "line", "column", "code", "hint"])
    assert [column.heading for column in header.columns] == ["customer_id", "bvn"]
    assert header.fed_back
    first = understand(HERE, ["line", "column", "code", "hint", "customer_id"])
    assert [column.place for column in first.columns] == [4]
    own = understand(HERE, ["customer_id", "line", "code", "hint"])
    assert not own.fed_back
    assert len(own.columns) == 4


def test_no_heading_takes_the_name_of_a_column_that_the_output_adds() -> None:
    """A file with a heading of ours, as a night fed back has, gets no column twice."""
    exposure = SourceColumn(heading="exposure", known="exposure", output="exposure")
    schema = enriched_schema([exposure], merged=True)
    added = [name for name in schema.names if name != "exposure"]
    assert [name for name in added if not is_output_name(name)] == []


def opened(folder: Path, mapping: str, table: str) -> TableSource:
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
