"""Runs of a check whose package is installed no longer: `test_added_check` runs this beside them.

The folder of a lender whose nights asked the check is named by the environment.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import nightscreen
from nightscreen.checks.registry import CHECKS
from nightscreen.config.settings import read_settings
from nightscreen.journal import open_journal
from nightscreen.journal.verify import verify_journal
from nightscreen.privacy.erasure import ErasureTarget, erase, find_person_data
from nightscreen.privacy.lookup_subject import lookup_subject
from nightscreen.privacy.subject_access import gather
from tests.cli.conftest import Here
from tests.desk.office import Office
from tests.left_behind import everything

FOLDER = Path(os.environ["LENDER"])
SOMEBODY_ELSE = os.environ["SOMEBODY_ELSE"]


def run_id() -> str:
    return next(path.parent.name for path in sorted((FOLDER / "out").glob("*/manifest.json")))


def test_its_runs_still_open(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    """Journal, frame, desk and commands show what was paid for."""
    assert "phone_owner" not in CHECKS
    with open_journal(FOLDER / "home") as journal:
        assert verify_journal(journal) == []
    frame = nightscreen.open_run(FOLDER / "out" / run_id()).rows
    assert set(frame["phone_owner_status"]) == {"verified", "mismatch", "not_found"}
    with Office(FOLDER) as office:
        analyst = office.browser("analyst", name="opener")
        for page in (f"/runs/{run_id()}", f"/runs/{run_id()}/decisions", "/customers/C1", "/money"):
            assert analyst.get(page).status_code == 200, page
    monkeypatch.setenv("NIGHTSCREEN_HOME", str(FOLDER / "home"))
    for words in (("runs", "show", run_id()), ("explain", "C1")):
        ended = here(*words, "--json")
        assert ended.status == 0, ended.err


def test_it_is_not_resumed_in_ignorance(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line says which check there is no longer."""
    monkeypatch.setenv("NIGHTSCREEN_HOME", str(FOLDER / "home"))
    for named in ([], ["--checks", "phone_owner"]):
        ended = here("screen", "--run", run_id(), *named)
        assert ended.status == 2
        assert "installed no longer" in ended.err or "phone_owner is none of" in ended.err


def test_its_subject_sees_what_is_theirs_and_can_be_erased() -> None:
    """What nothing can tell to be the customer's is withheld; all of it goes."""
    settings = read_settings(_env_file=None, base_url="http://127.0.0.1:1")
    with open_journal(FOLDER / "home") as journal:
        people = lookup_subject(journal, "C5")
        text = json.dumps(gather(journal, people, settings.retention), default=str)
        assert "phone_owner" in text
        assert SOMEBODY_ELSE not in text
        found = find_person_data(journal, ErasureTarget(customer_id="C4"))
        pseudonyms = found.pseudonyms().all
        done = erase(journal, found)
        assert (done["calls"], done["answers"]) == (3, 3)
    for path, held in everything(FOLDER):
        assert not [needle for needle in (b"8030000004", *pseudonyms) if needle in held], path
