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
    sign_in,
    tonight,
    users,
)
from nightscreen.desk.context import DeskError, page
from nightscreen.desk.pages import POLICY, STATIC, TEMPLATES, html
from nightscreen.desk.uploads import LARGEST
from nightscreen.schemas.errors import JournalError
from nightscreen.web.guard import Guard, Log, fault_pages, headers_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from starlette.requests import Request
    from starlette.types import ASGIApp

    from nightscreen.desk.context import Context

    View = Callable[[Context], Response]

LARGEST_FORM: Final = 256 * 1024
LARGEST_TABLE: Final = 4 * LARGEST_FORM
"""A page of a quarantine, with a field for each cell."""
SWEEP_S: Final = 30


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


def _refusal(kind: str, status: int) -> Response:
    """Return the page of a request that reaches no page."""
    title, sentence = _TROUBLE.get(kind, _TROUBLE["broken"])
    return html("bare", status, title=title, sentence=sentence)


def application(desk: Context) -> ASGIApp:
    """Return the desk."""

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        sweeping = asyncio.create_task(_sweep(desk))
        try:
            yield
        finally:
            sweeping.cancel()

    inner = Starlette(
        routes=_routes(desk),
        exception_handlers=fault_pages(_refusal, partial(_no_page, desk)),
        lifespan=lifespan,
    )
    inner.router.redirect_slashes = False
    headers = headers_of(POLICY, is_secure=desk.is_secure)
    log = Log("desk", in_json=desk.settings.log_format == "json")
    return Guard(inner, desk.origins, headers, _refusal, log)


def _routes(desk: Context) -> list[Route]:
    """Return every address of the desk, with the right that it needs."""

    def get(path: str, view: View, *needs: str, **more: bool) -> Route:
        return Route(path, page(desk, view, *needs, **more), methods=["GET"])

    def post(
        path: str, view: View, *needs: str, largest: int = LARGEST_FORM, **more: bool
    ) -> Route:
        endpoint = page(desk, view, *needs, **more)
        return Route(path, endpoint, methods=["POST"], max_body_size=largest)

    def both(path: str, view: View, *needs: str, **more: bool) -> Route:
        endpoint = page(desk, view, *needs, **more)
        return Route(path, endpoint, methods=["GET", "POST"], max_body_size=LARGEST_FORM)

    return [
        both("/sign-in", sign_in.sign_in, signed_in=False),
        both("/first", sign_in.first, signed_in=False),
        both("/second-factor", sign_in.second_factor, signed_in=False),
        post("/sign-out", sign_in.sign_out),
        get("/", tonight.tonight),
        get("/new", new_file.new, "screen"),
        post("/new", new_file.receive, "screen", takes_file=True, largest=LARGEST + LARGEST_FORM),
        both("/new/applicant", new_file.applicant, "screen"),
        get("/new/{upload_id}", new_file.file, "screen"),
        post("/new/{upload_id}/quote", new_file.quote, "screen"),
        post("/new/{upload_id}/screen", new_file.screen, "screen"),
        get("/approvals", approvals.approvals, "approvals"),
        post("/approvals/{run_id}", approvals.decide, "approve"),
        get("/approvals/{run_id}/amount", approvals.preview, "approvals"),
        get("/runs", runs.runs, "runs"),
        get("/runs/{run_id}", runs.run, "runs"),
        post("/runs/{run_id}/stop", runs.stop, "screen"),
        post("/runs/{run_id}/resume", runs.resume, "screen"),
        post("/runs/{run_id}/sign", approvals.sign, "sign", all_branches=True),
        post("/runs/{run_id}/confirm", approvals.confirm, "approve", all_branches=True),
        post("/runs/{run_id}/release", approvals.release, "approve", all_branches=True),
        get("/runs/{run_id}/report", runs.report, "runs", all_branches=True),
        get("/runs/{run_id}/files/{name:path}", runs.file, "runs"),
        get("/runs/{run_id}/fix", fix.fix, "screen", all_branches=True),
        post(
            "/runs/{run_id}/fix", fix.fix_rows, "screen", all_branches=True, largest=LARGEST_TABLE
        ),
        get("/runs/{run_id}/decisions", decisions.run_decisions, "people"),
        get("/runs/{run_id}/decisions.{kind}", decisions.take_out, "export"),
        get("/decisions", my_work.my_work, "people"),
        post("/decisions", my_work.act, "review"),
        get("/contests", contests.contests, "people"),
        post("/contests", contests.record, "contest"),
        post("/contests/{contest_id}/answer", contests.answer, "contest"),
        get("/policy", policy.policy, "runs"),
        get("/policy/try", policy.try_again, "people", all_branches=True),
        post("/policy/try", policy.try_on_past_runs, "people", all_branches=True),
        post("/policy/propose", policy.propose, "propose"),
        post("/policy/{key}", policy.decide, "runs"),
        post("/customers/{customer_id:path}/review", customer.review, "review"),
        post("/customers/{customer_id:path}/override", customer.override, "override"),
        post("/customers/{customer_id:path}/action", customer.act, "review"),
        post("/customers/{customer_id:path}/told", customer.mark_as_told, "contest"),
        post("/customers/{customer_id:path}/again", customer.ask_again, "screen"),
        post("/customers/{customer_id:path}/consent", customer.ask_for_consent, "contest"),
        get("/customers/{customer_id:path}", customer.customer, "people"),
        both("/users", users.users, "users"),
        post("/users/confirm", users.confirm, "approve"),
        post("/users/give-up", users.give_up),
        get("/money", money.money, "money"),
        post("/money/settle", money.settle, "settle"),
        post("/money/confirm", money.confirm, "settle"),
        post("/money/missing", money.explain, "settle"),
        get("/money.csv", money.take_out, "money", "take out"),
        get("/audit", audit_page.audit, "audit"),
        get("/audit.csv", audit_page.take_out, "audit", "take out"),
        Route("/static/{name}", static, methods=["GET"]),
        Route("/health", health, methods=["GET"]),
    ]


async def _sweep(desk: Context) -> None:
    """Remove uploads of no more use, and prepare for the next look, as long as the desk is served.

    Nobody waits then for the list of a night that has ended since.
    """
    while True:
        for work in (desk.uploads.sweep, desk.prepare):
            with suppress(JournalError, OSError, ArrowException, DuckDBError):  # tried again later
                await asyncio.to_thread(work)
        await asyncio.sleep(SWEEP_S)


async def static(request: Request) -> Response:
    """Give a file that pages need: style, script, picture."""
    name = request.path_params["name"]
    if name not in STATIC:
        raise HTTPException(404)
    return Response((TEMPLATES / "static" / name).read_bytes(), media_type=STATIC[name])


async def health(_request: Request) -> Response:
    """Say that the desk answers."""
    return PlainTextResponse("ok\n")


def _no_page(desk: Context, request: Request, error: HTTPException) -> Response:
    sentences = {400: error.detail, 404: "Begin with the entries above.", 415: error.detail}
    sentence = sentences.get(error.status_code, "This page cannot do that.")
    return desk.of(request).refusal(DeskError(error.status_code, sentence))
