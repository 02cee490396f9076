"""A desk as it looks after two weeks of work: made-up people, nights, a review, a waiting approval.

Served on a real socket in this process, for a browser to open.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Final, Literal

import uvicorn
from playwright.sync_api import Browser, Page

from nightscreen.config.parameters import ScreenBatch
from nightscreen.desk.context import COOKIE
from nightscreen.desk.rows import Filter, rows_of_run
from nightscreen.journal.actor import Actor
from nightscreen.policy.load import read_text, rewritten
from nightscreen.policy.versions import propose
from nightscreen.privacy.contests import open_contest
from nightscreen.reading.open_file import file_digest
from nightscreen.schemas.users import Role
from tests.desk.conftest import BRANCHES
from tests.desk.office import PASSWORD, WAITING, Office
from tests.portal.visiting import Clock
from tests.screening import CONSENT, World, customer

PATIENCE_MS: Final = 120_000
CHANGES = {"daily_spend_cap": "100000", "monthly_spend_cap": "1500000"}


def people(first: int, number: int) -> list[dict[str, str]]:
    """Return made-up borrowers as a lender's file has them; two of three consented."""
    return [
        customer(
            each,
            customer_id=f"CUST-{each * 37 % 10_000:07d}",
            Branch=BRANCHES[each % 3],
            **{"Loan Officer": f"Officer {each % 7 + 1}"},
            exposure=str(3_500 * (each % 117 + 3)),
            **(CONSENT if each % 3 else {"consent_reference": "", "consented_at": ""}),
        )
        for each in range(first, first + number)
    ]


def screen_nights(folder: Path, nights: int, number: int) -> None:
    """Screen a portfolio night after night, the last one a few hours ago."""
    clock = Clock(timedelta(days=-nights, hours=-9))
    world = World(folder, clock=clock)
    for night in range(nights):
        clock.forward(days=1)
        some = people(1 + 3 * night, number)
        some[7] = {**some[7], "customer_id": ""}
        some[11] = {**some[11], "bvn": some[11]["bvn"][:9]}
        world.screen(some, batch="portfolio")


def wait_for_approval(office: Office, by: str) -> None:
    """Have one quoted run wait for somebody's approval."""
    path = World(office.folder).write(people(2000, 120), "applicants.csv")
    parameters = ScreenBatch(
        input=str(path),
        batch="applicants",
        purpose="origination",
        output=str(office.context.output),
        max_spend="4000",
    )
    nothing = {"total": "600000.00", "not_screened": {"exposure": "600000.00"}}
    report = {"decisions": {"undecided": 120}, "exposure": nothing}
    office.await_approval(parameters, file_digest(path), by=by, report=report)


@contextmanager
def furnished(folder: Path, *, nights: int = 2, number: int = 60) -> Iterator[Office]:
    """Give a desk that is served and has been worked at, with three users beside the first."""
    screen_nights(folder, nights, number)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        origin = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with Office(folder, changes=CHANGES, origin=origin) as office:
            accounts = office.context.accounts
            for name, roles in (("Ada", ["analyst"]), ("Bem", ["approver", "auditor"])):
                token = accounts.add(name, [Role(role) for role in roles])
                accounts.use_link(token, name, PASSWORD)
            accounts.use_link(accounts.add("Chief", list(Role)), "Chief", PASSWORD)
            for user in accounts.users():  # made long ago, as far as the pages are concerned
                accounts.set(user.name, alone_at=None)
            wait_for_approval(office, "Ada")
            contest(office)
            propose_policy(office, "Ada")
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
    runs = office.journal.runs.newest(limit=10)
    run = next(each for each in runs if (each.report or {}).get("rows"))
    rows = rows_of_run(run)
    assert rows is not None
    customers = {
        word: rows.page(Filter({"decision": (word,)}), 0, 1)[0]["customer_id"]
        for word in ("decline", "review")
    }
    return {
        "tonight": "/",
        "new file": "/new",
        "applicant": "/new/applicant",
        "approvals": "/approvals",
        "runs": "/runs",
        "run": f"/runs/{run.run_id}",
        "fix": f"/runs/{run.run_id}/fix",
        "correct": f"/runs/{run.run_id}/fix?list=values",
        "waiting run": f"/runs/{WAITING}",
        "decisions": "/decisions",
        "list": f"/runs/{run.run_id}/decisions?decision=decline&decision=review",
        "customer": f"/customers/{customers['decline']}?run={run.run_id}",
        "contested": f"/customers/{customers['review']}?run={run.run_id}",
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


def propose_policy(office: Office, by: str) -> None:
    """Have other thresholds wait for somebody's approval."""
    others = {"past_due_naira": Decimal(20_000), "stacking_loans": Decimal(4)}
    text = rewritten(read_text(None), "2026-03", others)
    note = "Small arrears pay as others do: minutes of the credit committee."
    propose(office.journal, text, by=by, note=note)


def contest(office: Office) -> None:
    """Have one customer of the list contest the decision."""
    address = places(office)["contested"]
    customer = address.removeprefix("/customers/").partition("?")[0]
    open_contest(
        office.journal,
        Actor("Ada", frozenset({"contest"})),
        office.settings.contest,
        customer,
        said="The account is mine: I opened it with my married name in May.",
        batch="portfolio",
    )
