"""Nobody's data where it does not belong, however a run ends.

Permitted are `enriched/` and `quarantine.csv`, and in the decision list names and customer ids;
everything else that a run leaves is searched: the engine's database and logs, what was said, the
journal, the work in hand, the reports, file names.
"""

from __future__ import annotations

import json
import re
import time

import pytest

from nightscreen.sandbox.process import SandboxProcess
from tests.privacy.conftest import API_KEY, Place
from tests.privacy.search import Search
from tests.services import EngineServer

pytestmark = [pytest.mark.engine, pytest.mark.long]

EVERY_KIND = ("--karma-identities", "bvn,phone,email,nuban")


def _search_everything(place: Place, *engines: EngineServer) -> None:
    """Find nothing in anything that was left."""
    search = Search({*place.marked.values, API_KEY})
    found = {
        name: values
        for name, text in place.searched()
        if (values := _not_permitted(name, search.found_in(text)))
    }
    for engine in engines:
        for path in engine.folder.rglob("*"):
            if path.is_file() and (values := search.found_in(path.read_bytes())):
                found[f"engine {path.name}"] = values
    assert found == {}


def _not_permitted(name: str, values: set[str]) -> set[str]:
    """Return what may not stand in a file: in the decision list names and customer ids may."""
    if not name.rpartition("/")[2].startswith("decisions."):
        return values
    return {value for value in values if re.search(r"\d{10}|@", value) or value == API_KEY}


def _all_is_private(place: Place) -> None:
    for tree in (place.folder / ".nightscreen", place.folder / "out"):
        for path in (tree, *tree.rglob("*")):
            mode = path.stat().st_mode & 0o777
            assert mode == (0o700 if path.is_dir() else 0o600), f"{path} has {mode:o}"


@pytest.mark.sample
def test_after_a_night_with_every_fault(place: Place) -> None:
    """With a temporary server of the engine, whose database is under HOME."""
    ended = place.screen(*EVERY_KIND, "--json")
    assert ended.status in {0, 3}, ended.err
    report = json.loads(ended.out)
    assert report["rows"]["quarantined"] == 2
    assert report["checks"]["karma"]["answers"]["listed"] > 0
    assert report["checks"]["karma"]["in_doubt"] > 0
    assert report["checks"]["karma"]["failed"] > 0
    assert list(place.folder.rglob("prefect/temporary/*.db"))
    (quarantine,) = (place.folder / "out").glob("*/quarantine.csv")
    assert Search(place.marked.values).found_in(quarantine.read_bytes())
    _search_everything(place)
    _all_is_private(place)


def test_after_a_kill(place: Place, engine_server: EngineServer, sandbox: SandboxProcess) -> None:
    """Rows in hand are sealed, calls under way bear pseudonyms; the run is listed as killed."""
    place.env.update(engine_server.client)
    before = sandbox.totals()["totals"]["requests"]
    sandbox.post("/_sandbox/latency", {"kind": "fixed", "ms": 150})
    child = place.start(*EVERY_KIND)
    while sandbox.totals()["totals"]["requests"] < before + 20:
        assert child.poll() is None
        time.sleep(0.05)
    child.kill()
    child.communicate()
    sandbox.post("/_sandbox/latency", {"kind": "none"})
    assert any((place.folder / ".nightscreen" / "work").glob("*/*.sealed"))
    _search_everything(place, engine_server)
    _all_is_private(place)
