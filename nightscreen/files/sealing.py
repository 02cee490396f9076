"""Sealing of data at rest, and the pseudonyms that replace identifiers.

AES-256-GCM under a data key; each sealed text carries the id of its key and is bound to what it is
(its `context`), so that a sealed answer cannot be moved to another person. Pseudonyms have their
own key, which never rotates. `journal.keyset` keeps the data keys, `keys` the lender's key.
"""

from __future__ import annotations

import hmac
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from nightscreen.schemas.errors import JournalDamagedError, JournalKeyError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_NONCE_BYTES = 12  # what AES-GCM takes
KEY_ID_BYTES = 4  # of a digest: enough to tell the few keys of a journal apart
SUBJECT_BYTES = 16  # of a digest: 128 bits, so that no two are the same by chance


def pieces_of(joined: bytes) -> list[bytes]:
    """Return pseudonyms, each of them, that were made joined to one piece of bytes."""
    return [joined[at : at + SUBJECT_BYTES] for at in range(0, len(joined), SUBJECT_BYTES)]


def key_id(key: bytes) -> bytes:
    """Return the four bytes by which a sealed text names its key; they reveal nothing of it."""
    return hmac.digest(key, b"nightscreen key id", "sha256")[:KEY_ID_BYTES]


def fingerprint(key: bytes) -> str:
    """Return the text by which a journal recognises the lender's key."""
    return hmac.digest(key, b"nightscreen key fingerprint", "sha256").hex()


class Sealer:
    """Seals bytes under the newest data key; opens what any of them sealed.

    Args:
        keys: data keys of 32 bytes each, the newest last.
        reread: gives the keys there are by now, in the same order: it is called where something was
            sealed under a key that is not at hand, as after a rotation by another process.
    """

    def __init__(self, *keys: bytes, reread: Callable[[], Sequence[bytes]] | None = None) -> None:
        self._reread = reread
        self._ciphers: dict[bytes, AESGCM] = {}
        self._take(keys)

    def __repr__(self) -> str:
        return "Sealer(***)"

    def _take(self, keys: Sequence[bytes]) -> None:
        for key in keys:
            self._ciphers.setdefault(key_id(key), AESGCM(key))
            self._newest = key_id(key)

    def seal(self, plain: bytes | memoryview, context: bytes) -> bytes:
        """Return key id, nonce and ciphertext in one."""
        newest = self._newest
        nonce = os.urandom(_NONCE_BYTES)
        return newest + nonce + self._ciphers[newest].encrypt(nonce, plain, context)

    def open(self, sealed: bytes, context: bytes) -> bytes:
        """Return the plain bytes.

        Raises:
            JournalKeyError: sealed under a key that is not at hand.
            JournalDamagedError: the sealed bytes were changed, or belong to something else.
        """
        named = sealed[:KEY_ID_BYTES]
        if named not in self._ciphers and self._reread is not None:
            self._take(self._reread())
        cipher = self._ciphers.get(named)
        if cipher is None:
            raise JournalKeyError(
                "a stored answer was sealed under a data key that the journal does not have: "
                "restore the journal from a backup"
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
        return self._of(kind, identity, *([] if together_with is None else [together_with]))

    def subjects(self, kind: str, identities: Iterable[str]) -> bytes:
        """Return the pseudonyms of many identifiers of one kind, joined; the same as `subject`."""
        return b"".join(self._of(kind, identity) for identity in identities)

    def customer(self, batch: str, customer_id: str) -> bytes:
        """Return the pseudonym of a lender's customer in a batch name."""
        return self._of("customer", batch, customer_id)

    def customers(self, batch: str, customer_ids: Iterable[str]) -> bytes:
        """Return the pseudonyms of many customers, joined; the same as `customer`."""
        return b"".join(self._of("customer", batch, each) for each in customer_ids)

    def customers_anywhere(self, customer_ids: Iterable[str]) -> bytes:
        """Return the pseudonyms of a lender's customers, joined: one for all batch names.

        The same `customer_id` in two batches of a lender is the same customer.
        """
        return b"".join(self._of("customer anywhere", each) for each in customer_ids)

    def _of(self, *parts: str) -> bytes:
        return hmac.digest(self.key, "\x1f".join(parts).encode(), "sha256")[:SUBJECT_BYTES]
