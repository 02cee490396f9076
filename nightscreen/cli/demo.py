"""`nightscreen demo`: screen fictional customers twice against the simulator; needs no key.

The second night costs nothing. All files are in one folder, which each demo empties. `nightscreen
up --demo` uses the same folder and settings.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args, get_origin

import typer
from dotenv import dotenv_values
from pydantic import SecretStr

from nightscreen.cli.command import Result, command
from nightscreen.cli.context import DOTENV
from nightscreen.cli.engine import EXIT_BY_STATE, run_flow
from nightscreen.cli.output import about, say, view
from nightscreen.config.parameters import ScreenBatch
from nightscreen.config.settings import PREFIX, Settings
from nightscreen.files.private_files import make_private_folder
from nightscreen.sandbox.batch import make_batch
from nightscreen.sandbox.process import SandboxProcess
from nightscreen.sandbox.server import serve
from nightscreen.schemas.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

SEED = 1
DAMAGE_PCT = 2.0  # of rows, so that the demo has a quarantine to show
WALLET_NAIRA = "5000000"
MARKER = "made-by-nightscreen-demo"
_MADE = ("home", "out", "customers.csv")
_CAPS = {"BANK_ACCOUNT": "40", "KARMA": "40", "ECOSYSTEM": "40"}
_NO_PLACE = frozenset({"desk_second_factor"})  # text settings that are limits

sandbox = command("sandbox --port 8800 --scenario flaky")(serve)


@command("demo --rows 1000", view="demo")
def demo(
    rows: Annotated[int, typer.Option(min=1, max=1_000_000, help="Customers to make.")] = 10_000,
    output: Annotated[Path, typer.Option(help="Where the demo keeps everything.")] = Path(
        ".nightscreen-demo"
    ),
) -> Result:
    """Screen fictional customers twice against the simulator; needs no key."""
    folder = prepare_folder(output)
    file = folder / "customers.csv"
    make_batch(file, rows=rows, seed=SEED, damage_pct=DAMAGE_PCT)
    file.chmod(0o600)
    say(f"{rows:,} fictional customers, about {DAMAGE_PCT:.0f} % with bad data: {file}")
    with SandboxProcess(balance=WALLET_NAIRA) as sandbox:
        say(f"The simulator runs at {sandbox.url}; nothing here costs real money.")
        use_simulator(sandbox.url, sandbox.api_key, folder)
        options = {"input": str(file), "batch": "demo", "output": str(folder / "out"), "yes": True}
        parameters = ScreenBatch(**options)
        nights = [run_flow("screen_batch:screen_batch", parameters) for _ in range(2)]
        document = {"nights": nights, "ledger": sandbox.totals()}
    status = max(EXIT_BY_STATE.get(night["state"], 1) for night in nights)
    shown = [view("summary", night, **about(night, folder / "out")) for night in nights]
    return Result(document, status, more={"folder": folder, "shown": shown})


def prepare_folder(output: Path) -> Path:
    """Return the demo's folder, without the files of an earlier demo.

    Raises:
        UsageError: the folder holds something that no demo made, or cannot be written.
    """
    if output.exists() and not output.is_dir():
        raise UsageError(f"--output: {output} is a file; name a folder")
    if output.is_dir() and any(output.iterdir()) and not (output / MARKER).exists():
        raise UsageError(
            f"--output: {output} holds something that no demo made; remove it or name another "
            "folder"
        )
    folder = make_private_folder(output)
    (folder / MARKER).touch(mode=0o600)
    for path in (folder / name for name in _MADE):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    return folder


def limits_set() -> dict[str, str]:
    """Return the settings of the environment and `.env` that apply in a demo too.

    These are numbers, times and choices; the demo sets its own paths, addresses and secrets.
    """
    variables = {**dotenv_values(DOTENV, encoding="utf-8"), **os.environ}
    return {
        name.upper(): value
        for name, value in variables.items()
        if name.upper().startswith(PREFIX) and value is not None and not _is_place(name)
    }


def _is_place(name: str) -> bool:
    field = name.upper().removeprefix(PREFIX).partition("__")[0].lower()
    if field not in Settings.model_fields or field in _NO_PLACE:
        return False
    kind = Settings.model_fields[field].annotation
    if get_origin(kind) is dict:  # numbers by check
        return False
    return bool({str, Path, SecretStr}.intersection({kind, *get_args(kind)}))


def use_simulator(
    url: str, api_key: str, folder: Path, limits: Mapping[str, str] | None = None
) -> None:
    """Point this process at the simulator and the demo's own HOME; other settings are removed."""
    limits = limits or {}
    for name in [variable for variable in os.environ if variable.upper().startswith(PREFIX)]:
        del os.environ[name]
    Settings.model_config["env_file"] = None
    own = {"BASE_URL": url, "API_KEY": api_key, "HOME": str(folder / "home")}
    if f"{PREFIX}MAX_IN_FLIGHT" not in limits:
        own |= {f"MAX_IN_FLIGHT__{check}": cap for check, cap in _CAPS.items()}
    os.environ.update({f"{PREFIX}{name}": value for name, value in own.items()})
    os.environ.update(limits)
