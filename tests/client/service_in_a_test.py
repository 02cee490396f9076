"""A raw socket server whose every answer is chosen by the test, and records what arrived.

What does not belong here: behaviour of the service; this is about bytes and broken connections.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

Behaviour = Callable[["Wire"], Awaitable[None]]


@dataclass
class Wire:
    """One connection as the server sees it."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    head: bytes = b""

    async def say(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self, body: bytes, status: str = "200 OK", *headers: str) -> None:
        lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
        await self.say("\r\n".join(lines).encode() + b"\r\n\r\n" + body)

    def cut(self) -> None:
        self.writer.close()


@dataclass
class RawService:
    """The server and what it saw."""

    port: int = 0
    heads: list[bytes] = field(default_factory=list)
    connections: int = 0
    behave: Behaviour | None = None

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read heads and behave, until the connection ends."""
        self.connections += 1
        wire = Wire(reader, writer)
        try:
            while not writer.is_closing():
                wire.head = await reader.readuntil(b"\r\n\r\n")
                self.heads.append(wire.head)
                assert self.behave is not None
                await self.behave(wire)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@dataclass
class Authority:
    """A certificate authority of the lender's own, and a server's certificate by it."""

    bundle: Path
    server: Path

    @classmethod
    def make(cls, folder: Path, host: str) -> Authority:
        now = dt.datetime.now(dt.UTC)
        key, own = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
        issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Lender's own authority")])
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])

        def begun(name: x509.Name, public: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
            return (
                x509.CertificateBuilder()
                .subject_name(name)
                .issuer_name(issuer)
                .public_key(public)
                .serial_number(x509.random_serial_number())
                .not_valid_before(now - dt.timedelta(days=1))
                .not_valid_after(now + dt.timedelta(days=1))
            )

        root = begun(issuer, key.public_key()).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        leaf = begun(subject, own.public_key()).add_extension(
            x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False
        )
        pem = serialization.Encoding.PEM
        made = cls(folder / "ca.pem", folder / "server.pem")
        made.bundle.write_bytes(root.sign(key, hashes.SHA256()).public_bytes(pem))
        made.server.write_bytes(
            own.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
            + leaf.sign(key, hashes.SHA256()).public_bytes(pem)
        )
        return made

    def server_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.server)
        return context


@contextlib.asynccontextmanager
async def raw_service(
    behave: Behaviour, *, tls: ssl.SSLContext | None = None
) -> AsyncIterator[RawService]:
    """Run a server that behaves so for each request."""
    service = RawService(behave=behave)
    running: set[asyncio.Task[None]] = set()

    def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(service.serve(reader, writer))
        running.add(task)
        task.add_done_callback(running.discard)

    server = await asyncio.start_server(take, "127.0.0.1", 0, ssl=tls)
    service.port = server.sockets[0].getsockname()[1]
    try:
        yield service
    finally:
        server.close()
        for task in tuple(running):
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await server.wait_closed()
