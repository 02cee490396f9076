"""What does a lookup cost in CPU? The whole line beside what a lender would use instead.

The service answers at once, from a process whose CPU is not counted. Each contestant is a process
of its own that asks karma about the same customers, fifty in flight. Its CPU counts with that of
all processes it starts, from the first row read to the last byte written. Two sizes are measured:
`each` is the larger one's CPU by its lookups, `more` is what one lookup more costs, so that an
engine's start does not count; the engine's server counts with its task runs. Ratios (of `more`) to
bare httpx over pools of ten are what to read.

The line does what none of the others does: it judges every row and consent, seals, commits an
intent before each call and the outcome after it, keeps caps and balances, decides and reports.
Contestants that are no part of the project run in an environment of their own, made here from
`benchmarks/requirements.txt` under `build/bench`.

Run it as `python -m benchmarks.lookup_cost`; `--only` takes some contestants, `--calls` the size.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
import venv
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.measured import load_words, run_words, tree_cpu_s
from nightscreen.sandbox.batch import make_batch
from nightscreen.sandbox.process import SandboxProcess

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
OTHERS = HERE.parent / "build" / "bench" / "venv"
PREFECT_PORT = 4277
_READY_S = 90.0
_PATIENCE_S = 600.0
"""An alternative that takes longer than this for its calls is given up."""


class ContestantError(RuntimeError):
    """A contestant came to no figure; the text says why in one line."""


@dataclass(frozen=True, slots=True)
class Contestant:
    """One way of asking.

    Attributes:
        title: as the table has it.
        words: module and options.
        ours: runs in the project's environment.
        part: share of the calls that it is given; slow ones need not take for ever.
    """

    title: str
    words: tuple[str, ...]
    ours: bool = False
    part: float = 1.0


_ALTERNATIVES = "benchmarks.alternatives"
CONTESTANTS = {
    "httpx": Contestant("bare httpx, pools of 10", (f"{_ALTERNATIVES}.bare_httpx",), ours=True),
    "line": Contestant("the whole line", ("benchmarks.one_line",), ours=True),
    "line-asyncio": Contestant(
        "the whole line, asyncio's own loop", ("benchmarks.one_line", "--asyncio"), ours=True
    ),
    "httpx2": Contestant("bare httpx2, pools of 10", (f"{_ALTERNATIVES}.bare_httpx", "--fork")),
    "aiohttp": Contestant("bare aiohttp", (f"{_ALTERNATIVES}.bare_aiohttp",)),
    "pandas": Contestant("pandas and gather by chunks", (f"{_ALTERNATIVES}.gather_pandas",)),
    "prefect": Contestant(
        "Prefect, a task a lookup", (f"{_ALTERNATIVES}.prefect_tasks",), ours=True, part=0.06
    ),
    "ray": Contestant("Ray Data", (f"{_ALTERNATIVES}.ray_data",), part=0.5),
    "daft": Contestant("Daft", (f"{_ALTERNATIVES}.daft_udf",), part=0.5),
    "dlt": Contestant("dlt", (f"{_ALTERNATIVES}.dlt_pipeline",), part=0.5),
}


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU milliseconds a lookup: of the larger run, and of one lookup more."""

    calls: int
    each_ms: float
    more_ms: float


def others_python() -> str:
    """Return the interpreter of the alternatives' environment, made where it is missing."""
    python = OTHERS / "bin" / "python"
    if not python.exists():
        venv.create(OTHERS, with_pip=True)
    wanted = HERE / "requirements.txt"
    stamp = OTHERS / "installed.txt"
    if not stamp.exists() or stamp.read_text() != wanted.read_text():
        subprocess.run([python, "-m", "pip", "install", "--quiet", "-r", wanted], check=True)
        stamp.write_text(wanted.read_text())
    return str(python)


