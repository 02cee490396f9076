"""The deployments of `prefect.yaml`, served by one process: what `nightscreen up` runs.

The file beside the present folder counts, else the package's. Runs are processes of their own, with
everything loaded before they begin; a work pool is not needed. The inbox is watched by a process of
its own and not scheduled here.
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
"""How often the server is asked for runs: who waits at the counter waits for this too."""


def deployments(text: str) -> list[RunnerDeployment]:
    """Return the deployments that a `prefect.yaml` describes."""
    return [
        _made(given)
        for given in yaml.safe_load(text)["deployments"]
        if given["name"] not in _ELSEWHERE
    ]


def _made(given: dict[str, Any]) -> RunnerDeployment:
    module, _, name = given["entrypoint"].rpartition(".")
    flow: Flow[..., Any] = getattr(import_module(module), name)
    limit = given.get("concurrency_limit")
    made = flow.to_deployment(
        given["name"],
        description=given.get("description"),
        tags=given.get("tags"),
        parameters=given.get("parameters"),
        schedules=[_schedule(each) for each in given.get("schedules", ())],
        concurrency_limit=limit and ConcurrencyLimitConfig.model_validate(limit),
        entrypoint_type=EntrypointType.MODULE_PATH,
    )
    if isinstance(made, Coroutine):
        raise TypeError("deployments are made where no event loop runs")
    return made


def two_folders(text: str, inbox: Path) -> str:
    """Return a line that says where `nightly` reads, unless that is the inbox."""
    given = (each for each in yaml.safe_load(text)["deployments"] if each["name"] == "nightly")
    for each in given:
        folder = Path(each["parameters"]["parameters"].get("input") or inbox / "*").parent
        if folder.absolute() != inbox.absolute():
            return (
                f"nightly reads {folder.absolute()}, and the inbox is {inbox.absolute()}: to have "
                f"one folder, set NIGHTSCREEN_INBOX={folder} or change its input in {FILE}\n"
            )
    return ""


def _schedule(given: dict[str, Any]) -> Schedule:
    CronSchedule(cron=given["cron"], timezone=given["timezone"])  # says what is wrong with them
    return Schedule(
        cron=given["cron"],
        timezone=given["timezone"],
        slug=given["slug"],
        active=given.get("active", True),
    )


def main() -> None:
    """Serve until stopped.

    Raises:
        SettingsError: the server is away, refuses us, or answers anybody.
    """
    if PREFECT_API_URL.value():
        require_engine()
        refuse_open_engine(allowed=read_settings().open_engine)
    own = Path(FILE)
    text = (own if own.exists() else template(FILE)).read_text("utf-8")
    found = deployments(text)
    sys.stdout.write(two_folders(text, read_settings().inbox))
    names = ", ".join(each.full_name for each in found)
    sys.stdout.write(f"serving {names}\n")
    sys.stdout.flush()
    start_runs_warm({str(each.entrypoint).rpartition(".")[0] for each in found})
    serve(
        *found,
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
