"""One request of somebody's browser: who it is, what was sent, and whether it is let in.

Every page goes through `page`: it knows the session, asks for the right, reads the form, and writes
refusals into the audit. What a page then does is its own view; that a form comes from a page of
ours is judged before (`web.guard`).
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field
from decimal import Decimal
from functools import wraps
from ipaddress import IPv4Address, ip_address
from itertools import islice
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from starlette.responses import RedirectResponse

from nightscreen.desk.pages import html
from nightscreen.desk.run_rows import branch_of
from nightscreen.results.one_row import find_row
from nightscreen.schemas.errors import JournalBusyError, NightscreenError
from nightscreen.web.forms import FORM_TYPE, media_type, read_form
from nightscreen.web.guard import note, page_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from starlette.requests import Request
    from starlette.responses import Response

    from nightscreen.desk.accounts import SignInSource, User
    from nightscreen.desk.run_rows import RunRows
    from nightscreen.desk.seat import Seat
    from nightscreen.journal.runs import RunRecord

COOKIE: Final = "nightscreen-desk"
DEVICE_COOKIE: Final = "nightscreen-desk-device"
_NAIRA: Final = re.compile(r"[0-9]{1,12}(\.[0-9]{1,6})?")
_LOOKED_AT: Final = 60
"""Runs that are searched for a customer's newest row."""
MOST_FIELDS: Final = 1_400
"""A page of a quarantine has the most: a field for each cell."""
NAVIGATION: Final = (
    ("/", "Tonight", ""),
    ("/new", "New file", "screen"),
    ("/approvals", "Approvals", "approvals"),
    ("/runs", "Runs", "runs"),
    ("/decisions", "Decisions", "people"),
    ("/contests", "Contests", "people"),
    ("/policy", "Policy", "runs"),
    ("/money", "Money", "money"),
    ("/audit", "Audit", "audit"),
    ("/users", "Users", "users"),
)
"""Path, word and the right without which the entry is not shown."""


BUSY: Final = "The journal is busy, and nothing was saved. Try again in a few seconds."


