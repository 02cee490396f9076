"""The way to the service: a proxy, a lender's own authority, and trouble with either."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from nightscreen.client import wire
from nightscreen.client.api import Client, diagnose_connection
from nightscreen.client.network import Network
from nightscreen.config.settings import read_settings
from nightscreen.schemas.errors import SettingsError
from tests.client.service_in_a_test import Authority

HOST = "service.lender.example"  # a name that no name server knows: only the proxy leads there
PRODUCTS = b'{"status":"success","message":"ok","data":[]}'


@dataclass
class Town:
    """A service behind TLS and a proxy that leads to it by name; what the proxy was asked."""

    authority: Authority
    proxy_port: int = 0
    service_port: int = 0
    asked: list[str] = field(default_factory=list)
    refuse: str = ""
    opens: bytes = b"HTTP/1.1 200 Connection established\r\n\r\n"  # what it says of a tunnel
    served: int = 0

    @property
    def base(self) -> str:
        return f"https://{HOST}"

    @property
    def proxy(self) -> str:
        return f"http://127.0.0.1:{self.proxy_port}"

    @property
    def network(self) -> Network:
        """Return the way as it must be configured."""
        return Network(self.proxy, self.authority.bundle)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            while True:
                await reader.readuntil(b"\r\n\r\n")
                self.served += 1
                head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(PRODUCTS)}\r\n\r\n".encode()
                writer.write(head + PRODUCTS)
                await writer.drain()
        writer.close()

    async def lead(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Make a tunnel to the service, whatever the name is resolved to elsewhere."""
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
        except asyncio.IncompleteReadError:
            writer.close()
            return
        self.asked.append(head)
        if self.refuse:
            writer.write(f"HTTP/1.1 {self.refuse}\r\nContent-Length: 0\r\n\r\n".encode())
            writer.close()
            return
        there, back = await asyncio.open_connection("127.0.0.1", self.service_port)
        writer.write(self.opens)
        await asyncio.gather(_pass(reader, back), _pass(there, writer))


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while part := await reader.read(65536):
            writer.write(part)
            await writer.drain()
    writer.close()


@pytest.fixture
async def town(tmp_path: Path) -> AsyncIterator[Town]:
    found = Town(Authority.make(tmp_path, HOST))
    context = found.authority.server_context()
    async with (
        await asyncio.start_server(found.serve, "127.0.0.1", 0, ssl=context) as service,
        await asyncio.start_server(found.lead, "127.0.0.1", 0) as proxy,
    ):
        found.service_port = service.sockets[0].getsockname()[1]
        found.proxy_port = proxy.sockets[0].getsockname()[1]
        yield found
        proxy.close()
        service.close()


async def asked_once(town: Town, network: Network) -> str | None:
    """Ask the service something free; return the trouble it met."""
    async with Client(town.base, "key-of-the-test", network=network) as client:
        trouble = (await client.send(wire.loan_products())).trouble
    return None if trouble is None else trouble.value


async def test_the_client_goes_through_the_proxy_and_trusts_the_lenders_authority(
    town: Town,
) -> None:
    """The call comes back; the proxy sees a host, and neither key nor path."""
    assert await asked_once(town, town.network) is None
    assert town.served == 1
    assert [head.splitlines()[0] for head in town.asked] == [f"CONNECT {HOST}:443 HTTP/1.1"]
    assert "key-of-the-test" not in "".join(town.asked)
    assert "roxy-" not in "".join(town.asked)


OPENS = (
    b"HTTP/1.0 200 Connection established\r\n\r\n",
    b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
)


async def test_what_follows_the_head_of_a_proxys_answer_is_the_tunnel(town: Town) -> None:
    """Whatever a proxy says of a body, there is none once it leads to the service."""
    for opens in OPENS:
        town.opens = opens
        assert await asked_once(town, town.network) is None, opens