def run_once(
    contestant: Contestant,
    calls: int,
    folder: Path,
    sandbox: SandboxProcess,
    server: int | None = None,
) -> float:
    """Return the CPU seconds of so many lookups; the service must have seen each once."""
    before = 0.0 if server is None else tree_cpu_s(server)
    sandbox.reset()
    sandbox.post("/_sandbox/latency", {"kind": "none"})
    file = folder / f"customers-{calls}.csv"
    if not file.exists():
        make_batch(file, rows=calls, seed=1, damage_pct=0)
    python = sys.executable if contestant.ours else others_python()
    module, *options = contestant.words
    with tempfile.TemporaryDirectory(dir=folder) as out:
        try:
            done = subprocess.run(
                [python, "-m", module, sandbox.url, sandbox.api_key, str(file), out, *options],
                check=False,
                capture_output=True,
                text=True,
                cwd=HERE.parent,
                timeout=_PATIENCE_S,
            )
        except subprocess.TimeoutExpired:
            raise ContestantError(f"was not done after {_PATIENCE_S:.0f} s") from None
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        raise ContestantError(said[-1])
    found = json.loads(done.stdout.strip().splitlines()[-1])
    seen = sandbox.totals()["totals"]["requests"]
    if seen < 0.98 * calls:
        raise ContestantError(f"{seen} calls came, not {calls}")
    of_server = 0.0 if server is None else tree_cpu_s(server) - before
    return float(found["cpu_s"]) + of_server


def cost_of(
    contestant: Contestant,
    calls: int,
    folder: Path,
    sandbox: SandboxProcess,
    server: int | None = None,
) -> Cost:
    """Measure one contestant at a quarter of the calls and at all of them."""
    many = max(120, int(calls * contestant.part))
    few = many // 4
    small = run_once(contestant, few, folder, sandbox, server)
    large = run_once(contestant, many, folder, sandbox, server)
    return Cost(many, 1000 * large / many, 1000 * (large - small) / (many - few))


@contextlib.contextmanager
def prefect_server(folder: Path) -> Iterator[int]:
    """Run an engine server of its own; yield its process id."""
    url = f"http://127.0.0.1:{PREFECT_PORT}/api"
    kept = dict(os.environ)
    os.environ |= {
        "PREFECT_HOME": str(folder / "prefect"),
        "PREFECT_API_URL": url,
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
        "PREFECT_LOGGING_LEVEL": "ERROR",
    }
    words = ["prefect", "server", "start", "--host", "127.0.0.1", "--port", str(PREFECT_PORT)]
    server = subprocess.Popen(
        [sys.executable, "-m", *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        _wait_for(f"{url}/health")
        yield server.pid
    finally:
        server.terminate()
        server.wait()
        os.environ.clear()
        os.environ |= kept


def _wait_for(url: str) -> None:
    end = time.monotonic() + _READY_S
    while True:
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5):  # noqa: S310 - loopback
            return
        if time.monotonic() > end:
            raise TimeoutError(f"nothing answers at {url}")
        time.sleep(0.5)


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=6000)
    parser.add_argument("--only", nargs="+", choices=list(CONTESTANTS), default=list(CONTESTANTS))
    parser.add_argument("--json", type=Path, help="file to write the figures to as well")
    given = parser.parse_args()
    print(run_words())
    print(f"{'CPU ms a lookup':36}{'calls':>7}{'each':>9}{'more':>9}{'ratio':>8}  machine")
    found: dict[str, Cost] = {}
    with (
        tempfile.TemporaryDirectory() as below,
        SandboxProcess(balance="900000000", ledger_limit=100) as sandbox,
        contextlib.ExitStack() as stack,
    ):
        for name in given.only:
            words = load_words()
            is_engine = name == "prefect"
            server = stack.enter_context(prefect_server(Path(below))) if is_engine else None
            try:
                cost = cost_of(CONTESTANTS[name], given.calls, Path(below), sandbox, server)
            except (ContestantError, subprocess.CalledProcessError) as error:
                if CONTESTANTS[name].ours:
                    raise
                print(f"{CONTESTANTS[name].title:36}failed: {error}", flush=True)
                continue
            found[name] = cost
            ratio = cost.more_ms / found["httpx"].more_ms if "httpx" in found else float("nan")
            print(
                f"{CONTESTANTS[name].title:36}{cost.calls:>7}{cost.each_ms:>9.3f}"
                f"{cost.more_ms:>9.3f}{ratio:>8.2f}  {words}",
                flush=True,
            )
    if given.json:
        shown = {name: [cost.calls, cost.each_ms, cost.more_ms] for name, cost in found.items()}
        given.json.write_text(json.dumps(shown, indent=1))


if __name__ == "__main__":
    main()
