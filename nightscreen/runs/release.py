"""Release a held run, so that it may be published."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nightscreen.files.outputs import MANIFEST, REPORT
from nightscreen.files.run_folder import RunFolder
from nightscreen.journal.actor import RELEASE
from nightscreen.report.anomaly_check import HELD, RELEASED
from nightscreen.report.page import report_page
from nightscreen.runs.open_cases import publish_cases
from nightscreen.schemas.clock import instant_text
from nightscreen.schemas.errors import InputError

if TYPE_CHECKING:
    from nightscreen.journal import Journal
    from nightscreen.journal.actor import Actor


def release(journal: Journal, actor: Actor, run_id: str, reason: str) -> dict[str, Any]:
    """Release a held run in journal, report, page and manifest; return the report.

    The reason is stored unencrypted, so it must not contain personal data.

    Raises:
        NotAllowedError: the actor may not release it.
        InputError: there is no such run, it is not held, or the reason is blank.
    """
    actor.require(journal, RELEASE, run_id=run_id)
    run = journal.runs.find(run_id)
    if run is None:
        raise InputError(f"there is no run {run_id}; see: nightscreen runs list")
    if not reason.strip():
        raise InputError("say why the run may be published, with --reason")
    report = run.report or {}
    if not report.get(HELD) or report.get(RELEASED):
        raise InputError(
            f"run {run_id} is not held: nothing about it was implausible, or it was released before"
        )
    at = instant_text(journal.clock())
    released = {"at": at, "reason": reason.strip()}
    report = {**report, "publishable": report["state"] == "completed", RELEASED: released}
    folder = RunFolder(Path(run.folder))
    if (folder.path / REPORT).exists():
        folder.write_json(REPORT, report)
        folder.write_text("report.html", report_page(report))
        if (folder.path / MANIFEST).exists():
            manifest = json.loads((folder.path / MANIFEST).read_text("utf-8"))
            fresh = folder.files()
            manifest["files"] |= {name: fresh[name] for name in (REPORT, "report.html")}
            manifest["publishable"] = report["publishable"]
            folder.write_json(MANIFEST, manifest)
            folder.publish()
    journal.runs.keep_report(run_id, report)
    if report["publishable"]:
        publish_cases(journal, run, folder.path)
    actor.note(journal, "run released", run_id=run_id, reason=reason.strip())
    return report
