"""Serve the deployments of `prefect.yaml` in one process, for `nightscreen up`.

The file of the working directory is used, else the package's; no work pool is needed. `nightscreen
inbox` watches the inbox, so its deployment is left out.

Each run is a separate process, forked from one that has loaded the flows already: it begins at
once, where a new Python would load for seconds. All else is Prefect's runner; only the function
with which it starts a process is replaced. Runs are cancelled and killed separately, and a run
whose process dies is reported as crashed.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import resource
import runpy
import sys
import warnings
from collections.abc import Coroutine
from importlib import import_module
from multiprocessing import forkserver
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from prefect import Flow, serve
from prefect.client.schemas.objects import ConcurrencyLimitConfig
from prefect.client.schemas.schedules import CronSchedule
from prefect.runner import _starter_engine
from prefect.schedules import Schedule
from prefect.settings import PREFECT_API_URL
from prefect.types.entrypoint import EntrypointType

from nightscreen.config.settings import read_settings
from nightscreen.schemas.errors import NightscreenError
from nightscreen.schemas.shipped import template
from nightscreen.tasks.server import refuse_open_engine, require_engine

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from anyio.abc import TaskStatus
    from prefect.deployments.runner import RunnerDeployment

FILE = "prefect.yaml"
_ELSEWHERE = frozenset({"inbox"})
_AT_ONCE = 4
_ASKS_EVERY_S = 0.3
"""How often to ask the server for runs: an applicant at the counter waits for this too."""
_ENGINE = "prefect.engine"
_SHARE_OF_MEMORY = 0.75
"""Of the machine's memory, for one run: beyond it the run fails, rather than another process."""
_FORKS = multiprocessing.get_context("forkserver")


def deployments(text: str) -> list[RunnerDeployment]:
    """Return the deployments that a `prefect.yaml` describes."""
    return [
        _deployment(entry)
        for entry in yaml.safe_load(text)["deployments"]
        if entry["name"] not in _ELSEWHERE
    ]


def _deployment(entry: dict[str, Any]) -> RunnerDeployment:
    module, _, name = entry["entrypoint"].rpartition(".")
    flow: Flow[..., Any] = getattr(import_module(module), name)
    limit = entry.get("concurrency_limit")
    deployment = flow.to_deployment(
        entry["name"],
        description=entry.get("description"),
        tags=entry.get("tags"),
        parameters=entry.get("parameters"),
        schedules=[_schedule(schedule) for schedule in entry.get("schedules", ())],
        concurrency_limit=limit and ConcurrencyLimitConfig.model_validate(limit),
        entrypoint_type=EntrypointType.MODULE_PATH,
    )
    if isinstance(deployment, Coroutine):
        raise TypeError("deployments are made where no event loop runs")
    return deployment


def two_folders(text: str, inbox: Path) -> str:
    """Return a line that says where `nightly` reads its input, if not in the inbox."""
    nightly = (entry for entry in yaml.safe_load(text)["deployments"] if entry["name"] == "nightly")
    for entry in nightly:
        folder = Path(entry["parameters"]["parameters"].get("input") or inbox / "*").parent
        if folder.absolute() != inbox.absolute():
            return (
                f"nightly reads {folder.absolute()}, and the inbox is {inbox.absolute()}: to have "
                f"one folder, set NIGHTSCREEN_INBOX={folder} or change its input in {FILE}\n"
            )
    return ""


def _schedule(entry: dict[str, Any]) -> Schedule:
    CronSchedule(cron=entry["cron"], timezone=entry["timezone"])  # reports what is wrong with them
    return Schedule(
        cron=entry["cron"],
        timezone=entry["timezone"],
        slug=entry["slug"],
        active=entry.get("active", True),
    )


async def _run_process(
    *,
    task_status: TaskStatus[Any],
    task_status_handler: Callable[[Any], Any],
    env: Mapping[str, str],
    **_: object,
) -> None:
    """Run `prefect.engine` in a forked process until it ends; in place of Prefect's `run_process`.

    The output goes where this process's does.
    """
    process = _FORKS.Process(target=_run, args=(dict(env),))
    await asyncio.to_thread(process.start)
    try:
        task_status.started(task_status_handler(process))
        await asyncio.to_thread(process.join)
    except asyncio.CancelledError:  # as Prefect's own function: cancelling ends the process
        process.terminate()
        raise


def _run(environment: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    most = int(machine * _SHARE_OF_MEMORY)
    if soft == resource.RLIM_INFINITY or soft > most:
        resource.setrlimit(resource.RLIMIT_DATA, (most, hard))
    del sys.argv[1:]  # the run is named in the environment
    warnings.filterwarnings("ignore", f"'{_ENGINE}' found in sys.modules", RuntimeWarning)
    runpy.run_module(_ENGINE, run_name="__main__")


def main() -> None:
    """Serve until stopped.

    Raises:
        SettingsError: the server cannot be reached, refuses the login, or needs none.
    """
    if PREFECT_API_URL.value():
        require_engine()
        refuse_open_engine(allowed=read_settings().open_engine)
    own = Path(FILE)
    text = (own if own.exists() else template(FILE)).read_text("utf-8")
    served = deployments(text)
    sys.stdout.write(two_folders(text, read_settings().inbox))
    names = ", ".join(deployment.full_name for deployment in served)
    sys.stdout.write(f"serving {names}\n")
    sys.stdout.flush()
    modules = {str(deployment.entrypoint).rpartition(".")[0] for deployment in served}
    _FORKS.set_forkserver_preload([*modules, "nightscreen.tasks.preloaded"])
    forkserver.ensure_running()
    _starter_engine.run_process = _run_process  # type: ignore[assignment,attr-defined]
    serve(
        *served,
        pause_on_shutdown=False,
        print_starting_message=False,
        limit=_AT_ONCE,
        query_seconds=_ASKS_EVERY_S,
    )


if __name__ == "__main__":
    try:
        main()
    except NightscreenError as error:
        sys.stderr.write(f"nightscreen: {error}\n")
        sys.exit(error.exit_status)
