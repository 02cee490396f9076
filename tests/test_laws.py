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


KARMA, ECOSYSTEM = "karma", "ecosystem"
NAIRA = 1_000_000


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    screened = World(tmp_path_factory.mktemp("sound"))
    screened.screen([customer(number, **CONSENT) for number in range(6)])
    return screened


@pytest.fixture
def night(world: World, tmp_path: Path) -> Path:
    """Return a copy of the run's folder, to be damaged."""
    (folder,) = (world.folder / "out").iterdir()
    return shutil.copytree(folder, tmp_path / folder.name)


def edit_report(folder: Path, edit: Edit) -> None:
    path = folder / "report.json"
    report = json.loads(path.read_text("utf-8"))
    edit(report)
    path.write_text(json.dumps(report), "utf-8")


def edit_table(path: Path, edit: Callable[[list[dict[str, Any]]], object]) -> None:
    table = pq.read_table(path)
    rows = table.to_pylist()
    edit(rows)
    pq.write_table(pa.Table.from_pylist(rows, table.schema), path)


def add(number: int, *path: str) -> Edit:
    def edit(report: dict[str, Any]) -> None:
        for name in path[:-1]:
            report = report[name]
        report[path[-1]] += number

    return edit


def put(value: object, *path: str) -> Edit:
    def edit(report: dict[str, Any]) -> None:
        for name in path[:-1]:
            report = report[name]
        report[path[-1]] = value

    return edit


@pytest.mark.parametrize(
    ("edit", "broken"),
    [
        (add(1, "rows", "screened"), "rows.screened"),
        (add(1, "checks", KARMA, "free"), "checks.karma.free"),
        (add(1, "checks", KARMA, "pending"), "7 ends"),
        (put("1.00", "cost", "total"), "cost.total"),
        (put("7.00", "balance", "drift"), "the balance does not add up"),
        (put("1.00", "exposure", "total"), "exposure.total"),
        (add(1, "decisions", "approve"), "decisions.approve"),
        (add(1, "changes", "new"), "changes.new"),
        (put("ada 22000000003", "batch"), "report.json holds 1 identifiers"),
    ],
)
def test_a_false_figure_breaks_a_law(night: Path, edit: Edit, broken: str) -> None:
    """Whatever figure is changed, a sentence names it."""
    assert broken_laws(Folder(night)) == []
    edit_report(night, edit)
    assert any(broken in sentence for sentence in broken_laws(Folder(night)))


def test_a_lost_row_and_a_strange_status_break_a_law(night: Path) -> None:
    """Every row has a result with a known status."""
    (part,) = (night / "enriched").glob("part-*.parquet")
    edit_table(part, lambda rows: rows.pop())
    assert any("rows.read" in sentence for sentence in broken_laws(Folder(night)))
    edit_table(part, lambda rows: rows[0].update(karma_status="perhaps"))
    assert any("unknown statuses" in sentence for sentence in broken_laws(Folder(night)))


def test_a_call_without_consent_at_its_instant_breaks_a_law(night: Path) -> None:
    """A consent that was withdrawn before the call was sent does not allow it."""
    (part,) = (night / "enriched").glob("part-*.parquet")
    edit_table(part, lambda rows: [row.update(consent_reference="CNS-2") for row in rows])
    assert any("without a consent" in sentence for sentence in broken_laws(Folder(night)))


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


class Call:
    """A call of the journal: reserved at one instant, settled at another."""

    def __init__(
        self, number: int, intent_at: int, settled_at: int | None, cost: int | None, state: str
    ) -> None:
        self.call_id, self.intent_at, self.settled_at = number, intent_at, settled_at
        self.reserved_micro = 10 * NAIRA
        self.cost_micro, self.state = None if cost is None else cost * NAIRA, state


def test_a_cap_holds_at_every_instant() -> None:
    """A reservation counts until the call settles, and permanently if the call stays in doubt."""
    one_by_one = [Call(n, n * MICROS, n * MICROS + 1, 0, "answered") for n in range(5)]
    assert granted_beyond(one_by_one, 10 * NAIRA, 0) == 0
    at_once = [Call(n, n, 10 * MICROS, 0, "answered") for n in range(5)]
    assert granted_beyond(at_once, 30 * NAIRA, 0) == 2
    assert granted_beyond(at_once, 30 * NAIRA, since=4) == 1
    lost = [Call(n, n * MICROS, n * MICROS + 1, None, "in_doubt") for n in range(5)]
    assert granted_beyond(lost, 20 * NAIRA, 0) == 3
    dearer = [Call(n, n * MICROS, n * MICROS + 1, 17, "answered") for n in range(2)]
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
