"""Certificates for tests of TLS, in files."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import trustme


@dataclass(frozen=True)
class TlsFiles:
    """Files in PEM form.

    Attributes:
        ca: The authority that has signed the other certificates.
        chain: The server's certificate, for localhost and 127.0.0.1.
        key: Its key.
        client: A client's certificate, with its key.
    """

    ca: str
    chain: str
    key: str
    client: str


@cache
def authority() -> trustme.CA:
    """Returns this process's authority."""
    return trustme.CA()


def tls_files(folder: Path) -> TlsFiles:
    """Writes such files to a folder."""
    write_pair(authority().issue_cert("localhost", "127.0.0.1"), folder)
    authority().cert_pem.write_to_path(folder / "ca.pem")
    client = authority().issue_cert("client.example.org")
    client.private_key_and_cert_chain_pem.write_to_path(folder / "client.pem")
    names = ("ca.pem", "chain.pem", "key.pem", "client.pem")
    return TlsFiles(*(str(folder / name) for name in names))


def write_pair(leaf: trustme.LeafCert, folder: Path) -> None:
    """Writes a certificate to `chain.pem` and its key to `key.pem`."""
    leaf.cert_chain_pems[0].write_to_path(folder / "chain.pem")
    leaf.private_key_pem.write_to_path(folder / "key.pem")
