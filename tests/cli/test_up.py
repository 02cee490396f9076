"""`nightscreen up`: one command starts everything, and nothing outlives it, however it ends."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from unittest.mock import patch

import pytest

from nightscreen.cli import reaper, up
from nightscreen.cli.context import settings_of_command
from nightscreen.config.settings import Settings, read_settings
from nightscreen.files.local_engine import announcing, running_engine
from nightscreen.schemas.errors import UsageError
from nightscreen.schemas.shipped import template
from tests.cli.command import COMMAND, SERVICE, nightscreen, surroundings
from tests.cli.conftest import Here

PATIENCE_S = 600.0  # for a machine that does a lot besides; on a quiet one it is seconds
MARK = "TEST_OF_UP"


def bearing(mark: str) -> set[int]:
    """Return the processes that were started with a mark of this test's own."""
    wanted = f"{MARK}={mark}".encode()
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if wanted in (process / "environ").read_bytes().split(b"\0"):
                found.add(int(process.name))
    return found


def until(seen: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not seen():
        assert time.monotonic() < end, "it was not seen in time"
        time.sleep(0.05)


@contextmanager
def started(
    *arguments: str, folder: Path, env: dict[str, str]
) -> Iterator[tuple[subprocess.Popen[bytes], str, Path]]:
    """Start a command; give its process, the mark of all that it starts, and what it writes."""
    mark, log = secrets.token_hex(8), folder / "written"
    with log.open("wb") as out:
        process = subprocess.Popen(
            list(arguments), cwd=folder, env=env | {MARK: mark}, stdout=out, stderr=out
        )
    try:
        yield process, mark, log
    finally:
        for left in bearing(mark):
            with suppress(ProcessLookupError):
                os.kill(left, signal.SIGKILL)
        process.wait()


def test_what_a_killed_process_has_started_ends_too(tmp_path: Path) -> None:
    script = textwrap.dedent(
        """
        import subprocess, sys, time
        from nightscreen.cli import reaper
        group = reaper.begin()
        heedless = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)"
        sleep = [sys.executable, "-c", heedless]
        subprocess.Popen(sleep, process_group=group)
        subprocess.Popen(
            [sys.executable, "-c", f"import subprocess; subprocess.run({sleep!r})"],
            process_group=group,
        )
        print("begun", flush=True)
        time.sleep(600)
        """
    )
    env = surroundings(tmp_path)
    with started(sys.executable, "-c", script, folder=tmp_path, env=env) as (process, mark, log):
        until(lambda: "begun" in log.read_text() and len(bearing(mark)) == 5)
        process.kill()
        process.wait()
        until(lambda: not bearing(mark))


def test_limits_of_the_caller_hold_in_a_demo(
    folder: Path, here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the environment and `.env`, for what is started and what is typed; places do not."""
    (folder / ".env").write_text(
        "NIGHTSCREEN_OVERRIDE_ABOVE=2000\nNIGHTSCREEN_MAX_PER_DAY__KARMA=7\n"
        "NIGHTSCREEN_JOURNAL_URL=postgresql+psycopg://real\nNIGHTSCREEN_API_KEY=real\n"
    )
    callers = {
        "NIGHTSCREEN_APPROVAL_ABOVE": "1000",
        "NIGHTSCREEN_MAX_IN_FLIGHT": '{"karma": 3}',
        "NIGHTSCREEN_DESK_SECOND_FACTOR": "approver",
        "NIGHTSCREEN_OUTPUT": "real",
    }
    for name in SERVICE:
        monkeypatch.delenv(name)
    with ExitStack() as stack:
        stack.enter_context(patch.dict(os.environ, callers))
        stack.enter_context(patch.dict(Settings.model_config))  # the demo reads no `.env`
        up.start_demo(Path("demo"), stack)
        started_with = settings_of_command()
    monkeypatch.chdir(folder / "demo")
    for settings in (started_with, read_settings()):
        assert [settings.approval_above, settings.override_above] == [1000, 2000]
        assert (settings.max_per_day["karma"], settings.max_in_flight["karma"]) == (7, 3)
        assert settings.desk_second_factor == "approver"
        assert str(settings.base_url).startswith("http://127.0.0.1:")
        assert settings.journal_url == ""
        assert str(settings.output) != "real"
    monkeypatch.chdir(folder)
    monkeypatch.setattr(reaper, "begin", os.getpgrp)  # it would outlive the test
    wrong = {"NIGHTSCREEN_APPROVAL_ABOVE": "a lot"}
    with patch.dict(os.environ, wrong), patch.dict(Settings.model_config):
        ended = here("up", "--demo")
    assert (ended.status, "NIGHTSCREEN_APPROVAL_ABOVE" in ended.err) == (2, True)
    assert len(ended.err.strip().splitlines()) == 1, "one line names what is no limit"


@pytest.mark.engine
def test_the_watched_folder_is_the_one_that_nightly_reads(tmp_path: Path) -> None:
    """Nothing is set; where somebody set another one, a line says so."""
    from nightscreen.flows.served import deployments, two_folders  # noqa: PLC0415 - loads the engine

    text = template("prefect.yaml").read_text("utf-8")
    inbox = read_settings(_env_file=None).inbox
    assert "watch-inbox/inbox" not in {each.full_name for each in deployments(text)}
    found = {each.full_name: each for each in deployments(text)}
    nightly = Path(found["screen-batch/nightly"].parameters["parameters"]["input"])
    assert nightly.parent.absolute() == inbox.absolute()
    by_hand = {
        Path(each.parameters["parameters"].get("input", "none")).parent
        for name, each in found.items()
        if name != "screen-batch/nightly" and each.parameters
    }
    assert inbox not in by_hand  # the watch would take what is meant for a form
    assert two_folders(text, inbox) == ""
    assert two_folders(text, inbox.absolute()) == ""
    assert "NIGHTSCREEN_INBOX=inbox" in two_folders(text, tmp_path)


def test_a_home_has_one_up_and_others_find_its_server(tmp_path: Path) -> None:
    """What a dead one has written is not believed."""
    assert running_engine(tmp_path) is None
    with announcing(tmp_path) as tell:
        assert running_engine(tmp_path) is None
        tell("http://127.0.0.1:4200/api", "nightscreen:x")
        assert running_engine(tmp_path) == ("http://127.0.0.1:4200/api", "nightscreen:x")
        assert {file.stat().st_mode & 0o077 for file in tmp_path.iterdir()} == {0}
        with pytest.raises(UsageError, match=f"process {os.getpid()}"), announcing(tmp_path):
            pass
    assert running_engine(tmp_path) is None
    (tmp_path / "up.json").write_text('{"pid": 1, "prefect_api_url": "http://127.0.0.1:9/api"}')
    assert running_engine(tmp_path) is None


@pytest.mark.engine
@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_everything_starts_is_used_and_goes(tmp_path: Path, number: signal.Signals) -> None:
    """Screening meanwhile uses the server that runs; neither a kill nor Ctrl-C leaves a process."""
    env = surroundings(tmp_path)
    env.pop("PREFECT_API_URL", None)
    up = (COMMAND, "up", "--demo", "--port", "0", "--desk-port", "0", "--output", "demo")
    with started(*up, folder=tmp_path, env=env) as (process, mark, log):
        said = ("Everything runs", "desk listening on", "serving screen-batch", "Watching")
        until(lambda: all(words in log.read_text() for words in said))
        assert all("|" in line for line in log.read_text().splitlines() if line)
        demo = tmp_path / "demo"
        lines = (demo / "customers.csv").read_text("utf-8").splitlines(keepends=True)
        (demo / "small.csv").write_text("".join(lines[:3]), "utf-8")
        ended = nightscreen(
            "screen", "small.csv", "--yes", cwd=demo, env=env, patience_s=PATIENCE_S
        )
        assert ended.status == 0, ended.err
        assert "temporary Prefect server" not in ended.err
        process.send_signal(number)
        process.wait(PATIENCE_S)
        until(lambda: not bearing(mark))
    if number == signal.SIGINT:
        assert process.returncode == 0


@pytest.mark.engine
@pytest.mark.long
def test_a_killed_screening_leaves_no_server_of_its_own(tmp_path: Path) -> None:
    """The temporary server ends with the command that started it."""
    env = surroundings(tmp_path, **SERVICE)
    env.pop("PREFECT_API_URL", None)
    rows = "customer_id,bvn\n" + "".join(f"C{n},222123456{n:02}\n" for n in range(20))
    (tmp_path / "customers.csv").write_text(rows)
    screen = (COMMAND, "screen", "customers.csv", "--yes", "--checks", "karma")

    with started(*screen, folder=tmp_path, env=env) as (process, mark, _log):
        folder = tmp_path / ".nightscreen" / "prefect" / "temporary"
        database = folder / "prefect.db"  # the server's first deed
        until(lambda: database.exists() or process.poll() is not None)
        assert process.poll() is None
        process.kill()
        process.wait()
        until(lambda: not bearing(mark))


@pytest.mark.parametrize(("sound_s", "ends"), [(600.0, True), (0.0, False)])
def test_ends_are_counted_together_only_where_they_follow_at_once(
    sound_s: float, monkeypatch: pytest.MonkeyPatch, *, ends: bool
) -> None:
    """What ran for long enough is started again, however often it was started in its life."""
    monkeypatch.setattr(up, "SOUND_AFTER_S", sound_s)
    monkeypatch.setattr(up, "AGAIN_AFTER_S", 0.0)
    services, begun = up.Services(os.getpgrp(), threading.Event()), list[int]()
    service = up.Service("desk", [sys.executable, "-S", "-c", ""])

    def begin(group: int) -> subprocess.Popen[str]:
        begun.append(group)
        if len(begun) > up.MOST_ENDS:
            services.stop.set()
        return up.Service.begin(service, group)

    monkeypatch.setattr(service, "begin", begin)
    service.supervise(services, service.begin(services.group))
    assert (services.failed == "desk") is ends
    assert len(begun) == (up.MOST_ENDS if ends else up.MOST_ENDS + 1)
