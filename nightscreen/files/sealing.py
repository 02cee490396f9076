"""Sealing of data at rest, and the pseudonyms that replace identifiers.

Data are encrypted with AES-256-GCM under a data key. Sealed data hold the id of their key and are
bound to a `context`, so that a sealed answer cannot be moved to another person. Pseudonyms have
their own key, which never rotates. `journal.keyset` stores the data keys, `keys` the lender's key.
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
    from collections.abc import Callable, Iterable, Iterator, Sequence

_NONCE_BYTES = 12  # of AES-GCM
KEY_ID_BYTES = 4  # of a digest: enough for the few keys of a journal
SUBJECT_BYTES = 16  # of a digest: 128 bits, so that no two are equal by chance


def pieces_of(joined: bytes) -> list[bytes]:
    """Return the single pseudonyms of joined ones."""
    return [joined[at : at + SUBJECT_BYTES] for at in range(0, len(joined), SUBJECT_BYTES)]


def portions_of(joined: bytes, number: int) -> Iterator[list[bytes]]:
    """Yield the single pseudonyms of joined ones, so many at a time: each takes 60 bytes."""
    size = number * SUBJECT_BYTES
    for start in range(0, len(joined), size):
        yield pieces_of(joined[start : start + size])


def key_id(key: bytes) -> bytes:
    """Return the id of a key in sealed data, four bytes that reveal nothing about the key."""
    return hmac.digest(key, b"nightscreen key id", "sha256")[:KEY_ID_BYTES]


def fingerprint(key: bytes) -> str:
    """Return the fingerprint by which a journal recognises the lender's key."""
    return hmac.digest(key, b"nightscreen key fingerprint", "sha256").hex()


class Sealer:
    """Seals bytes under the newest data key; opens bytes sealed under any of them.

    Args:
        keys: data keys of 32 bytes each, the newest last.
        reread: returns the present keys in the same order; called if data were sealed under an
            unknown key, as after a rotation by another process.
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
        """Return key id, nonce and ciphertext, joined."""
        newest = self._newest
        nonce = os.urandom(_NONCE_BYTES)
        return newest + nonce + self._ciphers[newest].encrypt(nonce, plain, context)

    def open(self, sealed: bytes, context: bytes) -> bytes:
        """Return the plain bytes.

        Raises:
            JournalKeyError: sealed under an unknown key.
            JournalDamagedError: the sealed bytes were changed, or have another context.
        """
        sealed_by = sealed[:KEY_ID_BYTES]
        if sealed_by not in self._ciphers and self._reread is not None:
            self._take(self._reread())
        cipher = self._ciphers.get(sealed_by)
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
    """Makes keyed pseudonyms of sixteen bytes, always the same for the same identifier.

    They depend on kind and identity, not on the check: a BVN has the same pseudonym in karma and
    ecosystem, so that an auditor can follow one person.
    """

    key: bytes = field(repr=False)

    def subject(self, kind: str, identity: str, together_with: str | None = None) -> bytes:
        """Return the pseudonym of an identifier, or of two if a check asks by both."""
        return self._of(kind, identity, *([] if together_with is None else [together_with]))

    def subjects(self, kind: str, identities: Iterable[str]) -> bytes:
        """Return the joined pseudonyms of many identifiers of one kind, as in `subject`."""
        return b"".join(self._of(kind, identity) for identity in identities)

    def customer(self, batch: str, customer_id: str) -> bytes:
        """Return the pseudonym of a lender's customer in a batch name."""
        return self._of("customer", batch, customer_id)

    def customers(self, batch: str, customer_ids: Iterable[str]) -> bytes:
        """Return the joined pseudonyms of many customers, as in `customer`."""
        return b"".join(self._of("customer", batch, customer_id) for customer_id in customer_ids)

    def customers_anywhere(self, customer_ids: Iterable[str]) -> bytes:
        """Return the joined pseudonyms of a lender's customers that hold for all batch names.

        The same `customer_id` in two batches of a lender is the same customer.
        """
        return b"".join(self._of("customer anywhere", customer_id) for customer_id in customer_ids)

    def _of(self, *parts: str) -> bytes:
        return hmac.digest(self.key, "\x1f".join(parts).encode(), "sha256")[:SUBJECT_BYTES]
