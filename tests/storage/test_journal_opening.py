"""Opening: keys right, wrong, missing and unreadable; journals vanished, strange, old and new."""

from __future__ import annotations

import base64
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import Connection, MetaData, create_engine, inspect, text

from nightscreen.schemas.errors import (
    JournalError,
    JournalKeyError,
    NightscreenError,
    SettingsError,
)
from nightscreen.schemas.settings import Cutoffs
from nightscreen.storage.journal import open_journal, tables
from nightscreen.storage.journal.engine import make_engine, writing
from nightscreen.storage.journal.erasure import Erasures, leave_no_trace
from nightscreen.storage.journal.keyring import put_meta
from nightscreen.storage.journal.migrations import bring_up, copies_of, newest_version
from tests.storage.conftest import ended, reserve, subject

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from tests.storage.conftest import Place

FROZEN = Path(__file__).with_name("journal_v1")
NEXT = newest_version() + 1
OTHER_KEY = base64.b64encode(b"k" * 32).decode()


def test_a_journal_opens_again_with_its_key_from_home_or_settings(place: Place) -> None:
    """Pseudonyms are the same however the key is given."""
    first = place.open()
    given = (place.home / "data.key").read_text()
    (place.home / "data.key").unlink()
    again = place.open(data_key=given)
    assert again.journal_id == first.journal_id
    assert again.pseudonyms.subject("bvn", "1") == first.pseudonyms.subject("bvn", "1")
    assert not (place.home / "data.key").exists()


def test_a_wrong_key_is_told(place: Place) -> None:
    """Another key than the journal's own opens nothing."""
    place.open()
    with pytest.raises(JournalKeyError, match="is not this journal's"):
        place.open(data_key=OTHER_KEY)


@pytest.mark.parametrize("text_", ["abc", "€", base64.b64encode(b"k" * 31).decode()])
def test_a_key_that_is_none_is_told_without_being_shown(place: Place, text_: str) -> None:
    """What is not base64 of 32 bytes is refused, from settings and from HOME."""
    with pytest.raises(SettingsError, match="NIGHTSCREEN_DATA_KEY is not a data key") as told:
        place.open(data_key=text_)
    assert text_ not in str(told.value)
    place.open()
    (place.home / "data.key").write_text(text_)
    with pytest.raises(SettingsError, match=r"data\.key is not a data key"):
        place.open()


def test_an_emptied_home_beside_an_old_journal_is_an_error(place: Place, tmp_path: Path) -> None:
    """No new key is made for a journal that has one, nor is a new journal begun."""
    place.open()
    url = place.url or f"sqlite:///{place.home / 'journal.sqlite'}"
    with pytest.raises(JournalKeyError, match="data key is missing"):
        place.open(home=tmp_path / "empty", url=url)
    assert not (tmp_path / "empty" / "data.key").exists()


def test_an_unreadable_key_file_is_told(place: Place) -> None:
    """A key file that cannot be read is not replaced."""
    place.open()
    (place.home / "data.key").unlink()
    (place.home / "data.key").mkdir()
    with pytest.raises(JournalKeyError, match="cannot read the data key"):
        place.open()


def test_a_vanished_sqlite_journal_is_not_begun_anew(sqlite_place: Place) -> None:
    """HOME remembers; nothing is made in the journal's place, also where an empty file is."""
    sqlite_place.open()
    sqlite_place.close()
    file = sqlite_place.home / "journal.sqlite"
    file.unlink()
    with pytest.raises(JournalError, match="remembers a journal that is not there"):
        sqlite_place.open()
    assert not file.exists()
    file.touch()
    with pytest.raises(JournalError, match="remembers a journal that is not there"):
        sqlite_place.open()


def test_a_vanished_postgresql_journal_is_not_begun_anew(place: Place) -> None:
    """Tables that were dropped are not made again."""
    journal = place.open()
    with writing(journal.engine) as connection:
        tables.metadata.drop_all(connection)
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


class FirstVersion:
    """The journal as the first version of this program made it."""

    def make(self, connection: Connection) -> None:
        """Make its tables."""
        script = (FROZEN / f"{connection.dialect.name}.sql").read_text()
        for statement in script.split("\n", 1)[1].split(";"):
            if statement.strip():
                connection.exec_driver_sql(statement)
        put_meta(connection, "schema_version", "1")

    def drop(self, connection: Connection) -> None:
        """Drop everything."""
        found = MetaData()
        found.reflect(connection)
        found.drop_all(connection)


def shape(engine: Engine) -> dict[str, object]:
    """Return columns with types and indexes of every table."""
    looking = inspect(engine)
    return {
        table: (
            [(each["name"], str(each["type"]), each["nullable"]) for each in columns],
            sorted(
                (str(each["name"]), each["column_names"]) for each in looking.get_indexes(table)
            ),
            looking.get_pk_constraint(table)["constrained_columns"],
        )
        for (_, table), columns in looking.get_multi_columns().items()
        if not table.startswith("sqlite_")
    }


def test_the_frozen_first_version_is_what_this_program_makes(lone_place: Place) -> None:
    """A change of `tables` without a migration is noticed: old journals would lack it."""
    place = lone_place
    old = make_engine(place.url or f"sqlite:///{place.home.parent / 'frozen.sqlite'}")
    frozen = FirstVersion()
    with writing(old) as connection:
        frozen.make(connection)
    bring_up(old)
    found = shape(old)
    with writing(old) as connection:
        frozen.drop(connection)
        tables.metadata.create_all(connection)
    assert found == shape(old)
    old.dispose()


