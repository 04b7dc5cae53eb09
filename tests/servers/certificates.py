"""Authorities and certificates that they have signed, as PEM files: for servers of
tests that speak TLS."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class Certificate:
    """A certificate and its key, in files."""

    certificate: Path
    key: Path


class Authority:
    """Signs certificates. `file` is its own, which those trust who trust it."""

    def __init__(self, directory: Path, name: str) -> None:
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        made = self._builder(self._name, self._key, datetime.now(UTC)).issuer_name(
            self._name
        )
        made = made.add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        usage = [name in ("key_cert_sign", "crl_sign") for name in _USAGES]
        made = made.add_extension(x509.KeyUsage(*usage), critical=True)
        self._own = made.add_extension(self._identifier(), critical=False).sign(
            self._key, hashes.SHA256()
        )
        self.file = directory / f"{name}.pem"
        self.file.write_bytes(self._own.public_bytes(serialization.Encoding.PEM))

    def sign(
        self, name: str, host: str = "127.0.0.1", now: datetime | None = None
    ) -> Certificate:
        """A certificate for an address, which is good for a day from `now` on."""
        key = ec.generate_private_key(ec.SECP256R1())
        made = self._builder(
            x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]),
            key,
            now or datetime.now(UTC),
        )
        made = made.issuer_name(self._name)
        alternatives = x509.SubjectAlternativeName([x509.IPAddress(ip_address(host))])
        made = made.add_extension(alternatives, critical=False)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(
            self._key.public_key()
        )
        signed = made.add_extension(issuer, critical=False).sign(
            self._key, hashes.SHA256()
        )
        found = Certificate(
            self._directory / f"{name}.pem", self._directory / f"{name}.key"
        )
        found.certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        found.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return found

    def _identifier(self) -> x509.SubjectKeyIdentifier:
        return x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime
    ) -> x509.CertificateBuilder:
        made = (
            x509.CertificateBuilder().subject_name(subject).public_key(key.public_key())
        )
        made = made.serial_number(x509.random_serial_number())
        return made.not_valid_before(now - timedelta(minutes=5)).not_valid_after(
            now + timedelta(days=1)
        )


_USAGES = (
    *(
        "digital_signature",
        "content_commitment",
        "key_encipherment",
        "data_encipherment",
        "key_agreement",
    ),
    *("key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
)


def server_context(
    own: Certificate, clients: Authority | None = None
) -> ssl.SSLContext:
    """How a server shows its certificate, and asks its clients for one that `clients`
    has signed."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own.certificate, own.key)
    if clients is not None:
        context.load_verify_locations(clients.file)
        context.verify_mode = ssl.CERT_REQUIRED
    return context