async def test_a_proxy_is_shown_user_and_password(town: Town) -> None:
    """They stand in its address, escaped, and nowhere else."""
    given = f"http://night:p%40ss@127.0.0.1:{town.proxy_port}"
    network = Network(given, town.authority.bundle)
    assert await asked_once(town, network) is None
    assert await asyncio.to_thread(diagnose_connection, town.base, network=network) is None
    shown = base64.b64encode(b"night:p@ss").decode()
    assert all(f"roxy-authorization: basic {shown}".lower() in head.lower() for head in town.asked)
    assert len(town.asked) == 2
    assert "p%40ss" not in repr(network)


async def test_an_authority_that_is_not_named_is_not_trusted(town: Town) -> None:
    """Nothing is sent to who shows such a certificate, and doctor says so."""
    straight = Network(town.proxy)
    assert await asked_once(town, straight) is not None
    assert town.served == 0
    found = await asyncio.to_thread(diagnose_connection, town.base, network=straight)
    assert found is not None
    assert "shows a certificate that is not trusted" in found


@pytest.mark.parametrize("refusal", ["407 Proxy Authentication Required", "503 No Way"])
async def test_a_call_that_the_proxy_refuses_was_never_sent(town: Town, refusal: str) -> None:
    """It is no call in doubt: nothing left for the service, so nothing can have been charged."""
    town.refuse = refusal
    async with Client(town.base, "key", network=town.network) as client:
        outcome = await client.send(wire.loan_products())
    assert outcome.verdict.value == "not_sent"
    found = await asyncio.to_thread(diagnose_connection, town.base, network=town.network)
    assert found is not None
    assert refusal in found


async def test_the_environments_proxy_is_used_only_where_the_settings_say_so(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HTTPS_PROXY counts with `environment`, and NO_PROXY then holds too."""
    monkeypatch.setenv("HTTPS_PROXY", town.proxy)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    url = httpx.URL(town.base)
    assert Network().proxy_to(url) is None
    network = Network("environment", town.authority.bundle)
    assert await asked_once(town, network) is None
    assert len(town.asked) == 1
    monkeypatch.setenv("NO_PROXY", "lender.example")
    assert network.proxy_to(url) is None


def test_this_machine_is_gone_to_straight() -> None:
    """A simulator on loopback is not the proxy's to reach; only one beside it can."""
    network = Network("http://proxy.lender.example:3128")
    for address in ("http://127.0.0.1:8000", "http://localhost:8000", "https://127.0.0.1:8443"):
        assert network.proxy_to(httpx.URL(address)) is None
    beside = Network("http://localhost:3128")
    assert beside.proxy_to(httpx.URL("http://127.0.0.1:8000")) is None
    for address in ("https://127.0.0.1:8443", "https://service.example"):
        through = beside.proxy_to(httpx.URL(address))
        assert through is not None
        assert through.host == "localhost"
    there = network.proxy_to(httpx.URL("https://service.example"))
    assert there is not None
    assert (there.host, there.port) == ("proxy.lender.example", 3128)


NO_PROXIES: list[str] = ["socks5://x:1", "proxy:3128", "https://proxy:1", "http://x/p"]


def test_what_is_no_proxy_is_refused_without_being_repeated() -> None:
    """The value may hold a password."""
    for given in NO_PROXIES:
        with pytest.raises(SettingsError, match="NIGHTSCREEN_PROXY: must be the address") as caught:
            read_settings(proxy=given)
        assert given not in str(caught.value), given


def test_a_bundle_that_is_none_is_named(tmp_path: Path) -> None:
    """A missing or empty file is a mistake in the settings, in one line."""
    with pytest.raises(SettingsError, match=r"CA_FILE .* cannot be read"):
        Network(ca_file=tmp_path / "none.pem").context()
    (tmp_path / "empty.pem").write_text("nothing")
    with pytest.raises(SettingsError, match="holds no certificate"):
        Network(ca_file=tmp_path / "empty.pem").context()
