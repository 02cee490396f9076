"""Opening: keys right, wrong, missing and unreadable; journals vanished, strange, old and new."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from pathlib import Path

import pytest

from nightscreen.journal import open_journal
from nightscreen.journal.opening import open_read_only
from nightscreen.journal.schema import VERSION, declared_version, metadata, put_meta
from nightscreen.schemas.errors import (
    JournalError,
    JournalKeyError,
    JournalVersionError,
    NightscreenError,
    SettingsError,
)
from tests.journal.conftest import Place


def test_a_journal_opens_again_with_its_key_from_home_or_settings(place: Place) -> None:
    """Pseudonyms are the same however the key is given."""
    first = place.open()
    given = (place.home / "data.key").read_text()
    (place.home / "data.key").unlink()
    again = place.open(data_key=given)
    assert again.journal_id == first.journal_id
    assert again.pseudonyms.subject("bvn", "1") == first.pseudonyms.subject("bvn", "1")
    assert not (place.home / "data.key").exists()
    # the tests share what is compiled: see tests/compiled_sql.py
    engines = [each.database.engine for each in (first, again)]
    assert engines[0] is not engines[1]
    assert engines[0]._compiled_cache is engines[1]._compiled_cache


def test_a_key_that_is_none_is_told_without_being_shown(sqlite_place: Place) -> None:
    """What is not base64 of 32 bytes is refused, from settings and from HOME; so is no file."""
    sqlite_place.open()
    for text in ("abc", "€", base64.b64encode(b"k" * 31).decode()):
        with pytest.raises(SettingsError, match="NIGHTSCREEN_DATA_KEY is not a data key") as told:
            sqlite_place.open(data_key=text)
        assert text not in str(told.value)
        (sqlite_place.home / "data.key").write_text(text)
        with pytest.raises(SettingsError, match=r"data\.key is not a data key"):
            sqlite_place.open()
    (sqlite_place.home / "data.key").unlink()
    (sqlite_place.home / "data.key").mkdir()
    with pytest.raises(JournalKeyError, match="cannot read the data key"):
        sqlite_place.open()


def test_an_emptied_home_beside_an_old_journal_is_an_error(place: Place, tmp_path: Path) -> None:
    """No new key is made for a journal that has one, nor is a new journal begun."""
    place.open()
    url = place.url or f"sqlite:///{place.home / 'journal.sqlite'}"
    with pytest.raises(JournalKeyError, match="data key is missing"):
        place.open(home=tmp_path / "empty", url=url)
    assert not (tmp_path / "empty" / "data.key").exists()


def test_a_vanished_sqlite_journal_is_not_begun_anew(sqlite_place: Place) -> None:
    """HOME remembers; nothing is made in the journal's place, also where an empty file is."""
    sqlite_place.open()
    sqlite_place.close()
    sqlite_place.is_damaged = True
    file = sqlite_place.home / "journal.sqlite"
    file.unlink()
    with pytest.raises(JournalError, match="remembers a journal that is not there"):
        sqlite_place.open()
    assert not file.exists()
    with pytest.raises(JournalError, match="not there any more"):
        open_read_only(sqlite_place.settings())
    file.touch()
    with pytest.raises(JournalError, match="remembers a journal that is not there"):
        sqlite_place.open()


def test_a_vanished_postgresql_journal_is_not_begun_anew(place: Place) -> None:
    """Tables that were dropped are not made again."""
    journal = place.open()
    with journal.database.writing() as connection:
        metadata.drop_all(connection)
    place.is_damaged = True
    with pytest.raises(JournalError, match="remembers a journal that is not there"):
        place.open()


def test_another_journal_than_home_remembers_is_refused(place: Place, tmp_path: Path) -> None:
    """A URL that leads elsewhere would buy everything again."""
    place.open()
    key = (place.home / "data.key").read_text()
    other = open_journal(tmp_path / "other", data_key=key)
    other.close()
    with pytest.raises(JournalError, match="remembers journal"):
        place.open(url=f"sqlite:///{tmp_path / 'other' / 'journal.sqlite'}", data_key=key)
    assert not [*(tmp_path / "other" / "journal.sqlite.holders").iterdir()]  # no lock is left


def test_a_journal_of_another_version_is_refused_in_one_line(place: Place) -> None:
    """Its version is a digest of the declared schema; nothing is guessed and nothing changed."""
    journal = place.open()
    with journal.database.writing() as connection:
        put_meta(connection, VERSION, "0123456789abcdef")
    with pytest.raises(JournalVersionError, match="0123456789abcdef") as refused:
        place.open()
    with pytest.raises(JournalVersionError):
        open_read_only(place.settings())
    assert "\n" not in str(refused.value)
    with journal.database.writing() as connection:
        put_meta(connection, VERSION, declared_version())
    assert place.open().journal_id == journal.journal_id


def test_another_shape_of_a_record_is_another_version() -> None:
    """A field less makes a journal of another version; each process finds the same version."""
    program = """
from nightscreen.journal import schema
from nightscreen.schemas.consented import Tokens
print(schema.declared_version())
del Tokens.model_fields["generation"]  # in a field of a record
schema.declared_version.cache_clear()
print(schema.declared_version())
"""
    same, other = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONHASHSEED": "1"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert same == declared_version() != other


@pytest.mark.parametrize(
    "url",
    [
        "mysql://u:secret@h/d",
        "nonsense secret",
        "postgresql+nothing://u:secret@h/d",
        "postgresql+psycopg2://u:secret@h/d",
        "postgresql://u:secret@127.0.0.1:1/d",
        "postgresql://u:secret@127.0.0.1:1/d?password=secret",
        "postgresql://u:secret@127.0.0.1:x/d",
    ],
)
def test_a_url_that_leads_nowhere_is_told_in_one_line_without_password(
    tmp_path: Path, url: str
) -> None:
    """Wrong URLs and refused connections are errors of ours."""
    with pytest.raises(NightscreenError) as told:
        open_journal(tmp_path / "home", url=url)
    assert "secret" not in str(told.value)
    assert "\n" not in str(told.value)
