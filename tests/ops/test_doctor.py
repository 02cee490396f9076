"""The doctor tells the truth: which run matters, what its cause needs, whether to begin.

Where things are broken each is reported in words, with what to type next.
"""

from __future__ import annotations

import base64
import socket
import time
from http.server import BaseHTTPRequestHandler
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings

from nightscreen.config.settings import read_settings
from nightscreen.journal import Journal, open_journal
from nightscreen.ops import doctor
from nightscreen.ops.doctor import Diagnosis, Remedy, diagnose
from nightscreen.ops.status import COMMANDS, condition_of
from nightscreen.ops.vitals import write_vitals
from nightscreen.schemas.clock import system_clock
from nightscreen.schemas.errors import JournalError
from nightscreen.schemas.stops import StopReason
from nightscreen.tasks import server
from nightscreen.tasks.server import look_at_engine
from tests.begun import begin_run
from tests.cli.conftest import Here
from tests.ops.signs import signs_in_a_test
from tests.ops.walk import lines_of
from tests.services import answering

DAY = 86_400_000_000
RUN = "20260301-220000-a1b2c3"


def examined(home: Path, way: str | None = None, **more: Any) -> Diagnosis:  # noqa: ANN401 - settings of any kind
    """Ask the doctor, who finds this in the way to the service."""
    given = {"base_url": "https://service.example", "api_key": "made-up"}
    after, trouble = more.pop("more", ()), more.pop("trouble", None)
    clock = more.pop("clock", system_clock)
    found = diagnose(
        read_settings(home=home, **{**given, **more}),
        clock=clock,
        diagnosing=lambda _: way,
        probing=lambda *_: trouble,
        more=after,
    )
    assert lines_of(found)[-1].startswith("safe to run again: ")
    return found


def remedy(found: Diagnosis) -> Remedy:
    assert found.remedy is not None
    return found.remedy


def begun(home: Path) -> None:
    with open_journal(home) as journal:
        ended(journal, RUN, stop="balance")


def ended(
    journal: Journal,
    run_id: str,
    *,
    flow: str = "screen_batch",
    batch: str = "portfolio",
    stop: str | None = None,
) -> None:
    begin_run(journal, run_id, flow=flow, batch=batch, folder=str(journal.home / "out" / run_id))
    state = "completed" if stop is None else "stopped"
    journal.runs.finish(run_id, state=state, stop_reason=stop, report={})


def test_a_later_run_of_another_kind_does_not_hide_a_stopped_night(tmp_path: Path) -> None:
    """A nightly stopped by its budget, then one BVN request that went well: the night is told."""
    with open_journal(tmp_path) as journal:
        ended(journal, "night", stop="budget")
        ended(journal, "request", flow="request_bvns", batch="applicants")
    found = examined(tmp_path)
    assert found.run is not None
    assert found.run["run_id"] == "night"
    assert [run["run_id"] for run in found.others] == ["request"]
    assert found.exit_status == 3
    told = "\n".join(lines_of(found))
    assert "also             run request of applicants (request bvns): completed" in told
    assert "all is well" not in told


def test_a_night_that_was_made_good_is_over(tmp_path: Path) -> None:
    """Only the newest run of a flow and batch counts; of what nobody runs any more, none."""
    now = [10 * 365 * DAY]
    with open_journal(tmp_path, clock=lambda: now[0]) as journal:
        ended(journal, "long-ago", batch="one-off", stop="outage")
        now[0] += 30 * DAY
        ended(journal, "first", stop="outage")
        now[0] += DAY
        ended(journal, "second")
    found = examined(tmp_path, clock=lambda: now[0])
    assert found.run is not None
    assert found.run["run_id"] == "second"
    assert found.others == []
    assert (found.exit_status, found.remedy) == (0, None)


WAYS = {
    "x:443 shows a certificate that is not trusted (self-signed)": ("NIGHTSCREEN_CA_FILE", 2),
    "x:443 shows a certificate for another host (it names y)": ("correct the host in", 2),
    "the name of x:443 cannot be resolved": ("correct the host in NIGHTSCREEN_BASE_URL", 2),
    "the proxy http://p:1 does not lead to x:443 (407)": ("correct NIGHTSCREEN_PROXY", 2),
    "x:443 does not answer within 5 s": ("wait until the service answers again", 3),
}