class DeskError(Exception):
    """A request that is refused, in a sentence for the person who made it."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence


@dataclass(slots=True)
class Visit:
    """One request.

    Attributes:
        seat: what the desk works with.
        request: as it came.
        user: who is signed in.
        form: the fields of a form, each with every value given.
        session: the token of the session; empty where nobody is signed in.
    """

    seat: Seat
    request: Request
    user: User | None
    session: str
    form: Mapping[str, list[str]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Return the name that the audit bears."""
        return "" if self.user is None else self.user.name

    @property
    def device(self) -> str:
        """Return the word by which this browser is known from earlier sign-ins; may be empty."""
        return self.request.cookies.get(self.seat.cookie(DEVICE_COOKIE), "")

    def source(self, name: str) -> SignInSource:
        """Return where somebody tries to sign in from under a name."""
        client = self.request.client
        address = "" if client is None else neighbourhood(client.host)
        return self.seat.accounts.source(name, self.device, address)

    def may(self, what: str) -> bool:
        """Tell whether the user may do or see something."""
        return self.user is not None and self.user.may(what)

    def require(self, what: str) -> None:
        """Refuse to go on without a right; it is written into the audit.

        Raises:
            DeskError: 403.
        """
        if not self.may(what):
            self.seat.audit.write(
                self.name, "refused", page=page_of(self.request.scope), needs=what
            )
            raise DeskError(403, _NEEDS.get(what, "Your roles do not allow this."))

    def rows_of(self, run: RunRecord) -> RunRows | None:
        """Return a run's rows of the branches this user sees; None where its files are gone."""
        rows = self.seat.rows.of(run)
        return rows.within(self.branches) if rows is not None and self.branches else rows

    @property
    def branches(self) -> tuple[str, ...]:
        """Return the branches whose customers alone this user sees; empty for all."""
        return () if self.user is None else self.user.branches

    def sees_branch(self, branch: str) -> bool:
        """Tell whether the user sees customers of a branch."""
        lower = {each.lower() for each in self.branches}
        return not lower or branch.strip().lower() in lower

    def require_branch(self, branch: str, **about: str) -> None:
        """Refuse to show a customer of another branch; it is written into the audit.

        Raises:
            DeskError: 403.
        """
        if not self.sees_branch(branch):
            page = page_of(self.request.scope)
            self.seat.audit.write(self.name, "refused", page=page, needs="branch", **about)
            raise DeskError(403, "You see customers of these branches: " + ", ".join(self.branches))

    def sees(self, customer_id: str, batch: str) -> bool:
        """Tell whether a customer is of a branch that the user sees, by the newest row there is.

        Args:
            customer_id: the customer.
            batch: the batch name; empty for any.
        """
        if not self.branches:
            return True
        runs = self.seat.journal.runs
        of_batch = (head for head in runs.heads() if not batch or head.batch == batch)
        for head in islice(of_batch, _LOOKED_AT):
            run = runs.find(head.run_id)
            row = None if run is None else find_row(run, customer_id)
            if row is not None:
                return self.sees_branch(branch_of(row))
        return False

    def require_seen(self, customer_id: str, batch: str) -> None:
        """Refuse to go on with a customer of a branch that the user does not see.

        Raises:
            DeskError: 403.
        """
        if not self.sees(customer_id, batch):
            self.require_branch("", customer_id=customer_id)

    def require_all_branches(self) -> None:
        """Refuse what shows customers of every branch to a user who is limited to some.

        Raises:
            DeskError: 403.
        """
        if self.branches:
            self.require_branch("")

    def text(self, name: str, most: int = 4000) -> str:
        """Return a field of the form without blanks round it."""
        given = self.form.get(name) or [""]
        return given[-1].strip()[:most]

    def asked(self, name: str) -> list[str]:
        """Return every value of a parameter of the address, without NUL, which no table holds."""
        given = self.request.query_params.getlist(name)
        return [value for each in given if (value := each.replace("\0", ""))]

    def asked_first(self, name: str) -> str:
        """Return the first value of a parameter of the address; empty where there is none."""
        return next(iter(self.asked(name)), "")

    def whole_number(self, name: str) -> int:
        """Return a number of the address; 0 where there is none."""
        text = self.asked_first(name)
        return int(text) if text.isdecimal() and len(text) < 9 else 0  # noqa: PLR2004 - no list is longer

    def page(self, template: str, status: int = 200, **values: object) -> Response:
        """Return a page with the navigation of this user."""
        waiting = self.seat.waiting_approvals() if self.may("approvals") else 0
        shown = [
            (path, word, waiting if path == "/approvals" else 0)
            for path, word, need in NAVIGATION
            if self.user is not None and (not need or self.may(need))
        ]
        here = "/" + self.request.url.path.split("/")[1]
        if here == "/customers" or self.request.url.path.endswith("/decisions"):
            here = "/decisions"
        return html(
            template,
            status,
            user=self.user,
            may=self.may,
            navigation=shown,
            here=here,
            now=self.seat.clock(),
            **values,
        )


_NEEDS = {
    "approvals": "Approvals are seen by users with the role approver or auditor.",
    "approve": "Spending is approved by users with the role approver.",
    "audit": "The audit is read by users with the role auditor.",
    "users": "Users are looked after by an administrator.",
    "people": "Your roles do not show what is held of customers.",
    "runs": "Your roles do not show runs.",
    "screen": "Files are screened by users with the role analyst.",
    "review": "Customers are reviewed by users with the role analyst.",
    "contest": "Contests are recorded and answered by analysts, approvers and privacy.",
    "export": "Taking data out is a right of its own: an administrator can give it to you.",
    "money": "What runs cost is a right of its own: an administrator can give it to you.",
    "propose": "A policy is proposed by users with the role analyst.",
    "policy": "Putting a policy in force is a right of its own: an administrator can give it to "
    "you.",
    "override": "Deciding otherwise than the policy is a right of its own: an administrator can "
    "give it to you.",
}


def plain_naira(text: str) -> str:
    """Return an amount as it was typed, without separators of thousands and the sign of naira."""
    return text.replace(",", "").replace("₦", "").strip()


