"""From typing a command to its first lookup: CPU and wall seconds, with and without a server.

Without a server there are two views: `without` finds an empty folder of Prefect's, as on the first
night of all, and makes its database; `later` finds the database of an earlier night.

The service is a socket of this program: the instant in which the first call of a contestant comes
is the instant in which its clock and its CPU are read. Beside `nightscreen screen` of a small file
stand what anything on the engine needs: its bare import, and a flow of three lines, with one
parameter, that makes one call. `own` is the process itself; `all` counts what it started as well,
which without a server is a temporary server of the engine.

CPU seconds are the least of several rounds: other work on the machine can only add to them. Ratios
are to the bare flow. Run it as `python -m benchmarks.start`; `--views with`,
`without` or `later` takes one.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

from benchmarks.lookup_cost import prefect_server
from benchmarks.measured import load_words, process_cpu_s, process_tree, run_words, tree_cpu_s
from nightscreen.sandbox.batch import make_batch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

VIEWS = ("with", "without", "later")
_PATIENCE_S = 300.0
_LOOK_S = 1.0
"""How often it is looked whether a program that makes no call is over."""
_ROWS = 50
_ANSWER = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
BARE_FLOW = """
import sys
import httpx
from prefect import flow
from pydantic import BaseModel

class Asked(BaseModel):
    url: str

@flow
def ask(asked: Asked) -> None:
    httpx.get(asked.url)

ask(Asked(url=sys.argv[1]))
"""


@dataclass(frozen=True, slots=True)
class Begun:
    """Seconds from the start of a process to its first call, or to its end where it makes none."""

    own_cpu_s: float
    all_cpu_s: float
    wall_s: float


def until_first_call(words: list[str], folder: Path, service: socket.socket) -> Begun:
    """Start a program, take its figures as its first call comes, and end it."""
    env = {**os.environ, "NIGHTSCREEN_HOME": str(folder / "home"), "NIGHTSCREEN_API_KEY": "key"}
    env.pop("PYTHONDONTWRITEBYTECODE", None)  # who installed it has byte code
    env["NIGHTSCREEN_BASE_URL"] = f"http://127.0.0.1:{service.getsockname()[1]}"
    env.setdefault("PREFECT_HOME", str(folder / "prefect"))
    env["PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS"] = "120"  # a busy machine needs longer
    _forget_calls_of_the_last(service)
    with (folder / "said.log").open("wb") as log:
        began = time.perf_counter()
        child = subprocess.Popen(
            words, cwd=folder, env=env, stdout=log, stderr=log, start_new_session=True
        )
        try:
            caller = _caller(service, child)
            caller.settimeout(_PATIENCE_S)
            caller.recv(1)
            found = Begun(
                process_cpu_s(child.pid), tree_cpu_s(child.pid), time.perf_counter() - began
            )
            caller.sendall(_ANSWER)
            caller.close()
        except TimeoutError:
            said = (folder / "said.log").read_text(errors="replace")
            raise SystemExit(f"no call came from: {words}\n{said}") from None
        finally:
            for pid in process_tree(child.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            child.wait()
    return found


def _forget_calls_of_the_last(service: socket.socket) -> None:
    """Take what a program that was ended had called besides."""
    service.settimeout(0)
    with contextlib.suppress(BlockingIOError):
        while True:
            service.accept()[0].close()
    service.settimeout(_LOOK_S)


def _caller(service: socket.socket, child: subprocess.Popen[bytes]) -> socket.socket:
    """Wait for a program's first call.

    Raises:
        TimeoutError: none came, or the program is over.
    """
    until = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return service.accept()[0]
        except TimeoutError:
            if child.poll() is not None or time.monotonic() > until:
                raise


def to_its_end(words: list[str], folder: Path, _service: socket.socket) -> Begun:
    """Run a program that makes no call."""
    before, began = os.times(), time.perf_counter()
    subprocess.run(words, cwd=folder, check=True)
    wall_s, after = time.perf_counter() - began, os.times()
    cpu_s = sum(after[2:4]) - sum(before[2:4])
    return Begun(cpu_s, cpu_s, wall_s)


def contestants(
    file: Path, url: str
) -> dict[str, tuple[list[str], Callable[[list[str], Path, socket.socket], Begun]]]:
    """Return what is measured, each with the way it is."""
    python, output = sys.executable, str(file.parent / "out")
    screen = ["-m", "nightscreen.cli", "screen", str(file), "--output", output, "--yes"]
    return {
        "import prefect": ([python, "-c", "import prefect"], to_its_end),
        "a bare flow": ([python, "-c", BARE_FLOW, url], until_first_call),
        "nightscreen screen": ([python, *screen], until_first_call),
    }


@contextlib.contextmanager
def _prefect_home_of_an_earlier_night(
    below: Path, url: str, service: socket.socket
) -> Iterator[None]:
    """Have every contestant find a database of the engine's that is up to date."""
    with mock.patch.dict(os.environ, {"PREFECT_HOME": str(below / "prefect")}):
        until_first_call([sys.executable, "-c", BARE_FLOW, url], below, service)
        yield


def measure_view(view: str, rounds: int) -> None:
    """Print the table of one view: with a server that runs, or without."""
    title = "without, later night" if view == "later" else f"{view} a server"
    print(f"\n{title:22}{'own CPU s':>10}{'all CPU s':>10}{'wall s':>8}{'ratio':>7}")
    with (
        tempfile.TemporaryDirectory() as below,
        contextlib.ExitStack() as stack,
        socket.create_server(("127.0.0.1", 0)) as service,
    ):
        if view == "with":
            stack.enter_context(prefect_server(Path(below)))
        make_batch(Path(below) / "small.csv", rows=_ROWS, seed=1, damage_pct=0)
        url = f"http://127.0.0.1:{service.getsockname()[1]}/"
        if view == "later":
            stack.enter_context(_prefect_home_of_an_earlier_night(Path(below), url, service))
        found: dict[str, Begun] = {}
        for name, (words, measure) in contestants(Path(below) / "small.csv", url).items():
            taken = []
            for number in range(rounds):
                folder = Path(below) / f"{name.replace(' ', '-')}-{number}"
                folder.mkdir()
                taken.append(measure(words, folder, service))
            found[name] = Begun(
                min(each.own_cpu_s for each in taken),
                min(each.all_cpu_s for each in taken),
                min(each.wall_s for each in taken),
            )
            least = found[name]
            ratio = (
                f"{least.own_cpu_s / found['a bare flow'].own_cpu_s:7.2f}"
                if "a bare flow" in found
                else ""
            )
            print(
                f"{name:22}{least.own_cpu_s:>10.2f}{least.all_cpu_s:>10.2f}{least.wall_s:>8.1f}"
                f"{ratio}  {load_words()}",
                flush=True,
            )


def main() -> None:
    """Measure and print both views."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--views", nargs="+", choices=VIEWS)
    given = parser.parse_args()
    print(run_words())
    for view in given.views or VIEWS:
        measure_view(view, given.rounds)


if __name__ == "__main__":
    main()