def test_an_outage_is_mended_by_its_cause(tmp_path: Path) -> None:
    """A certificate or a name stays wrong however long one waits: then no run can start."""
    with open_journal(tmp_path) as journal:
        ended(journal, "night", stop="outage")
    for way, (first, status) in WAYS.items():
        found = examined(tmp_path, way)
        assert first in remedy(found).first
        assert (found.exit_status, found.safe) == (status, status != 2)
        assert ("no run can start: service" in (found.why_not or "")) is (status == 2)


@pytest.mark.parametrize(("trouble", "safe"), [("auth", False), ("address", True)])
def test_a_service_without_loans_may_screen_all_the_same(
    tmp_path: Path, trouble: str, *, safe: bool
) -> None:
    """The free question is about loans: a 404 there stops no screening run, a refused key does."""
    found = examined(tmp_path, trouble=trouble)
    service = next(each for each in found.findings if each.name == "service")
    assert service.standing == ("warning" if safe else "wrong")
    assert ("knows no list of loan products" in service.says) is safe
    assert (found.safe, found.exit_status) == (safe, 0 if safe else 2)


def test_a_full_disk_is_to_be_freed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the full disk has made of the journal's access goes with it."""
    with open_journal(tmp_path) as journal:
        ended(journal, "night", stop="outage")

    def refuse(*_: object, **__: object) -> None:
        raise JournalError("the journal cannot be used: disk I/O error")

    monkeypatch.setattr(doctor, "free_bytes", lambda _: 1_000)
    monkeypatch.setattr(doctor, "open_read_only", refuse)
    found = examined(tmp_path)
    assert remedy(found).first.startswith("free some disk under")
    assert (found.exit_status, found.safe) == (2, False)
    assert found.why_not == "no run can start: disk (home) must be fixed"


def test_an_engine_without_its_database_lets_no_run_begin(tmp_path: Path) -> None:
    """The server says that it is well; what it keeps it cannot say."""

    def away(asked: BaseHTTPRequestHandler, _body: bytes) -> tuple[int, bytes]:
        if asked.command == "POST":
            return 500, b"{}"
        if "csrf" in asked.path:
            return 422, b'{"detail": "CSRF protection is disabled."}'
        return 200, b"true"

    with answering(away) as address, temporary_settings({PREFECT_API_URL: f"{address}/api"}):
        found = examined(tmp_path, more=look_at_engine())
    assert remedy(found).first.startswith("look at the server's log: its database is away")
    assert "answers with 500" in "\n".join(lines_of(found))
    assert (found.exit_status, found.safe) == (2, False)
    assert found.why_not == "no run can start: engine must be fixed"


def test_an_engine_that_accepts_and_does_not_answer_is_not_said_to_be_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The doctor waits for it no longer than its time limit, and sends nobody to start it."""
    monkeypatch.setattr(server, "TIMEOUT_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/api"
        began = time.monotonic()
        with temporary_settings({PREFECT_API_URL: url}):
            found = examined(tmp_path, more=look_at_engine())
    assert time.monotonic() - began < 10
    assert "lives, but does not answer" in "\n".join(lines_of(found))
    assert remedy(found).first.startswith("look at the server's log")


FACTS = ("approval", "deadline_at", "stop_reason", "missing_micro", "cap_micro", "held", "pid")
KNOWN: dict[str, Any] = {"now": 0, "bound_micro": 0, "caps_in_the_way": [], "checks": {}}
STATES: list[dict[str, Any]] = [
    *({"state": "stopped", "stop_reason": reason} for reason in StopReason if reason != "approval"),
    *({"state": state} for state in ("killed", "hung", "running", "test_mode")),
    {"state": "completed", "held": True},
]


def test_nobody_is_sent_in_a_circle() -> None:
    """The next command is never the doctor again, nor the list that led here, unless mended."""
    for flow, changes in product([*COMMANDS, "import_outcomes"], STATES):
        run = {**dict.fromkeys(FACTS), "run_id": RUN, "flow": flow, **KNOWN, **changes}
        found = Diagnosis(run=run)
        doctor._conclude(found, "")
        first, command = remedy(found)
        assert first or command, (flow, changes)
        circle = ("nightscreen doctor", "nightscreen runs show")
        assert not command.startswith(circle), (flow, changes)


OTHER_KEY = base64.b64encode(bytes(range(32))).decode()
NOBODY_LISTENS = "postgresql+psycopg://someone:pass-word-7@127.0.0.1:9/journal"


def test_an_empty_machine_is_told_what_to_set(
    here: Here, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No journal, no settings: the two names to set, and how to begin; a wrong one is named."""
    with monkeypatch.context() as patch:
        patch.delenv("NIGHTSCREEN_BASE_URL")
        patch.delenv("NIGHTSCREEN_API_KEY")
        said = here("doctor")
    assert said.status == 2
    assert "NIGHTSCREEN_BASE_URL and NIGHTSCREEN_API_KEY" in said.out
    assert "nightscreen quote FILE" in said.out
    assert said.out.endswith("no run can start: settings must be fixed\n")
    assert not (folder / ".nightscreen").exists()
    for name, value, word in (
        ("NIGHTSCREEN_BASE_URL", "http://service.example", "https"),
        ("NIGHTSCREEN_ATTEMPTS", "many", "NIGHTSCREEN_ATTEMPTS"),
        ("NIGHTSCREEN_JOURNAL_URL", "mysql://x", "NIGHTSCREEN_JOURNAL_URL"),
    ):
        with monkeypatch.context() as patch:
            patch.setenv(name, value)
            said = here("doctor", "--json")
        assert (said.status, said.document["exit_status"]) == (2, 2), name
        wrong = [each for each in said.document["findings"] if each["standing"] == "wrong"]
        assert word in wrong[0]["says"]
        assert not said.document["safe_to_run_again"], name
        assert said.document["why_not"].startswith("no run can start: "), name