def naira_typed(text: str) -> Decimal | None:
    """Return an amount of naira as it was typed; None where it is none, or empty."""
    plain = plain_naira(text)
    return Decimal(plain) if _NAIRA.fullmatch(plain) else None


def page(
    seat: Seat, view: Callable[[Visit], Response], *, need: str = "", signed_in: bool = True
) -> Callable[[Request], Awaitable[Response]]:
    """Return the endpoint of a view, which runs beside the loop.

    Args:
        seat: what the desk works with.
        view: makes the answer.
        need: the right without which the page is refused.
        signed_in: somebody must be signed in.
    """

    @wraps(view)  # the log and the audit name the page by its view
    async def endpoint(request: Request) -> Response:
        visit = await asyncio.to_thread(recognise, seat, request)
        if signed_in and visit.user is None:
            return to_sign_in(request)
        if request.method == "POST":
            if media_type(request) != FORM_TYPE:
                raise DeskError(415, "This page takes a form and nothing else.")
            visit.form = await read_form(request, MOST_FIELDS)
        return await asyncio.to_thread(_answered, visit, view, need)

    return endpoint


def _answered(visit: Visit, view: Callable[[Visit], Response], need: str) -> Response:
    try:
        if need:
            visit.require(need)
        return view(visit)
    except DeskError as error:
        return refusal(visit, error)
    except JournalBusyError:
        return refusal(visit, DeskError(503, BUSY))
    except NightscreenError as error:
        return refusal(visit, DeskError(400, str(error)))


def refusal(visit: Visit, error: DeskError) -> Response:
    """Return the page of a refused request."""
    note(visit.request.scope, refused=str(error.status))
    return visit.page(
        "trouble",
        error.status,
        title=_TITLES.get(error.status, "That did not work"),
        sentence=error.sentence,
    )


_TITLES = {403: "You may not see this", 404: "There is no such page", 413: "That is too large"}


def recognise(seat: Seat, request: Request) -> Visit:
    """Return whose request it is."""
    token = request.cookies.get(seat.cookie(COOKIE), "")
    user = seat.accounts.session(token) if token else None
    if user is not None and (
        user.has_second or not user.must_have_second(seat.settings.desk_second_factor)
    ):
        return Visit(seat, request, user, token)
    return Visit(seat, request, None, "")


def set_cookie(
    seat: Seat, response: Response, name: str, value: str, seconds: int | None = None
) -> None:
    """Have a browser keep a word so many seconds, or until it is closed.

    No script and no other site can use it.
    """
    response.set_cookie(
        seat.cookie(name),
        value,
        max_age=seconds,
        path="/",
        secure=seat.is_secure,
        httponly=True,
        samesite="lax",
    )


def neighbourhood(address: str) -> str:
    """Return an address, or of an IPv6 one the /64 network, as one line has all of its addresses.

    What is no address is returned as it came.
    """
    try:
        found = ip_address(address)
    except ValueError:
        return address
    if isinstance(found, IPv4Address):
        return str(found)
    return str(found.ipv4_mapped or found.packed[:8].hex())


def local_address(address: str) -> str:
    """Return a path of our own; anything else becomes the front page."""
    sound = address.startswith("/") and not address.startswith(("//", "/\\"))
    return address if sound and address.isprintable() else "/"


def to_sign_in(request: Request) -> Response:
    """Send a browser to sign in, and back to the page it asked for."""
    wanted = request.url.path if request.method == "GET" else "/"
    if request.headers.get("hx-request") == "true":
        return RedirectResponse("/sign-in", 401, {"HX-Redirect": "/sign-in"})
    return RedirectResponse("/sign-in" + (f"?to={quote(wanted)}" if wanted != "/" else ""), 303)


def handled(seat: Seat) -> Callable[[Request, Exception], Any]:
    """Return what answers a `DeskError` that was raised before a view ran."""

    def answer(request: Request, error: Exception) -> Response:
        assert isinstance(error, DeskError)  # noqa: S101 - registered for that class alone
        return refusal(recognise(seat, request), error)

    return answer
