"""Structured logs: JSON alone on stderr where it is asked for, nothing of ours elsewhere."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

PROGRAM = """
import logging, sys
from nightscreen.tasks.logs import say, say_on_stderr, say_progress, set_up_logs
from tests.ops.signs import signs_in_a_test
set_up_logs(sys.argv[1]); set_up_logs(sys.argv[1])
say("run_opened", run_id="run-1")
say_progress(signs_in_a_test())
say_on_stderr("a sentence")
logging.getLogger("some.library").warning("for 22212345678 %s", "Ngozi")
logging.getLogger("some.library").info("not worth a line")
"""


def written(log_format: str) -> tuple[str, list[str]]:
    """Return stdout and the lines of stderr of a process that logs."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, log_format], capture_output=True, text=True, check=True
    )
    return done.stdout, done.stderr.splitlines()


def test_each_line_is_an_object_with_its_run_and_check() -> None:
    """Once each, although set up twice."""
    out, lines = written("json")
    assert out == ""
    told: list[dict[str, Any]] = [json.loads(line) for line in lines]
    assert [each["event"] for each in told] == [
        *("run_opened", "progress", "progress", "said", "library"),
    ]
    assert told[0]["run_id"] == "run-1"
    assert (told[2]["check"], told[2]["done"], told[2]["cap"]) == ("karma", 400, 8)
    assert all(each["at"].endswith("Z") for each in told)


def test_the_text_of_a_library_is_left_out() -> None:
    """It could quote a row."""
    _, lines = written("json")
    assert json.loads(lines[-1])["logger"] == "some.library"
    assert "22212345678" not in "".join(lines)
    assert "Ngozi" not in "".join(lines)


def test_without_the_request_there_are_only_sentences() -> None:
    """People have the panel."""
    _, lines = written("text")
    assert lines[0] == "a sentence"
    assert not [line for line in lines if line.startswith("{")]
