"""The office of the demo, with one more user who may do everything, served for a browser to open.

The desk is served on a real socket in this process.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal

import uvicorn
from playwright.sync_api import Browser, Page

from nightscreen.cli.demo_office import BATCH, seed_demo
from nightscreen.config.settings import read_settings
from nightscreen.desk.context import COOKIE
from nightscreen.desk.rows import Filter, rows_of_run
from nightscreen.privacy.contests import list_contests
from nightscreen.schemas.users import Role
from tests.desk.office import PASSWORD, USUAL, Office
from tests.screening import World

PATIENCE_MS: Final = 120_000
CHANGES = {"daily_spend_cap": "100000", "monthly_spend_cap": "1500000"}
CHIEF: Final = "Chief"


@contextmanager
def furnished(folder: Path, *, nights: int = 2, number: int = 60) -> Iterator[Office]:
    """Give a desk that is served and has been worked at."""
    home = folder / "home"
    settings = read_settings(_env_file=None, home=home, **USUAL, **CHANGES)
    wire = World(folder).transport()
    tokens = seed_demo(
        folder, settings, number, seed=1, damage_pct=5.0, nights=nights, transport=wire
    )
    with socket.create_server(("127.0.0.1", 0)) as listener:
        origin = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with Office(folder, changes=CHANGES, origin=origin) as office:
            accounts = office.context.accounts
            tokens[CHIEF] = accounts.add(CHIEF, list(Role))
            for name, token in tokens.items():
                accounts.use_link(token, name, PASSWORD)
            for user in accounts.users():  # made long ago, as far as the pages are concerned
                accounts.set(user.name, alone_at=None, asleep_until=0)
            config = uvicorn.Config(office.app, log_config=None, access_log=False)
            server = uvicorn.Server(config)
            thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
            thread.start()
            try:
                yield office
            finally:
                server.should_exit = True
                thread.join(20)


def places(office: Office) -> dict[str, str]:
    """Return the address of every page by a name."""
    run = office.journal.runs.newest(batch=BATCH, limit=1)[0]
    rows, contest = rows_of_run(run), list_contests(office.journal)[0]
    assert rows is not None
    declined = rows.page(Filter({"decision": ("decline",)}), 0)[-1]["customer_id"]
    return {
        "tonight": "/",
        "new file": "/new",
        "applicant": "/new/applicant",
        "approvals": "/approvals",
        "runs": "/runs",
        "run": f"/runs/{run.run_id}",
        "fix": f"/runs/{run.run_id}/fix",
        "correct": f"/runs/{run.run_id}/fix?list=values",
        "waiting run": f"/runs/{office.waiting}",
        "decisions": "/decisions",
        "list": f"/runs/{run.run_id}/decisions?decision=decline&decision=review",
        "customer": f"/customers/{declined}?run={run.run_id}",
        "contested": f"/customers/{contest.customer_id}?run={run.run_id}",
        "contests": "/contests",
        "policy": "/policy",
        "money": "/money",
        "second factor": "/second-factor",
        "audit": "/audit",
        "users": "/users",
        "nothing there": "/nothing",
    }


def opened(
    office: Office,
    browser: Browser,
    name: str,
    *,
    width: int,
    height: int = 880,
    looks: Literal["light", "dark"] = "light",
) -> Page:
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=looks)
    context.set_default_timeout(PATIENCE_MS)
    user = office.context.accounts.find(name)
    assert user is not None
    token = office.context.accounts.sign_in(user)
    context.add_cookies([{"name": COOKIE, "value": token, "url": office.origin}])
    return context.new_page()
