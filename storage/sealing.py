"""Sealing of what is at rest, and the pseudonyms that stand for identifiers.

AES-256-GCM under a data key; each sealed text carries the id of its key and is bound to what it is
(its `context`), so that a sealed answer cannot be moved to another person. Pseudonyms are keyed
with a key of their own that never rotates. Where keys come from is the business of `keys`.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from dataclasses import dataclass, field

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from schemas.errors import JournalDamagedError, JournalKeyError

_NONCE_BYTES = 12
_ID_BYTES = 4
SUBJECT_BYTES = 16


def key_id(key: bytes) -> bytes:
    """Return the four bytes by which a sealed text names its key; they reveal nothing of it."""
    return hmac.digest(key, b"nightscreen key id", "sha256")[:_ID_BYTES]


def fingerprint(key: bytes) -> str:
    """Return the text by which a journal recognises its data key."""
    return hmac.digest(key, b"nightscreen key fingerprint", "sha256").hex()


@dataclass(frozen=True, slots=True)
class Sealer:
    """Seals and opens bytes under a data key; opens also what older keys sealed.

    Attributes:
        key: 32 bytes, used for sealing.
        older: keys that are still accepted for opening.
    """

    key: bytes = field(repr=False)
    older: tuple[bytes, ...] = field(default=(), repr=False)
    _ciphers: dict[bytes, AESGCM] = field(default_factory=dict, init=False, repr=False)
    _current: bytes = field(default=b"", init=False, repr=False)

    def __post_init__(self) -> None:
        for each in (*self.older, self.key):
            self._ciphers[key_id(each)] = AESGCM(each)
        object.__setattr__(self, "_current", key_id(self.key))

    def seal(self, plain: bytes, context: bytes) -> bytes:
        """Return key id, nonce and ciphertext in one."""
        nonce = os.urandom(_NONCE_BYTES)
        sealed = self._ciphers[self._current].encrypt(nonce, plain, context)
        return self._current + nonce + sealed

    def open(self, sealed: bytes, context: bytes) -> bytes:
        """Return the plain bytes.

        Raises:
            JournalKeyError: sealed under a key that is not at hand.
            JournalDamagedError: the sealed bytes were changed, or belong to something else.
        """
        cipher = self._ciphers.get(sealed[:_ID_BYTES])
        if cipher is None:
            raise JournalKeyError(
                "a stored answer was sealed under a data key that is not at hand: "
                "set NIGHTSCREEN_DATA_KEY to the key this journal was written with"
            )
        nonce = sealed[_ID_BYTES : _ID_BYTES + _NONCE_BYTES]
        try:
            return cipher.decrypt(nonce, sealed[_ID_BYTES + _NONCE_BYTES :], context)
        except InvalidTag:
            raise JournalDamagedError(
                "a stored answer does not open under its key: the journal was changed or damaged; "
                "restore it from a backup"
            ) from None


@dataclass(frozen=True, slots=True)
class Pseudonyms:
    """Turns identifiers into keyed pseudonyms of sixteen bytes, always the same for the same one.

    The subject of a lookup is its kind and identity, not its check: a BVN has one pseudonym in
    karma and ecosystem alike, so that an auditor can follow one person.
    """

    key: bytes = field(repr=False)

    def subject(self, kind: str, identity: str, image_url: str | None = None) -> bytes:
        """Return the pseudonym of an identifier (of an identifier and an image for a selfie)."""
        text = (
            f"{kind}\x1f{identity}" if image_url is None else f"{kind}\x1f{identity}\x1f{image_url}"
        )
        return hmac.digest(self.key, text.encode(), "sha256")[:SUBJECT_BYTES]

    def customer(self, batch: str, customer_id: str) -> bytes:
        """Return the pseudonym of a lender's customer in a batch name."""
        text = f"customer\x1f{batch}\x1f{customer_id}"
        return hmac.digest(self.key, text.encode(), "sha256")[:SUBJECT_BYTES]


def digest_text(data: bytes) -> str:
    """Return `sha256:<hex>` of some bytes."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"
