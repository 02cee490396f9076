"""`nightscreen consent`: links for customers, codes redeemed by hand, grants listed and taken back.

`operations/consents/` decides what a link or a code allows; `portal/` has the pages behind a link.
The user of the command sees a customer's id; nobody sees tokens and codes.
"""

from __future__ import annotations

import asyncio
import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nightscreen.cli.common_options import JsonOption  # noqa: TC001 - Typer reads the annotation when it runs
from nightscreen.cli.env_settings import settings_of_command
from nightscreen.cli.journal_context import made_journal, opened_journal
from nightscreen.cli.output import lagos_time, print_json
from nightscreen.cli.portal import require_consent
from nightscreen.schemas.errors import UsageError
from nightscreen.schemas.stops import REFUSALS

if TYPE_CHECKING:
    from nightscreen.config.settings import Settings
    from nightscreen.journal import Journal
    from nightscreen.operations.consents.admin import CodeInput
    from nightscreen.operations.consents.links import Link
    from nightscreen.operations.consents.token_exchange import Redeemed

consent_app = typer.Typer(
    help="Customers' consent to their transactions: links, codes, grants.", no_args_is_help=True
)


def register(app: typer.Typer) -> None:
    """Add the group to the console command."""
    app.add_typer(consent_app, name="consent")


@consent_app.command(
    "link", epilog="Example: nightscreen consent link CUST-0000004 --scope transaction:list"
)
def link(
    customer_id: Annotated[str, typer.Argument(help="As your files have it.")],
    scope: Annotated[
        list[str], typer.Option(help="What to ask for, such as transaction:list; may be repeated.")
    ],
    valid_for: Annotated[
        str, typer.Option(help="How long the link works, such as P7D or PT12H.")
    ] = "P7D",
    direct: Annotated[
        bool, typer.Option("--direct", help="Print the consent screen's own address instead.")
    ] = False,
    json_output: JsonOption = False,
) -> None:
    """Print the link to give to a customer; nothing is sent."""
    from nightscreen.client.aggregator import read_scopes
    from nightscreen.operations.consents.links import ConsentLinks
    from nightscreen.portal.config import place_of

    settings = settings_of_command()
    require_consent(settings)
    scopes, lasting, place = read_scopes(scope), _duration(valid_for), place_of(settings)
    with made_journal(settings) as journal:
        links = ConsentLinks(journal)
        by_portal = place.answers_redirects and not direct
        if by_portal:
            made = links.make(customer_id, scopes, lasting)
            address = f"{place.origin}/consent/{made.token}"
        else:
            made = links.direct(customer_id, scopes, lasting)
            address = _screen_address(settings, scopes, made)
    _print_link(address, made, customer_id, [*scopes], by_portal=by_portal, as_json=json_output)


def _screen_address(settings: Settings, scopes: tuple[Any, ...], made: Link) -> str:
    from nightscreen.client.aggregator import consent_address

    return consent_address(
        settings.consent_url,
        client_id=settings.client_id,
        redirect_uri=settings.redirect_uri,
        scopes=scopes,
        state=made.token,
    )


def _print_link(
    address: str, made: Link, customer_id: str, scopes: list[str], *, by_portal: bool, as_json: bool
) -> None:
    from nightscreen.schemas.clock import instant_text

    if as_json:
        print_json(
            {
                "link": address,
                "reference": made.reference,
                "customer_id": customer_id,
                "scopes": scopes,
                "expires_at": instant_text(made.expires_at),
                "leads_to": "portal" if by_portal else "consent_screen",
            }
        )
        return
    typer.echo(address)
    sys.stderr.write(
        f"It works until {lagos_time(instant_text(made.expires_at))} in Lagos, or until the "
        f"customer has consented; its reference is {made.reference}. Give it to this customer "
        "only.\n"
    )


def _duration(text: str) -> timedelta:
    """Return an ISO 8601 duration.

    Raises:
        UsageError: it is none.
    """
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(timedelta).validate_python(text.strip().upper())
    except ValidationError:
        raise UsageError("--valid-for: write a duration such as P7D or PT12H") from None


@consent_app.command(
    "redeem", epilog="Example: nightscreen consent redeem --customer CUST-0000004 --code CODE"
)
def redeem(
    customer: Annotated[str, typer.Option(help="Whose consent it is.")],
    code: Annotated[
        str, typer.Option(help="Code of the redirect, or its whole address; - reads it from stdin.")
    ],
    scope: Annotated[
        list[str] | None,
        typer.Option(help="The scopes you asked for, if you have only the code; may be repeated."),
    ] = None,
    json_output: JsonOption = False,
) -> None:
    """Exchange a code by hand, where no portal takes the redirect; it works once."""
    from nightscreen.client.aggregator import read_scopes
    from nightscreen.operations.consents.admin import read_code

    settings = settings_of_command()
    require_consent(settings)
    brought = read_code(sys.stdin.readline() if code == "-" else code)
    scopes = read_scopes(scope) if scope else ()
    with made_journal(settings) as journal:
        done = asyncio.run(_redeemed(journal, settings, customer, brought, scopes))
    raise typer.Exit(_print_redeemed(done, customer, json_output=json_output))