def test_a_journal_in_trouble_is_told_beside_the_run(tmp_path: Path) -> None:
    """The run's state needs no key; its answers do. A damaged file is not touched.

    A journal that HOME remembers is no empty beginning: a new one would buy everything again.
    """
    home, file = tmp_path / "home", tmp_path / "home" / "journal.sqlite"
    begun(home)
    found = examined(home, data_key=OTHER_KEY)
    assert found.exit_status == 2
    assert remedy(found).first.startswith("put the right data key back; then top the wallet up")
    assert remedy(found).command == f"nightscreen screen --run {RUN}"
    (home / "data.key").unlink()
    assert any("key is missing" in each.says for each in examined(home).findings)
    for extra in ("-wal", "-shm"):
        file.with_name(file.name + extra).unlink(missing_ok=True)
    file.write_bytes(b"no database at all" * 999)
    before = file.read_bytes()
    found = examined(home)
    assert found.exit_status == 2
    assert "mv " in remedy(found).first
    assert remedy(found).command == "nightscreen journal restore BACKUP_DIR"
    assert file.read_bytes() == before
    file.unlink()
    found = examined(home)
    assert found.exit_status == 2
    assert any("not there any more" in each.says for each in found.findings)


def test_a_database_that_is_down_is_told_without_its_password(tmp_path: Path) -> None:
    """PostgreSQL is not there; settings, disk and service are looked at all the same."""
    found = examined(tmp_path / "home", journal_url=NOBODY_LISTENS)
    assert found.exit_status == 2
    assert remedy(found).first.startswith("start the journal's database")
    told = "\n".join(lines_of(found))
    assert "cannot be reached" in told
    assert "pass-word-7" not in told
    assert "GB free" in told


def test_a_resumed_run_forgets_the_earlier_report_once_it_asks(tmp_path: Path) -> None:
    """What is left to ask is not counted beside what was answered since, whatever it does now."""
    home, report = tmp_path / "home", {"checks": {"karma": {"pending": 1000}}}
    settings = read_settings(_env_file=None, home=home)
    with open_journal(home) as journal:
        begin_run(journal, RUN)
        journal.runs.keep_report(RUN, report)
        run = journal.runs.find(RUN)
        assert run is not None
        expected = {"planning": 1000, "asking": 600, "waiting": 600, "writing": 600}
        for phase, left in expected.items():
            write_vitals(home, RUN, signs_in_a_test(phase=phase))
            checks = condition_of(run, settings, journal, journal.clock)["checks"]
            assert checks["karma"]["left"] == left, phase


def test_a_hung_run_is_told_from_a_living_one(tmp_path: Path) -> None:
    """Its lock is held, but its signs are old: the process to end is named."""
    home = tmp_path / "home"
    with open_journal(home) as journal:
        begin_run(journal, RUN, folder=str(tmp_path / "out" / "x"))
        old = signs_in_a_test(run_id=RUN, at=journal.clock() - 300_000_000)
        write_vitals(home, RUN, old)
        found = examined(home)
        assert found.run is not None
        assert found.run["state"] == "hung"
        assert (found.exit_status, found.safe) == (3, False)
        assert "kill -TERM" in remedy(found).first
        write_vitals(home, RUN, {**old, "at": journal.clock()})
        assert examined(home).exit_status == 0
