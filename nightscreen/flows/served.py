"""Serve the deployments of `prefect.yaml` in one process, for `nightscreen up`.

The file of the working directory is used, else the package's. Each run is a separate process with
all modules loaded; no work pool is needed. `nightscreen inbox` watches the inbox, so its deployment
is left out.
"""

from __future__ import annotations

import sys
from collections.abc import Coroutine
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from prefect import Flow, serve
from prefect.client.schemas.objects import ConcurrencyLimitConfig
from prefect.client.schemas.schedules import CronSchedule
from prefect.schedules import Schedule
from prefect.settings import PREFECT_API_URL
from prefect.types.entrypoint import EntrypointType

from nightscreen.config.settings import read_settings
from nightscreen.schemas.errors import NightscreenError
from nightscreen.schemas.shipped import template
from nightscreen.tasks.prefect_health import refuse_open_engine, require_engine
from nightscreen.tasks.warm_process import start_runs_warm

if TYPE_CHECKING:
    from prefect.deployments.runner import RunnerDeployment

FILE = "prefect.yaml"
_ELSEWHERE = frozenset({"inbox"})
_AT_ONCE = 4
_ASKS_EVERY_S = 0.3
"""How often to ask the server for runs: an applicant at the counter waits for this too."""


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
    start_runs_warm({str(deployment.entrypoint).rpartition(".")[0] for deployment in served})
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
