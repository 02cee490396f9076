"""The on-call engineer in a test: asks the doctor, reads what it says, types what it names.

Nights are spent at a `Bureau` in virtual time. What is expected stands in the tests.
"""

from __future__ import annotations

import shlex
from typing import Any

from nightscreen.cli.main import load
from nightscreen.cli.output import view
from nightscreen.ops.doctor import Diagnosis, diagnose
from tests.money.service_in_memory import Bureau

KEPT = ("run", "max_spend", "deadline", "yes")


def ask_doctor(bureau: Bureau, run_id: str = "") -> Diagnosis:
    """Ask the doctor about a run of the bureau, or the newest; both its forms must be possible."""
    found = diagnose(
        bureau.read_settings(), run_id, clock=bureau.loop.micros, diagnosing=lambda _: None
    )
    assert found.document()["exit_status"] == found.exit_status
    assert lines_of(found)[-1].startswith("safe to run again: ")
    return found


def lines_of(found: Diagnosis) -> list[str]:
    """Return a diagnosis as a person reads it."""
    return view("doctor", found.document()).splitlines()


def options_of(command: str) -> dict[str, Any]:
    """Return what a command line of `nightscreen screen` asks for, as the command reads it."""
    program, name, *arguments = shlex.split(command)
    assert (program, name) == ("nightscreen", "screen")
    context = load(name).make_context(name, arguments)
    return {each: context.params[each] for each in KEPT if context.params[each]}


def type_it(bureau: Bureau, found: Diagnosis) -> dict[str, Any]:
    """Type the command the doctor named, and return the report."""
    assert found.remedy is not None
    return bureau.night(**options_of(found.remedy.command)).report
