"""The data key: taken from the settings, or made once under HOME for a new journal.

Which key belongs to a journal is judged when the journal is opened; sealing itself is in `sealing`.
"""

from __future__ import annotations

import base64
import binascii
import os

from schemas.errors import JournalKeyError, SettingsError
from storage.private import make_private_folder, write_private
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

KEY_BYTES = 32
KEY_FILE = "data.key"


def decode_key(text: str, source: str) -> bytes:
    """Return the 32 bytes of a base64 key.

    Raises:
        SettingsError: it is not base64 of 32 bytes; `source` says where it came from.
    """
    try:
        key = base64.b64decode(text.strip(), validate=True)
    except binascii.Error:
        key = b""
    if len(key) != KEY_BYTES:
        raise SettingsError(
            f"{source} is not a data key: it must be {KEY_BYTES} bytes in base64; "
            "make one with: openssl rand -base64 32"
        )
    return key


def configured_key(home: Path, configured: str) -> bytes | None:
    """Return the key of the settings, else the one kept under HOME, else None."""
    if configured:
        return decode_key(configured, "NIGHTSCREEN_DATA_KEY")
    file = home / KEY_FILE
    try:
        return decode_key(file.read_text("ascii"), str(file))
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise JournalKeyError(
            f"cannot read the data key in {file} ({type(error).__name__}); mend its permissions or "
            "set NIGHTSCREEN_DATA_KEY"
        ) from None


def make_key(home: Path) -> bytes:
    """Make a new data key and keep it under HOME (mode 0600)."""
    key = os.urandom(KEY_BYTES)
    make_private_folder(home)
    write_private(home / KEY_FILE, base64.b64encode(key) + b"\n")
    return key
