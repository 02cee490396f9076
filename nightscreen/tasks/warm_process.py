"""Each flow run in a process of its own, in which all that a run needs was loaded before it came.

A process that waits has loaded the flows and forks once for each run: the run begins at once, where
a new Python would load for seconds. All else is Prefect's runner, which has one place where it
starts a process: a run is cancelled and killed alone, and one that dies is reported as crashed.
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
"""Of the machine's, that one run may take: beyond it the run fails, and not what runs beside it."""
_FORKS = multiprocessing.get_context("forkserver")


def start_runs_warm(modules: Iterable[str]) -> None:
    """Have the runner of this process start each run where modules of flows are loaded.

    Call this once, before the runner starts, where the environment is that of its runs.
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
    """Run what `python -m prefect.engine` runs in a forked process, until that has ended.

    The program and where its output goes are left out: it writes where this process does.
    """
    process = _FORKS.Process(target=_run, args=(dict(env),))
    await asyncio.to_thread(process.start)
    try:
        task_status.started(task_status_handler(process))
        await asyncio.to_thread(process.join)
    except asyncio.CancelledError:  # as Prefect's own: what is cancelled here ends there
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
