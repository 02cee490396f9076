"""`nightscreen portal`: the web pages customers meet, served until stopped."""

from __future__ import annotations

from typing import Annotated

import typer

from nightscreen.cli.command import command
from nightscreen.cli.env_settings import require_consent, settings_of_command
from nightscreen.cli.journal_context import made_journal
from nightscreen.portal.app import serve
from nightscreen.web.serve import is_open_to_others


@command("portal --port 8080")
def portal(
    host: Annotated[
        str, typer.Option(help="Address to listen on; https is added by a proxy in front.")
    ] = "127.0.0.1",
    port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            help="Port; 0 takes a free one. Default: that of a portal address on this machine, "
            "else 8080.",
        ),
    ] = None,
) -> None:
    """Serve the web pages customers meet: consent, callback, one-time password."""
    settings = settings_of_command()
    if is_open_to_others(host):
        typer.echo(
            f"Other machines reach {host}, and the portal does not serve https: let them reach "
            "only a proxy that does, and keep this port behind it.",
            err=True,
        )
    if settings.redirect_uri or settings.consent_url or settings.client_id:
        require_consent(settings)
    with made_journal(settings) as journal:
        serve(journal, settings, host=host, port=port)
