"""`nightscreen consent`: links for customers, codes redeemed by hand, grants listed and revoked.

`operations/consents/` decides what a link or a code allows; `portal/` has the pages behind a link.
The user of the command sees a customer's id; nobody sees tokens and codes.
"""

from __future__ import annotations

import asyncio
import sys
from datetime import timedelta
from typing import Annotated, Any

import typer
from pydantic import TypeAdapter, ValidationError

from nightscreen.cli.command import CustomerArgument, Result, command, group
from nightscreen.cli.context import opened_journal, require_consent, settings_of_command
from nightscreen.cli.output import lagos_time, say
from nightscreen.client.wire import consent_address, read_scopes
from nightscreen.journal import journal_of
from nightscreen.operations.consents.links import (
    ConsentLinks,
    asked_by_hand,
    grant_rows,
    read_code,
)
from nightscreen.operations.consents.links import redeem as redeem_code
from nightscreen.operations.consents.links import revoke as revoke_grant
from nightscreen.portal.pages import place_of
from nightscreen.schemas.clock import instant_text
from nightscreen.schemas.consented import GrantState
from nightscreen.schemas.errors import UsageError
from nightscreen.schemas.stops import REFUSALS

app = group("consent", "Customers' consent to share transactions.")
_AGAIN = "ask the customer to consent again"
_ENDINGS = {
    "nothing_granted": (2, "the customer granted nothing of what was asked; nothing was kept"),
    "code_refused": (2, f"the code was used, has expired or is for another address; {_AGAIN}"),
    "in_doubt": (3, f"the answer was lost and the code may be used up; {_AGAIN}"),
    "busy": (3, "the service could not be reached or had no time; try the code again at once"),
    "capped": (3, "a spending cap leaves no room for the call; nothing was sent"),
    "key_refused": (3, "the wallet is too low for the call; top it up"),
    "test_mode": (4, "the service is in test mode; nothing was kept"),
}


@command("consent link CUST-0000004 --scope transaction:list", of=app, view="consent-link")
def link(
    customer_id: CustomerArgument,
    scope: Annotated[
        list[str], typer.Option(help="What to ask for, such as transaction:list; may be repeated.")
    ],
    valid_for: Annotated[
        str, typer.Option(help="How long the link works, such as P7D or PT12H.")
    ] = "P7D",
    direct: Annotated[
        bool, typer.Option("--direct", help="Print the consent screen's own address instead.")
    ] = False,
) -> dict[str, Any]:
    """Print the link to give to a customer; nothing is sent."""
    settings = settings_of_command()
    require_consent(settings)
    scopes, place = read_scopes(scope), place_of(settings)
    try:
        lasting = TypeAdapter(timedelta).validate_python(valid_for.strip().upper())
    except ValidationError:
        raise UsageError("--valid-for: write a duration such as P7D or PT12H") from None
    by_portal = bool(place.callback_path) and not direct
    with journal_of(settings) as journal:
        made = ConsentLinks(journal).make(customer_id, scopes, lasting, direct=not by_portal)
    address = f"{place.origin}/consent/{made.token}"
    if not by_portal:
        address = consent_address(
            settings.consent_url,
            client_id=settings.client_id,
            redirect_uri=settings.redirect_uri,
            scopes=scopes,
            state=made.token,
        )
    until = instant_text(made.expires_at)
    say(
        f"It works until {lagos_time(until)} in Lagos, or until the customer has consented; its "
        f"reference is {made.reference}. Give it to this customer only."
    )
    return {
        "link": address,
        "reference": made.reference,
        "customer_id": customer_id,
        "scopes": [*scopes],
        "expires_at": until,
        "leads_to": "portal" if by_portal else "consent_screen",
    }


@command("consent redeem --customer CUST-0000004 --code CODE", of=app, view="consent-redeemed")
def redeem(
    customer: Annotated[str, typer.Option(help="Whose consent it is.")],
    code: Annotated[
        str, typer.Option(help="Code of the redirect, or its whole address; - reads it from stdin.")
    ],
    scope: Annotated[
        list[str] | None,
        typer.Option(help="The scopes you asked for, if you have only the code; may be repeated."),
    ] = None,
) -> Result:
    """Exchange a code by hand, where no portal takes the redirect; it works once."""
    settings = settings_of_command()
    require_consent(settings)
    brought, state = read_code(sys.stdin.readline() if code == "-" else code)
    with journal_of(settings) as journal:
        asked = asked_by_hand(journal, customer, state, read_scopes(scope) if scope else ())
        done = asyncio.run(redeem_code(journal, settings, asked, brought, channel="by hand"))
    status, sentence = _ENDINGS.get(done.ending.value, (0, ""))
    if done.trouble in REFUSALS:  # a wrong address, key or right reads as everywhere
        status, sentence = (2 if done.trouble == "address" else 3), REFUSALS[done.trouble]
    document: dict[str, Any] = {
        "customer_id": customer,
        "result": done.ending.value,
        "scopes": [] if done.grant is None else list(done.grant.scopes),
        "not_granted": list(done.missing),
    }
    if status:
        say(f"nightscreen: {sentence}")
        document |= {"error": sentence, "exit_status": status, "trouble": done.trouble}
    return Result(document, status)


@command("consent list --state live --json", of=app, view="consents")
def list_(
    state: Annotated[str, typer.Option(help="Only those live, lapsed or revoked.")] = "",
) -> dict[str, Any]:
    """List customers' consents, newest first: scopes, state and age, no token."""
    if state and state not in tuple(GrantState):
        raise UsageError(f"--state: {state} is none of {', '.join(GrantState)}")
    with opened_journal() as journal:
        rows = grant_rows(journal, state=GrantState(state) if state else None)
    return {"grants": rows, "count": len(rows)}


@command("consent revoke CUST-0000004", of=app, view="consent-revoked")
def revoke(customer_id: CustomerArgument) -> dict[str, Any]:
    """Revoke a consent: it is used no more and its tokens are destroyed."""
    with opened_journal() as journal:
        return revoke_grant(journal, customer_id)
