"""A certificate authority for tests."""

from __future__ import annotations

import datetime as dt
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Authority:
    """An authority that issues certificates for 127.0.0.1."""

    def __init__(self, name: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        self._own = self._issued(self._name, self._key, is_authority=True)

    def write(self, file: Path) -> Path:
        """Write the certificate of the authority."""
        file.write_bytes(self._own.public_bytes(serialization.Encoding.PEM))
        return file

    def issue(self, file: Path, name: str) -> Path:
        """Write a new certificate and its key into one file."""
        key = ec.generate_private_key(ec.SECP256R1())
        plain = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        file.write_bytes(self._issued(_named(name), key).public_bytes(serialization.Encoding.PEM) + plain)
        return file

    def _issued(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, *, is_authority: bool = False) -> x509.Certificate:
        now = dt.datetime.now(dt.UTC)
        addresses = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(days=1))
            .not_valid_after(now + dt.timedelta(days=1))
            .add_extension(addresses, critical=False)
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
