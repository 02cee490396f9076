"""The desk as one ASGI application: addresses, and what they share."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from duckdb import Error as DuckDBError
from pyarrow import ArrowException
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from nightscreen.desk import (
    approvals,
    audit_page,
    contests,
    customer,
    decisions,
    fix,
    money,
    my_work,
    new_file,
    policy,
    runs,
    second_factor,
    sign_in,
    tonight,
    users,
)
from nightscreen.desk.pages import POLICY, STATIC, TEMPLATES, html
from nightscreen.desk.uploads import LARGEST
from nightscreen.desk.visit import DeskError, handled, page, recognise, refusal
from nightscreen.schemas.errors import JournalError
from nightscreen.web.guard import Guard, Log, fault_pages, headers_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from starlette.requests import Request
    from starlette.types import ASGIApp

    from nightscreen.desk.seat import Seat
    from nightscreen.desk.visit import Visit

LARGEST_FORM: Final = 256 * 1024
LARGEST_TABLE: Final = 4 * LARGEST_FORM
SWEEP_S: Final = 30
_GET, _BOTH, _POST = ["GET"], ["GET", "POST"], ["POST"]


class _Refusals:
    """Writes refusals of requests that reach no page."""

    def trouble(self, kind: str, status: int) -> Response:
        """Return the page of a kind of trouble."""
        title, sentence = _TROUBLE.get(kind, _TROUBLE["broken"])
        return html("bare", status, title=title, sentence=sentence)


_TROUBLE = {
    "nul": ("This address cannot be read", "It holds a character without a sign (NUL)."),
    "too_long": ("This address is too long", "It cannot be one of the desk's."),
    "other_host": (
        "This page is not here",
        "Open the desk by the address it printed at its start.",
    ),
    "too_large": ("That is too large", "The desk takes no more than that at once."),
    "other_site": (
        "This form is not from a page of the desk",
        "Open the page here, and send its form again.",
    ),
    "broken": ("Something is wrong on our side", "It has been noted. Go back and try again."),
}


def application(seat: Seat) -> ASGIApp:
    """Return the desk."""
    refusals = _Refusals()

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        sweeping = asyncio.create_task(_sweep(seat))
        try:
            yield
        finally:
            sweeping.cancel()

    inner = Starlette(
        routes=_routes(seat),
        exception_handlers={
            DeskError: handled(seat),
            **fault_pages(refusals, partial(_no_page, seat)),
        },
        lifespan=lifespan,
    )
    inner.router.redirect_slashes = False
    headers = headers_of(POLICY, is_secure=seat.is_secure)
    log = Log("desk", in_json=seat.settings.log_format == "json")
    return Guard(inner, seat.origins, headers, refusals, log, _longest)


def _routes(seat: Seat) -> list[Route]:
    """Return every address of the desk, with the right that it needs."""

    def route(
        path: str,
        view: Callable[[Visit], Response],
        methods: list[str],
        need: str = "",
        *,
        signed_in: bool = True,
    ) -> Route:
        return Route(path, page(seat, view, need=need, signed_in=signed_in), methods=methods)

    return [
        route("/sign-in", sign_in.sign_in, _BOTH, signed_in=False),
        route("/first", sign_in.first, _BOTH, signed_in=False),
        route("/second-factor", second_factor.second_factor, _BOTH, signed_in=False),
        route("/sign-out", sign_in.sign_out, _POST),
        route("/", tonight.tonight, _GET),
        route("/new", new_file.new, _GET, "screen"),
        Route("/new", new_file.receive(seat), methods=_POST),
        route("/new/applicant", new_file.applicant, _BOTH, "screen"),
        route("/new/{upload_id}", new_file.file, _GET, "screen"),
        route("/new/{upload_id}/quote", new_file.quote, _POST, "screen"),
        route("/new/{upload_id}/screen", new_file.screen, _POST, "screen"),
        route("/approvals", approvals.approvals, _GET, "approvals"),
        route("/approvals/{run_id}", approvals.decide, _POST, "approve"),
        route("/approvals/{run_id}/amount", approvals.preview, _GET, "approvals"),
        route("/runs", runs.runs, _GET, "runs"),
        route("/runs/{run_id}", runs.run, _GET, "runs"),
        route("/runs/{run_id}/stop", runs.stop, _POST, "screen"),
        route("/runs/{run_id}/resume", runs.resume, _POST, "screen"),
        route("/runs/{run_id}/report", runs.report, _GET, "runs"),
        route("/runs/{run_id}/files/{name:path}", runs.file, _GET, "runs"),
        route("/runs/{run_id}/fix", fix.fix, _GET, "screen"),
        route("/runs/{run_id}/fix", fix.fix_rows, _POST, "screen"),
        route("/runs/{run_id}/decisions", decisions.run_decisions, _GET, "people"),
        route("/runs/{run_id}/decisions.{kind}", decisions.take_out, _GET, "export"),
        route("/decisions", my_work.my_work, _GET, "people"),
        route("/decisions", my_work.act, _POST, "review"),
        route("/contests", contests.contests, _GET, "people"),
        route("/contests", contests.record, _POST, "contest"),
        route("/contests/{contest_id}/answer", contests.answer, _POST, "contest"),
        route("/policy", policy.policy, _GET, "runs"),
        route("/policy/try", policy.try_on_past_runs, _BOTH, "people"),
        route("/policy/propose", policy.propose, _POST, "propose"),
        route("/policy/{key}", policy.decide, _POST, "runs"),
        route("/customers/{customer_id:path}/review", customer.review, _POST, "review"),
        route("/customers/{customer_id:path}/override", customer.override, _POST, "override"),
        route("/customers/{customer_id:path}/told", customer.mark_as_told, _POST, "contest"),
        route("/customers/{customer_id:path}/again", customer.ask_again, _POST, "screen"),
        route("/customers/{customer_id:path}/consent", customer.ask_for_consent, _POST, "contest"),
        route("/customers/{customer_id:path}", customer.customer, _GET, "people"),
        route("/users", users.users, _BOTH, "users"),
        route("/users/confirm", users.confirm, _POST, "approve"),
        route("/users/give-up", users.give_up, _POST),
        route("/money", money.money, _GET, "money"),
        route("/money/settle", money.settle, _POST, "money"),
        route("/money/confirm", money.confirm, _POST, "money"),
        route("/money.csv", money.take_out, _GET, "money"),
        route("/audit", audit_page.audit, _GET, "audit"),
        route("/audit.csv", audit_page.take_out, _GET, "audit"),
        Route("/static/{name}", static, methods=_GET),
        Route("/health", health, methods=_GET),
    ]


async def _sweep(seat: Seat) -> None:
    """Remove uploads of no more use, and prepare for the next look, as long as the desk is served.

    Nobody waits then for the list of a night that has ended since.
    """
    while True:
        for work in (seat.uploads.sweep, seat.prepare):
            with suppress(JournalError, OSError, ArrowException, DuckDBError):  # tried again later
                await asyncio.to_thread(work)
        await asyncio.sleep(SWEEP_S)


def _longest(path: str) -> int:
    if path == "/new":
        return LARGEST + LARGEST_FORM
    return LARGEST_TABLE if path.endswith("/fix") else LARGEST_FORM


async def static(request: Request) -> Response:
    """Give a file that pages need: style, script, picture."""
    name = request.path_params["name"]
    if name not in STATIC:
        raise HTTPException(404)
    return Response((TEMPLATES / "static" / name).read_bytes(), media_type=STATIC[name])


async def health(_request: Request) -> Response:
    """Say that the desk answers."""
    return PlainTextResponse("ok\n")


def _no_page(seat: Seat, request: Request, error: HTTPException) -> Response:
    sentences = {400: error.detail, 404: "Begin with the entries above."}
    sentence = sentences.get(error.status_code, "This page cannot do that.")
    return refusal(recognise(seat, request), DeskError(error.status_code, sentence))
