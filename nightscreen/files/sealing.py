"""Sealing of data at rest, and the pseudonyms that replace identifiers.

AES-256-GCM under a data key; each sealed text carries the id of its key and is bound to what it is
(its `context`), so that a sealed answer cannot be moved to another person. Pseudonyms have their
own key, which never rotates. `keys` provides the keys.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from nightscreen.schemas.errors import JournalDamagedError, JournalKeyError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_NONCE_BYTES = 12
_HASH_BLOCK = 64
KEY_ID_BYTES = 4
SUBJECT_BYTES = 16


def pieces_of(joined: bytes) -> list[bytes]:
    """Return pseudonyms, each of them, that were made joined to one piece of bytes."""
    return [joined[at : at + SUBJECT_BYTES] for at in range(0, len(joined), SUBJECT_BYTES)]


def key_id(key: bytes) -> bytes:
    """Return the four bytes by which a sealed text names its key; they reveal nothing of it."""
    return hmac.digest(key, b"nightscreen key id", "sha256")[:KEY_ID_BYTES]


def fingerprint(key: bytes) -> str:
    """Return the text by which a journal recognises its data key."""
    return hmac.digest(key, b"nightscreen key fingerprint", "sha256").hex()


class Sealer:
    """Seals and opens bytes under a data key; opens also what other accepted keys sealed.

    Args:
        key: 32 bytes, used for sealing.
        older: keys that are accepted for opening too.
        seek: gives further keys where those at hand do not suffice, as while the key is rotated.
    """

    def __init__(
        self,
        key: bytes,
        older: tuple[bytes, ...] = (),
        *,
        seek: Callable[[Sealer], Iterable[bytes]] | None = None,
    ) -> None:
        self._seek = seek
        self._ciphers: dict[bytes, AESGCM] = {}
        self._keys: dict[str, bytes] = {}
        for known in (*older, key):
            self._accept(known)
        self._current = (fingerprint(key), key_id(key), self._ciphers[key_id(key)])

    def __repr__(self) -> str:
        return "Sealer(key=***)"

    @property
    def fingerprint(self) -> str:
        """Return the fingerprint of the key that is sealed under now."""
        return self._current[0]

    @property
    def key(self) -> bytes:
        """Return the key that is sealed under now."""
        return self._keys[self._current[0]]

    def _accept(self, key: bytes) -> None:
        self._ciphers[key_id(key)] = AESGCM(key)
        self._keys[fingerprint(key)] = key

    def _find_more(self) -> None:
        for found in self._seek(self) if self._seek is not None else ():
            self._accept(found)

    def key_of(self, wanted: str) -> bytes:
        """Return the key of a fingerprint.

        Raises:
            JournalKeyError: it is not at hand.
        """
        if wanted not in self._keys:
            self._find_more()
        if wanted not in self._keys:
            raise JournalKeyError(
                "the journal's data key was rotated and the new one is not at hand: set "
                "NIGHTSCREEN_DATA_KEY to it, then run again"
            )
        return self._keys[wanted]

    def switch(self, wanted: str) -> None:
        """Seal under the key of this fingerprint from now on; all keys at hand still open.

        Raises:
            JournalKeyError: the key is not at hand.
        """
        key = self.key_of(wanted)
        self._current = (wanted, key_id(key), self._ciphers[key_id(key)])

    def seal(self, plain: bytes | memoryview, context: bytes) -> bytes:
        """Return key id, nonce and ciphertext in one."""
        _, current, cipher = self._current
        nonce = os.urandom(_NONCE_BYTES)
        return current + nonce + cipher.encrypt(nonce, plain, context)

    def open(self, sealed: bytes, context: bytes) -> bytes:
        """Return the plain bytes.

        Raises:
            JournalKeyError: sealed under a key that is not at hand.
            JournalDamagedError: the sealed bytes were changed, or belong to something else.
        """
        if sealed[:KEY_ID_BYTES] not in self._ciphers:
            self._find_more()
        cipher = self._ciphers.get(sealed[:KEY_ID_BYTES])
        if cipher is None:
            raise JournalKeyError(
                "a stored answer was sealed under a data key that is not at hand: "
                "set NIGHTSCREEN_DATA_KEY to the key this journal was written with"
            )
        nonce = sealed[KEY_ID_BYTES : KEY_ID_BYTES + _NONCE_BYTES]
        try:
            return cipher.decrypt(nonce, sealed[KEY_ID_BYTES + _NONCE_BYTES :], context)
        except (InvalidTag, ValueError):
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

    def subject(self, kind: str, identity: str, together_with: str | None = None) -> bytes:
        """Return the pseudonym of an identifier (of two, where a check asks by both)."""
        text = (
            f"{kind}\x1f{identity}"
            if together_with is None
            else f"{kind}\x1f{identity}\x1f{together_with}"
        )
        return hmac.digest(self.key, text.encode(), "sha256")[:SUBJECT_BYTES]

    def subjects(self, kind: str, identities: Iterable[str]) -> bytes:
        """Return the pseudonyms of many identifiers of one kind, joined; the same as `subject`."""
        return b"".join(self._many(f"{kind}\x1f", identities))

    def customer(self, batch: str, customer_id: str) -> bytes:
        """Return the pseudonym of a lender's customer in a batch name."""
        text = f"customer\x1f{batch}\x1f{customer_id}"
        return hmac.digest(self.key, text.encode(), "sha256")[:SUBJECT_BYTES]

    def customers(self, batch: str, customer_ids: Iterable[str]) -> bytes:
        """Return the pseudonyms of many customers, joined; the same as `customer`."""
        return b"".join(self._many(f"customer\x1f{batch}\x1f", customer_ids))

    def customers_anywhere(self, customer_ids: Iterable[str]) -> bytes:
        """Return the pseudonyms of a lender's customers, joined: one for all batch names.

        The same `customer_id` in two batches of a lender is the same customer.
        """
        return b"".join(self._many("customer anywhere\x1f", customer_ids))

    def _many(self, beginning: str, texts: Iterable[str]) -> Iterator[bytes]:
        """Yield a pseudonym for each text, its key made ready once: twice as quick as `hmac`."""
        key = self.key.ljust(_HASH_BLOCK, b"\0")
        inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in key) + beginning.encode())
        outer = hashlib.sha256(bytes(byte ^ 0x5C for byte in key))
        for text in texts:
            within, around = inner.copy(), outer.copy()
            within.update(text.encode())
            around.update(within.digest())
            yield around.digest()[:SUBJECT_BYTES]
