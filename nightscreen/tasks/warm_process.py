"""Run each flow run in its own process, forked from one that has loaded the flows already.

So a run begins at once, where a new Python would load for seconds. All else is Prefect's runner;
only the function with which it starts a process is replaced. Runs are cancelled and killed
separately, and a run whose process dies is reported as crashed.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import resource
import runpy
import sys
import warnings
from multiprocessing import forkserver
from typing import TYPE_CHECKING, Any

from prefect.runner import _starter_engine

from nightscreen.tasks.own_flow import PRELOADED_MODULES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from anyio.abc import TaskStatus

_ENGINE = "prefect.engine"
_SHARE_OF_MEMORY = 0.75
"""Of the machine's memory, for one run: beyond it the run fails, rather than another process."""
_FORKS = multiprocessing.get_context("forkserver")


def start_runs_warm(modules: Iterable[str]) -> None:
    """Make this process's Prefect runner start each run in a process with the modules loaded.

    Call this once, before the runner starts, with the environment that its runs need.
    """
    _FORKS.set_forkserver_preload([*modules, *PRELOADED_MODULES])
    forkserver.ensure_running()
    _starter_engine.run_process = _run_process  # type: ignore[assignment,attr-defined]


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
