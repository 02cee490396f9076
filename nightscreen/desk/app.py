"""The desk as one ASGI application: addresses, and what they share."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, Router

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
from nightscreen.results import case_comments
from nightscreen.schemas.errors import JournalError
from nightscreen.web.guard import Guard, headers_of, log

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.requests import Request
    from starlette.types import ASGIApp

    from nightscreen.desk.context import Context, View

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
    async def lifespan(_app: object) -> AsyncIterator[None]:
        sweeping = asyncio.create_task(_sweep(desk))
        try:
            yield
        finally:
            sweeping.cancel()

    return Guard(
        Router(_routes(desk), redirect_slashes=False, lifespan=lifespan),
        desk.origins,
        headers_of(POLICY, is_secure=desk.is_secure),
        _refusal,
        partial(_no_page, desk),
        partial(log, "desk", in_json=desk.settings.log_format == "json"),
    )


def _routes(desk: Context) -> list[Route]:
    """Return every address of the desk, with the right that it needs."""

    def get(path: str, view: View, *needs: str, **more: Any) -> Route:  # noqa: ANN401 - as `page`
        return Route(path, page(desk, view, *needs, **more), methods=["GET"])

    def post(path: str, view: View, *needs: str, largest: int = LARGEST_FORM, **more: Any) -> Route:  # noqa: ANN401 - as `page`
        endpoint = page(desk, view, *needs, **more)
        return Route(path, endpoint, methods=["POST"], max_body_size=largest)

    file = {"takes_file": True, "largest": LARGEST + LARGEST_FORM}
    every = {"all_branches": True}
    return [
        get("/sign-in", sign_in.sign_in, signed_in=False),
        post("/sign-in", sign_in.enter, on=sign_in.sign_in, signed_in=False),
        get("/first", sign_in.first, signed_in=False),
        post("/first", sign_in.use_link, on=sign_in.first, signed_in=False),
        get("/second-factor", sign_in.second_factor, signed_in=False),
        post("/second-factor", sign_in.take_code, on=sign_in.second_factor, signed_in=False),
        post("/sign-out", sign_in.sign_out),
        get("/", tonight.tonight),
        get("/new", new_file.new, "screen"),
        post("/new", new_file.receive, "screen", on=new_file.new, **file),
        get("/new/applicant", new_file.applicant, "screen"),
        post("/new/applicant", new_file.take_applicant, "screen", on=new_file.applicant),
        get("/new/{upload_id}", new_file.file, "screen"),
        post("/new/{upload_id}/quote", new_file.quote, "screen", on=new_file.file),
        post("/new/{upload_id}/screen", new_file.screen, "screen", on=new_file.file),
        get("/approvals", approvals.approvals, "approvals"),
        post("/approvals/{run_id}", approvals.decide, "approve", on=approvals.approvals),
        get("/runs", runs.runs, "runs"),
        get("/runs/{run_id}", runs.run, "runs"),
        post("/runs/{run_id}/stop", runs.stop, "screen", on=runs.run),
        post("/runs/{run_id}/resume", runs.resume, "screen", on=runs.run),
        post("/runs/{run_id}/sign", approvals.sign, "runs", "sign", on=runs.run, **every),
        post("/runs/{run_id}/confirm", approvals.confirm, "approve", on=runs.run, **every),
        post("/runs/{run_id}/release", approvals.release, "approve", on=runs.run, **every),
        get("/runs/{run_id}/report", runs.report, "runs", **every),
        get("/runs/{run_id}/files/{name:path}", runs.file, "runs"),
        get("/runs/{run_id}/fix", fix.fix, "screen", **every),
        post(
            "/runs/{run_id}/fix", fix.fix_rows, "screen", on=fix.fix, largest=LARGEST_TABLE, **every
        ),
        get("/runs/{run_id}/decisions", decisions.run_decisions, "people"),
        get("/runs/{run_id}/decisions.{kind}", decisions.take_out, "people", "export"),
        get("/decisions", my_work.my_work, "people"),
        post("/decisions", my_work.act, "review", on=my_work.my_work),
        get("/contests", contests.contests, "people"),
        post("/contests", contests.record, "contest", on=contests.contests),
        post("/contests/{contest_id}/answer", contests.answer, "contest", on=contests.contests),
        get("/policy", policy.policy, "runs"),
        post("/policy/try", policy.try_on_past_runs, "people", on=policy.policy, **every),
        post("/policy/propose", policy.propose, "propose", on=policy.policy),
        post("/policy/{key}", policy.decide, "runs", on=policy.policy),
        *(
            post(f"/customers/{{customer_id:path}}/{does}", view, *needs, on=customer.customer)
            for does, view, *needs in (
                ("review", customer.review, "review"),
                ("override", customer.override, "people", "override"),
                ("action", customer.act, "review"),
                ("told", customer.mark_as_told, "contest"),
                ("again", customer.ask_again, "screen"),
                ("consent", customer.ask_for_consent, "contest"),
            )
        ),
        post(
            "/customers/{customer_id:path}/comment",
            customer.comment,
            "review",
            on=customer.customer,
            takes_file=True,
            largest=case_comments.LARGEST + LARGEST_FORM,
        ),
        get("/customers/{customer_id:path}/attachments/{key}", customer.save_attachment, "people"),
        get("/customers/{customer_id:path}", customer.customer, "people"),
        get("/users", users.users, "users"),
        post("/users", users.change, "users", on=users.users),
        post("/users/confirm", users.confirm, "approve"),
        post("/users/give-up", users.give_up),
        get("/money", money.money, "money"),
        post("/money/settle", money.settle, "settle", on=money.money),
        post("/money/confirm", money.confirm, "settle", on=money.money),
        post("/money/missing", money.explain, "settle", on=money.money),
        get("/money.csv", money.take_out, "money", "take out"),
        get("/audit", audit_page.audit, "audit"),
        get("/audit.csv", audit_page.take_out, "audit", "take out"),
        Route("/static/{name}", static, methods=["GET"]),
        Route("/health", health, methods=["GET"]),
    ]


async def _sweep(desk: Context) -> None:
    """Remove uploads of no more use, as long as the desk is served."""
    while True:
        with suppress(JournalError, OSError):  # tried again later
            await asyncio.to_thread(desk.uploads.sweep)
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
