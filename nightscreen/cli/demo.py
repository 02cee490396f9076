"""`nightscreen demo`: the product at work on made-up people, against the simulator; no key needed.

Two nights of the same batch: the second costs nothing. Everything is under one folder, which each
demo clears unless it continues an earlier one.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_origin

import typer
from pydantic import SecretStr

from nightscreen.cli.output import print_json
from nightscreen.cli.summary import naira, print_summary
from nightscreen.schemas.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

SEED = 1
DAMAGE_PCT = 2.0
WALLET_NAIRA = "5000000"
MARKER = "made-by-nightscreen-demo"
_MADE = ("home", "out", "customers.csv")
_CAPS = {"BANK_ACCOUNT": "40", "KARMA": "40", "ECOSYSTEM": "40"}
_OURS = "NIGHTSCREEN_"
_LIMITS_IN_WORDS = frozenset({"desk_second_factor"})


def demonstrate(rows: int, output: Path, *, keep: bool, json_output: bool) -> int:
    """Screen a made-up batch twice against the simulator and return the exit status.

    Raises:
        UsageError: the folder holds something that no demo made, or cannot be written.
    """
    from nightscreen.cli.screen import EXIT_BY_STATE, graceful_sigint, prepare_engine
    from nightscreen.sandbox.batch import make_batch
    from nightscreen.sandbox.process import SandboxProcess

    say = _quiet if json_output else typer.echo
    folder = prepare_folder(output, keep=keep)
    file = folder / "customers.csv"
    facts = make_batch(file, rows=rows, seed=SEED, damage_pct=DAMAGE_PCT)
    file.chmod(0o600)
    say(f"Made {facts.rows:,} customers up, about {DAMAGE_PCT:.0f} % damaged: {file}")
    with SandboxProcess(balance=WALLET_NAIRA) as sandbox:
        say(f"The simulator runs at {sandbox.url}; nothing here costs real money.")
        point_at(sandbox.url, sandbox.api_key, folder)
        with graceful_sigint():
            prepare_engine()
            nights = asyncio.run(_two_nights(file, folder / "out", say))
        ledger = sandbox.totals()
    if json_output:
        document = {"nights": nights, "ledger": ledger}
        print_json(document)
    else:
        _print_nights(nights, ledger, folder)
    return max(EXIT_BY_STATE.get(night["state"], 1) for night in nights)


def prepare_folder(output: Path, *, keep: bool) -> Path:
    """Return the demo's folder, emptied of what an earlier demo left there.

    Raises:
        UsageError: it holds something that no demo made, or cannot be written.
    """
    from nightscreen.files.private_files import make_private_folder

    if output.exists() and not output.is_dir():
        raise UsageError(f"--output: {output} is a file; name a folder")
    if output.is_dir() and any(output.iterdir()) and not (output / MARKER).exists():
        raise UsageError(
            f"--output: {output} holds something that no demo made; remove it or name another "
            "folder"
        )
    folder = make_private_folder(output)
    (folder / MARKER).touch(mode=0o600)
    if not keep:
        for name in _MADE:
            made = folder / name
            if made.is_dir():
                shutil.rmtree(made)
            else:
                made.unlink(missing_ok=True)
    return folder


def _quiet(_text: str) -> None:
    """Say nothing, where stdout belongs to one JSON document."""


def limits_set() -> dict[str, str]:
    """Return what the environment and `.env` set that holds in a demo too.

    That is every number, time and choice; places, files and secrets are the demo's own.
    """
    from dotenv import dotenv_values

    from nightscreen.cli.env_settings import DOTENV

    given = {**dotenv_values(DOTENV, encoding="utf-8"), **os.environ}
    return {
        name.upper(): value
        for name, value in given.items()
        if name.upper().startswith(_OURS) and value is not None and not _is_place(name)
    }


def _is_place(name: str) -> bool:
    from nightscreen.config.settings import Settings

    field = name.upper().removeprefix(_OURS).partition("__")[0].lower()
    if field not in Settings.model_fields or field in _LIMITS_IN_WORDS:
        return False
    kind = Settings.model_fields[field].annotation
    if get_origin(kind) is dict:  # numbers by check
        return False
    return bool({str, Path, SecretStr}.intersection({kind, *get_args(kind)}))


def point_at(url: str, api_key: str, folder: Path, limits: Mapping[str, str] | None = None) -> None:
    """Set this process to the simulator and a HOME of the demo's own, whatever was set before.

    Args:
        url: of the simulator.
        api_key: its key.
        folder: of the demo.
        limits: settings that hold all the same.
    """
    limits = limits or {}
    for name in [variable for variable in os.environ if variable.upper().startswith(_OURS)]:
        del os.environ[name]
    from nightscreen.config.settings import Settings

    Settings.model_config["env_file"] = None
    os.environ[f"{_OURS}BASE_URL"] = url
    os.environ[f"{_OURS}API_KEY"] = api_key
    os.environ[f"{_OURS}HOME"] = str(folder / "home")
    if f"{_OURS}MAX_IN_FLIGHT" not in limits:
        for check, cap in _CAPS.items():
            os.environ[f"{_OURS}MAX_IN_FLIGHT__{check}"] = cap
    os.environ.update(limits)


async def _two_nights(file: Path, out: Path, say: Callable[[str], None]) -> list[dict[str, Any]]:
    """Screen the batch twice, and report each night as soon as it is over."""
    from nightscreen.cli.screen import run_flow
    from nightscreen.config.parameters import ScreenBatch

    parameters = ScreenBatch(input=str(file), batch="demo", output=str(out), yes=True)
    nights = []
    for title in ("First night", "Second night, the same customers"):
        night = await run_flow(parameters)
        nights.append(night)
        say(f"\n{title}")
        if say is not _quiet:
            print_summary(night, out)
    return nights


def _print_nights(nights: list[dict[str, Any]], ledger: dict[str, Any], folder: Path) -> None:
    first, second = nights
    typer.echo(
        f"\nThe first night cost {naira(first['cost']['total'])}, the second "
        f"{naira(second['cost']['total'])}: answers that were still fresh saved "
        f"{naira(second['cost']['saved_by_reuse'])}."
    )
    typer.echo(f"The simulator's own ledger says {naira(ledger['totals']['charged'])} in all.")
    typer.echo(f"Look around in {folder}; the next demo begins afresh (--keep goes on from here).")