def test_an_older_journal_is_brought_up_once(place: Place) -> None:
    """Steps run in order, each once, and what was in the journal stays."""
    journal = place.open()
    pairs = reserve(journal, 1)
    journal.calls.settle("run-1", [ended(pairs[0])])
    steps = (
        (NEXT, lambda c: c.execute(text("ALTER TABLE runs ADD COLUMN note TEXT"))),
        (NEXT + 1, lambda c: c.execute(text("UPDATE runs SET note = ''"))),
    )
    bring_up(journal.engine, steps)
    bring_up(journal.engine, steps)
    assert "note" in {column["name"] for column in inspect(journal.engine).get_columns("runs")}
    assert set(journal.answers.latest("karma", [subject(1)])) == {subject(1)}
    with pytest.raises(
        JournalError, match=f"version {NEXT + 1}, this program knows up to {NEXT - 1}"
    ):
        place.open()


def test_an_older_file_is_copied_before_it_is_brought_up(tmp_path: Path) -> None:
    """The copy is the journal as it was, private, the only one; an erasure removes it."""
    with open_journal(tmp_path / "home") as journal:
        file = tmp_path / "home" / "journal.sqlite"
        step = lambda connection: connection.execute(text("ALTER TABLE runs ADD COLUMN note TEXT"))  # noqa: E731
        other = lambda connection: connection.execute(text("ALTER TABLE runs ADD COLUMN more TEXT"))  # noqa: E731
        bring_up(journal.engine, ((NEXT, step), (NEXT + 1, other)))
        (copy,) = copies_of(file)
        assert copy.name == f"journal.sqlite.v{NEXT - 1}"
        assert copy.stat().st_mode & 0o777 == 0o600
        old = make_engine(f"sqlite:///{copy}")
        assert "note" not in {column["name"] for column in inspect(old).get_columns("runs")}
        old.dispose()
        bring_up(journal.engine, ((NEXT + 2, lambda _: None),))
        assert [each.name for each in copies_of(file)] == [f"journal.sqlite.v{NEXT + 1}"]
        Erasures.of(journal).purge(Cutoffs.all_at(journal.clock()))
        leave_no_trace(journal)
        assert copies_of(file) == []


def test_a_step_that_fails_leaves_the_older_journal_whole(place: Place) -> None:
    """Half a migration is none."""
    journal = place.open()

    def fail(connection: Connection) -> None:
        connection.execute(text("ALTER TABLE runs ADD COLUMN note TEXT"))
        raise MemoryError

    with pytest.raises(MemoryError):
        bring_up(journal.engine, ((NEXT, fail),))
    assert "note" not in {column["name"] for column in inspect(journal.engine).get_columns("runs")}
    place.open()


def test_processes_that_open_an_older_journal_at_once_migrate_once(place: Place) -> None:
    """The step would fail if it ran twice."""
    place.open()
    program = (
        "import sys; from sqlalchemy import text\n"
        "from nightscreen.storage.journal.engine import make_engine\n"
        "from nightscreen.storage.journal.migrations import bring_up\n"
        "step = lambda c: c.execute(text('ALTER TABLE runs ADD COLUMN note TEXT'))\n"
        "bring_up(make_engine(sys.argv[1]), ((int(sys.argv[2]), step),))\n"
    )
    url = place.url or f"sqlite:///{place.home / 'journal.sqlite'}"
    started = [subprocess.Popen([sys.executable, "-c", program, url, str(NEXT)]) for _ in range(2)]
    assert [process.wait(60) for process in started] == [0, 0]


def test_a_version_that_cannot_be_read_is_damage(place: Place) -> None:
    """A journal that does not say its version is not guessed at."""
    journal = place.open()
    with writing(journal.engine) as connection:
        put_meta(connection, "schema_version", "x")
    with pytest.raises(JournalError, match="does not say which version"):
        place.open()


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


def reload_rules(engine: Engine) -> None:
    """Have PostgreSQL read its rules of access again, and wait until new connections know them."""
    loaded = text("SELECT pg_conf_load_time()")
    with engine.begin() as connection:
        before = connection.execute(loaded).scalar()
        connection.execute(text("SELECT pg_reload_conf()"))
    for _ in range(500):
        engine.dispose()
        with engine.begin() as connection:
            if connection.execute(loaded).scalar() != before:
                return
        time.sleep(0.01)


@pytest.mark.postgres
def test_a_wrong_password_is_told_without_showing_it(postgresql: str, tmp_path: Path) -> None:
    """PostgreSQL's refusal is one line of ours."""
    engine = create_engine(postgresql.replace("postgresql://", "postgresql+psycopg://"))
    with engine.begin() as connection:
        file = connection.execute(text("SHOW hba_file")).scalar_one()
        connection.execute(text("CREATE ROLE guest LOGIN PASSWORD 'right'"))
    rules = Path(file)
    before = rules.read_text()
    rules.write_text(f"local all guest scram-sha-256\n{before}")
    reload_rules(engine)
    url = postgresql.replace("postgres:@", "guest:secret@")
    try:
        with pytest.raises(JournalError, match="password authentication failed") as told:
            open_journal(tmp_path / "home", url=url)
    finally:
        rules.write_text(before)
        reload_rules(engine)
        with engine.begin() as connection:
            connection.execute(text("DROP ROLE guest"))
        engine.dispose()
    assert "secret" not in str(told.value)
    assert "\n" not in str(told.value)
