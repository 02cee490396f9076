"""Structured logs: one JSON object a line on stderr, on request; numbers and ids only.

Without the request nothing here writes anything: people have the panel, the engine its own log.
Messages of other libraries at warning level or above become objects too, without their text, which
could quote a row.
"""

from __future__ import annotations

import json
import logging
import sys
from typing import TYPE_CHECKING, Any

from nightscreen.schemas.clock import instant_text

if TYPE_CHECKING:
    from collections.abc import Mapping

JSON = "json"
_LOGGER = logging.getLogger("nightscreen.run")
_FIELDS = "nightscreen_fields"


class JsonLines(logging.Formatter):
    """Writes a record as one JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the object; the text of a foreign record is left out."""
        fields: Mapping[str, Any] | None = getattr(record, _FIELDS, None)
        document: dict[str, Any] = {
            "at": instant_text(int(record.created * 1_000_000)),
            "level": record.levelname.lower(),
        }
        if fields is not None:
            document |= fields
        else:
            document |= {"event": "library", "logger": record.name, "line": record.lineno}
        return json.dumps(document, ensure_ascii=False)


def set_up_logs(log_format: str) -> None:
    """Have what happens written as JSON where the settings or the command ask for it."""
    if log_format != JSON or _LOGGER.handlers:
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    _LOGGER.addHandler(handler)
    _LOGGER.setLevel(logging.INFO)
    _LOGGER.propagate = False
    logging.getLogger().addHandler(_foreign(handler))


def _foreign(handler: logging.StreamHandler[Any]) -> logging.Handler:
    """Return a handler for the root logger that takes warnings and worse."""
    foreign = logging.StreamHandler(handler.stream)
    foreign.setFormatter(handler.formatter)
    foreign.setLevel(logging.WARNING)
    return foreign


def in_json() -> bool:
    """Return whether logs are written as JSON, so that nothing else belongs on stderr."""
    return bool(_LOGGER.handlers)


def say(event: str, *, level: int = logging.INFO, **fields: Any) -> None:  # noqa: ANN401 - numbers, ids and words
    """Write an event with its numbers; nothing where no structured log was asked for."""
    if in_json():
        _LOGGER.log(level, event, extra={_FIELDS: {"event": event, **fields}})


def say_on_stderr(message: str) -> None:
    """Write a sentence for whoever called the command: plain, or as an event of the log."""
    if in_json():
        say("said", message=message.strip())
    else:
        sys.stderr.write(f"{message}\n")
        sys.stderr.flush()


def say_progress(signs: Mapping[str, Any]) -> None:
    """Write a run's numbers, one object for the run and one for each check."""
    if not in_json():
        return
    run_id = signs["run_id"]
    names = ("phase", "rows", "stop", "balance_micro", "finish_at", "deadline_at")
    say("progress", run_id=run_id, **{name: signs[name] for name in names})
    for check, each in signs["checks"].items():
        say("progress", run_id=run_id, check=check, **each)


def say_report(report: Mapping[str, Any]) -> None:
    """Write how a run ended."""
    if not in_json():
        return
    run_id = report["run_id"]
    for check, part in report["checks"].items():
        numbers = {name: value for name, value in part.items() if isinstance(value, int)}
        troubles, cost = part["troubles"], part["cost"]
        say("check_ended", run_id=run_id, check=check, cost=cost, troubles=troubles, **numbers)
    say(
        "run_ended",
        run_id=run_id,
        state=report["state"],
        stop_reason=report["stop_reason"],
        cost=report["cost"]["total"],
        balance=report["balance"]["closing"],
        rows=report["rows"],
    )