async def _redeemed(
    journal: Journal, settings: Settings, customer: str, brought: CodeInput, scopes: tuple[Any, ...]
) -> Redeemed:
    from nightscreen.operations.consents.admin import consent_by_hand
    from nightscreen.operations.consents.links import ConsentLinks
    from nightscreen.operations.consents.token_exchange import CodeExchange

    redeemer = CodeExchange(journal, settings)
    try:
        consent, asked = consent_by_hand(journal, customer, brought, scopes)
        done = await redeemer.redeem(consent)
        if done.grant is not None and asked is not None:
            ConsentLinks(journal).use_up(asked)
        return done
    finally:
        await redeemer.aclose()


_AGAIN = "ask the customer to consent again"
_SAYINGS = {
    "nothing_granted": (2, "the customer granted nothing of what was asked; nothing was kept"),
    "code_refused": (2, f"the code was used, has expired or is for another address; {_AGAIN}"),
    "in_doubt": (3, f"the answer was lost and the code may be used up; {_AGAIN}"),
    "busy": (3, "the service could not be reached or had no time; try the code again at once"),
    "capped": (3, "a spending cap leaves no room for the call; nothing was sent"),
    "key_refused": (3, "the wallet is too low for the call; top it up"),
    "test_mode": (4, "the service is in test mode; nothing was kept"),
}


def _print_redeemed(done: Redeemed, customer: str, *, json_output: bool) -> int:
    """Print what came of a code and return the exit status."""
    status, sentence = _ending(done)
    if json_output:
        document: dict[str, Any] = {
            "customer_id": customer,
            "result": done.ending.value,
            "scopes": [] if done.grant is None else list(done.grant.scopes),
            "not_granted": list(done.missing),
        }
        if status:
            document |= {"error": sentence, "exit_status": status, "trouble": done.trouble}
        print_json(document)
        return status
    if done.grant is None:
        sys.stderr.write(f"nightscreen: {sentence}\n")
        return status
    typer.echo(f"Kept: {', '.join(done.grant.scopes)}")
    if done.missing:
        typer.echo(f"Not granted: {', '.join(done.missing)}")
    return status


def _ending(done: Redeemed) -> tuple[int, str]:
    """Return exit status and sentence; a wrong address, key or right reads as everywhere."""
    if done.trouble in REFUSALS:
        return (2 if done.trouble == "address" else 3), REFUSALS[done.trouble]
    return _SAYINGS.get(done.ending.value, (0, ""))


@consent_app.command("list", epilog="Example: nightscreen consent list --state live --json")
def list_(
    state: Annotated[str, typer.Option(help="Only those live, lapsed or revoked.")] = "",
    json_output: JsonOption = False,
) -> None:
    """List customers' consents, newest first: scopes, state and age, no token."""
    from nightscreen.journal.vault import GrantState
    from nightscreen.operations.consents.admin import grant_rows

    if state and state not in tuple(GrantState):
        raise UsageError(f"--state: {state} is none of {', '.join(GrantState)}")
    with opened_journal() as journal:
        rows = grant_rows(journal, state=GrantState(state) if state else None)
    if json_output:
        print_json({"grants": rows, "count": len(rows)})
        return
    for row in rows:
        typer.echo(_line(row))
    if not rows:
        typer.echo("No consents yet; make a link with: nightscreen consent link CUSTOMER_ID")


def _line(row: dict[str, Any]) -> str:
    age = "today" if row["age_days"] == 0 else f"{row['age_days']} days"
    refreshed = row["refreshed_at"] or "not yet refreshed"
    reason = f" ({row['reason']})" if row["reason"] else ""
    return (
        f"{row['customer_id']:<16} {row['state']}{reason:<10} {age:>9}  {refreshed:<24}  "
        f"{' '.join(row['scopes'])}"
    )


@consent_app.command("revoke", epilog="Example: nightscreen consent revoke CUST-0000004")
def revoke(
    customer_id: Annotated[str, typer.Argument(help="As your files have it.")],
    json_output: JsonOption = False,
) -> None:
    """Take a consent back: it is used no more and its tokens are destroyed."""
    from nightscreen.operations.consents.admin import revoke as take_back

    with opened_journal() as journal:
        done = take_back(journal, customer_id)
    if json_output:
        print_json(done)
    elif done["revoked"]:
        typer.echo("Revoked: its tokens are destroyed, and nothing is asked with it any more.")
    else:
        typer.echo(f"Nothing to revoke: the last consent is {done['state']} since it ended.")
