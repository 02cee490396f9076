"""Tests of the laws: a run that is damaged in one place breaks the law about it."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nightscreen.schemas.clock import MICROS
from tests.laws import Overseen, broken_laws, consent_counts, granted_beyond, require_laws
from tests.recomputed import Folder
from tests.screening import CONSENT, World, customer

Edit = Callable[[dict[str, Any]], object]


NAIRA = 1_000_000


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    screened = World(tmp_path_factory.mktemp("sound"))
    screened.screen([customer(number, **CONSENT) for number in range(6)])
    return screened


@pytest.fixture
def night(world: World, tmp_path: Path) -> Path:
    (folder,) = (world.folder / "out").iterdir()
    return shutil.copytree(folder, tmp_path / folder.name)


def set_figure(change: Callable[[Any], object], *path: str) -> Edit:
    def edit(report: dict[str, Any]) -> None:
        for name in path[:-1]:
            report = report[name]
        report[path[-1]] = change(report[path[-1]])

    return edit


def add_one(*path: str) -> Edit:
    return set_figure(lambda figure: figure + 1, *path)


def put(value: object, *path: str) -> Edit:
    return set_figure(lambda _: value, *path)


@pytest.mark.parametrize(
    ("edit", "broken"),
    [
        (add_one("rows", "screened"), "rows.screened"),
        (add_one("checks", "karma", "free"), "checks.karma.free"),
        (add_one("checks", "karma", "pending"), "7 ends"),
        (put("1.00", "cost", "total"), "cost.total"),
        (put("7.00", "balance", "drift"), "the balance does not add up"),
        (put("1.00", "exposure", "total"), "exposure.total"),
        (add_one("decisions", "approve"), "decisions.approve"),
        (add_one("changes", "new"), "changes.new"),
        (put("ada 22000000003", "batch"), "report.json holds 1 identifiers"),
    ],
)
def test_a_false_figure_breaks_a_law(night: Path, edit: Edit, broken: str) -> None:
    """Whatever figure is changed, a sentence names it."""
    assert broken_laws(Folder(night)) == []
    path = night / "report.json"
    report = json.loads(path.read_text("utf-8"))
    edit(report)
    path.write_text(json.dumps(report), "utf-8")
    assert any(broken in sentence for sentence in broken_laws(Folder(night)))


@pytest.mark.parametrize(
    ("edit", "broken"),
    [
        (lambda rows: rows.pop(), "rows.read"),
        (lambda rows: rows[0].update(karma_status="perhaps"), "unknown statuses"),
        (lambda rows: [row.update(consent_reference="CNS-2") for row in rows], "without a consent"),
    ],
)
def test_a_false_row_breaks_a_law(
    night: Path, edit: Callable[[list[dict[str, Any]]], object], broken: str
) -> None:
    """Every row has a result with a known status, and a consent at the instant of its calls."""
    (part,) = (night / "enriched").glob("part-*.parquet")
    table = pq.read_table(part)
    rows = table.to_pylist()
    edit(rows)
    pq.write_table(pa.Table.from_pylist(rows, table.schema), part)
    assert any(broken in sentence for sentence in broken_laws(Folder(night)))


def test_a_consent_counts_from_when_it_was_given_until_it_ends(world: World) -> None:
    """It is not valid before, after its end, or from its withdrawal on."""
    (folder,) = (world.folder / "out").iterdir()
    row = Folder(folder).rows[0]
    given = row["consented_at"]
    assert consent_counts(row, given + timedelta(days=60))
    assert not consent_counts(row, given - timedelta(seconds=1))
    assert not consent_counts(row, given + timedelta(days=367))
    later = given + timedelta(days=9)
    assert not consent_counts({**row, "consent_withdrawn_at": later}, later)
    assert not consent_counts({**row, "consent_expires_at": later}, later)


def test_a_journal_that_is_not_what_is_reported_breaks_a_law(world: World, tmp_path: Path) -> None:
    """A wrong cost and unexplained money in the service's ledger are both found."""
    shutil.copytree(world.folder / "home", tmp_path / "home")
    (folder,) = (world.folder / "out").iterdir()
    other = World(tmp_path)
    charged = Decimal(world.charged)
    require_laws(folder, other.read_settings(), 0, charged=charged)
    with pytest.raises(AssertionError, match="the service charged"):
        require_laws(folder, other.read_settings(), 0, charged=charged + 1)
    with closing(sqlite3.connect(tmp_path / "home" / "journal.sqlite")) as connection, connection:
        connection.execute("UPDATE calls SET cost_micro = 1 WHERE cost_micro > 0")
    with pytest.raises(AssertionError, match=r"calls\.parquet is not what the journal holds"):
        require_laws(folder, other.read_settings(), 0)


def call(number: int, intent_at: int, settled_at: int, cost: int | None) -> Any:  # noqa: ANN401 - as the journal has it
    """Return a call of the journal that was answered, or is in doubt where its cost is unknown."""
    return SimpleNamespace(
        call_id=number,
        intent_at=intent_at,
        settled_at=settled_at,
        reserved_micro=10 * NAIRA,
        cost_micro=None if cost is None else cost * NAIRA,
        state="in_doubt" if cost is None else "answered",
    )


def test_a_cap_holds_at_every_instant() -> None:
    """A reservation counts until the call settles, and permanently if the call stays in doubt."""
    one_by_one = [call(n, n * MICROS, n * MICROS + 1, 0) for n in range(5)]
    assert granted_beyond(one_by_one, 10 * NAIRA, 0) == 0
    at_once = [call(n, n, 10 * MICROS, 0) for n in range(5)]
    assert granted_beyond(at_once, 30 * NAIRA, 0) == 2
    assert granted_beyond(at_once, 30 * NAIRA, since=4) == 1
    lost = [call(n, n * MICROS, n * MICROS + 1, None) for n in range(5)]
    assert granted_beyond(lost, 20 * NAIRA, 0) == 3
    dearer = [call(n, n * MICROS, n * MICROS + 1, 17) for n in range(2)]
    assert granted_beyond(dearer, 20 * NAIRA, 0) == 0, "a price that rose is no grant"


async def test_a_call_before_its_intent_is_seen(tmp_path: Path) -> None:
    """Another process sees a committed intent for every call in flight."""
    with closing(sqlite3.connect(tmp_path / "journal.sqlite")) as connection:
        connection.execute("CREATE TABLE calls (state TEXT)")
        connection.commit()
        answering = httpx.MockTransport(lambda _: httpx.Response(200))
        wire = Overseen(answering, tmp_path)
        request = httpx.Request("GET", "http://127.0.0.1/")
        await wire.handle_async_request(request)
        assert (wire.unannounced, wire.most_under_way) == (1, 1)
        connection.execute("INSERT INTO calls VALUES ('intent')")
        await wire.handle_async_request(request)
        assert wire.unannounced == 2, "an intent that is not committed is none"
        connection.commit()
        await wire.handle_async_request(request)
        assert wire.unannounced == 2
        await wire.aclose()
