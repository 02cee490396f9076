"""The lender's key: from the settings, or made once under HOME for a new journal.

It wraps the data keys, which are in the journal (`journal.keyset`); `sealing` seals data.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import secrets
import sys
from typing import TYPE_CHECKING

from nightscreen.files.private_files import (
    make_private_folder,
    sync_folder,
    write_private,
    write_private_once,
)
from nightscreen.files.sealing import Sealer, fingerprint
from nightscreen.schemas.errors import (
    JournalDamagedError,
    JournalKeyError,
    SettingsError,
    UsageError,
)

if TYPE_CHECKING:
    from pathlib import Path

KEY_BYTES = 32
KEY_FILE = "data.key"
SEALED_KEY_FILE = "data.key.sealed"
LEAST_PASSPHRASE = 12
_COST = {"n": 2**17, "r": 8, "p": 1, "maxmem": 2**28}
"""Parameters of scrypt: 128 MB and about half a second per guess."""
_SEALED_AS = b"scrypt-131072-8-1"
_SALT_BYTES = 16  # 128 bits, as NIST SP 800-132 asks


def decode_key(text: str, source: str) -> bytes:
    """Return the 32 bytes of a base64 key.

    Raises:
        SettingsError: it is not base64 of 32 bytes; `source` says where it came from.
    """
    try:
        key = base64.b64decode(text.strip(), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != KEY_BYTES:
        raise SettingsError(
            f"{source} is not a data key: it must be {KEY_BYTES} bytes in base64; "
            "put the right one back (for a new journal make one with: openssl rand -base64 32)"
        )
    return key


def encode_key(key: bytes) -> bytes:
    """Return the content of a key file."""
    return base64.b64encode(key) + b"\n"


def seal_key(key: bytes, passphrase: str) -> bytes:
    """Return the content of a file with a key sealed to a passphrase.

    Raises:
        UsageError: the passphrase is too short.
    """
    if len(passphrase) < LEAST_PASSPHRASE:
        raise UsageError(f"the passphrase has under {LEAST_PASSPHRASE} characters; take a longer")
    salt = secrets.token_bytes(_SALT_BYTES)
    sealed = Sealer(_stretched(passphrase, salt)).seal(key, _SEALED_AS)
    return _SEALED_AS + b" " + base64.b64encode(salt + sealed) + b"\n"


def unseal_key(line: bytes, passphrase: str) -> bytes:
    """Return the key that `seal_key` sealed.

    Raises:
        JournalKeyError: the passphrase is wrong, or the line is damaged.
    """
    try:
        form, text = line.split()
        salted = base64.b64decode(text, validate=True)
        sealer = Sealer(_stretched(passphrase, salted[:_SALT_BYTES]))
        return sealer.open(salted[_SALT_BYTES:], form)
    except (ValueError, JournalDamagedError, JournalKeyError):
        raise JournalKeyError(
            "the passphrase does not open the backup's key, or the file was changed; give the one "
            "the backup was made with"
        ) from None


def read_passphrase(file: Path | None) -> str:
    """Return the first line of a file, or of standard input for `-`; empty for None.

    Raises:
        SettingsError: the file cannot be read, or its first line is empty.
    """
    if file is None:
        return ""
    try:
        text = sys.stdin.readline() if str(file) == "-" else file.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        raise SettingsError(f"the passphrase's file {file} cannot be read as text") from None
    line = text.partition("\n")[0]
    if not line.strip():
        raise SettingsError(f"the first line of the passphrase's file {file} is empty")
    return line.rstrip("\r\n")


def _stretched(passphrase: str, salt: bytes) -> bytes:
    return hashlib.scrypt(passphrase.encode(), salt=salt, dklen=KEY_BYTES, **_COST)


def read_key(file: Path) -> bytes | None:
    """Return the key of a file; None if there is no such file.

    Raises:
        JournalKeyError: the file cannot be read.
        SettingsError: it holds no key.
    """
    try:
        return decode_key(file.read_text("ascii"), str(file))
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        return decode_key("", str(file))
    except OSError as error:
        raise JournalKeyError(
            f"cannot read the data key in {file} ({error.strerror or type(error).__name__}); "
            "correct its permissions or set NIGHTSCREEN_DATA_KEY"
        ) from None


def configured_key(home: Path, configured: str) -> bytes | None:
    """Return the key of the settings, else the one under HOME, else None."""
    if configured:
        return decode_key(configured, "NIGHTSCREEN_DATA_KEY")
    return read_key(home / KEY_FILE)


def new_key() -> bytes:
    """Return a new random key, without saving it."""
    return secrets.token_bytes(KEY_BYTES)


def make_key(home: Path) -> bytes:
    """Make a new data key and save it under HOME (mode 0600); an existing one is returned instead.

    Two processes that do so at the same time get the same key.
    """
    make_private_folder(home)
    write_private_once(home / KEY_FILE, encode_key(new_key()))
    key = read_key(home / KEY_FILE)
    if key is None:
        raise JournalKeyError(f"the data key just made in {home / KEY_FILE} is gone; run again")
    return key


def prepared_file(home: Path, key_fingerprint: str) -> Path:
    """Return the file of a rotation's new key until it replaces the old one.

    Each key has its own file, so that two rotations never overwrite each other's key.
    """
    return home / f"{KEY_FILE}.{key_fingerprint[:16]}"


def prepare_key(home: Path, key: bytes) -> None:
    """Save a new key next to the one under HOME, before anything is wrapped with it."""
    write_private(prepared_file(home, fingerprint(key)), encode_key(key))


def put_in_force(home: Path, key: bytes) -> None:
    """Replace the key under HOME with a prepared key."""
    prepared_file(home, fingerprint(key)).replace(home / KEY_FILE)
    sync_folder(home)


def keeps_key(home: Path) -> bool:
    """Return whether HOME has its own key file."""
    return os.path.lexists(home / KEY_FILE)
