"""The sender of HPKE (RFC 9180, base mode, X25519, HKDF-SHA256, AES-128-GCM), written down once more from the RFC.

`cryptography` draws the ephemeral key itself. Vectors need a fixed one; and what two implementations agree on is
HPKE, not one library's idea of it.
"""

import hmac
from hashlib import sha256

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_KEM, _SUITE = b"KEM" + b"\x00\x20", b"HPKE" + b"\x00\x20" + b"\x00\x01" + b"\x00\x01"


def _extract(suite: bytes, salt: bytes, label: bytes, material: bytes) -> bytes:
    return hmac.digest(salt or bytes(32), b"HPKE-v1" + suite + label + material, "sha256")


def _expand(suite: bytes, key: bytes, label: bytes, info: bytes, length: int) -> bytes:
    told, out, block, count = length.to_bytes(2) + b"HPKE-v1" + suite + label + info, b"", b"", 1
    while len(out) < length:
        block = hmac.digest(key, block + told + bytes([count]), sha256)
        out, count = out + block, count + 1
    return out[:length]


def sealed_by_hand(ephemeral: bytes, public: bytes, info: bytes, plaintext: bytes, aad: bytes = b"") -> bytes:
    """The encapsulated key and the ciphertext of the first message of a context, with this ephemeral private key."""
    own = X25519PrivateKey.from_private_bytes(ephemeral)
    encapsulated = own.public_key().public_bytes_raw()
    shared = own.exchange(X25519PublicKey.from_public_bytes(public))
    secret = _expand(_KEM, _extract(_KEM, b"", b"eae_prk", shared), b"shared_secret", encapsulated + public, 32)
    context = b"\0" + _extract(_SUITE, b"", b"psk_id_hash", b"") + _extract(_SUITE, b"", b"info_hash", info)
    schedule = _extract(_SUITE, secret, b"secret", b"")
    key, nonce = _expand(_SUITE, schedule, b"key", context, 16), _expand(_SUITE, schedule, b"base_nonce", context, 12)
    return encapsulated + AESGCM(key).encrypt(nonce, plaintext, aad)
