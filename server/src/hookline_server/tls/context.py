"""Makes a server's TLS context of its files, with one clear error for each mistake."""

import ssl
from pathlib import Path

from hookline.exceptions import ConfigError
from hookline_server.tls.settings import TlsSettings

_CERTIFICATE = "-----BEGIN CERTIFICATE-----"
_KEY = "PRIVATE KEY-----"
_ENCRYPTED = ("-----BEGIN ENCRYPTED PRIVATE KEY-----", "Proc-Type: 4,ENCRYPTED")
_MOST_BYTES = 16 * 1024 * 1024
_ROUNDS = 4
"""Flights of a handshake, and one more."""


def server_context(
    settings: TlsSettings, *, asks_clients: bool = True
) -> ssl.SSLContext:
    """Returns a context for TLS 1.2 and later.

    Args:
        settings: Settings with a certificate.
        asks_clients: Whether clients' certificates are asked for as the settings say.

    Raises:
        ConfigError: A file cannot be read or does not fit, or there is no such cipher.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    context.set_alpn_protocols(["http/1.1"])
    if settings.ssl_ciphers is not None:
        try:
            context.set_ciphers(settings.ssl_ciphers)
        except ssl.SSLError as error:
            text = f"{settings.ssl_ciphers!r} names no cipher of TLS 1.2"
            raise ConfigError("ssl-ciphers", text) from error
    _load_certificate(context, settings)
    if asks_clients and settings.ssl_ca_certs is not None:
        _load_authorities(context, settings.ssl_ca_certs)
        context.verify_mode = ssl.VerifyMode(settings.ssl_cert_reqs)
    return context


def complaint(context: ssl.SSLContext, certfile: str) -> str | None:
    """Returns why clients will refuse a certificate that could be loaded, if known.

    A client that trusts nothing but this file judges it in a handshake in memory: so it
    says what real clients will, such as that the certificate has expired.
    """
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        client.load_verify_locations(certfile)
    except OSError:  # it has just been replaced
        return None
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(to_client, to_server)
    theirs = context.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(_ROUNDS):
        for end in (ours, theirs):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLCertVerificationError as error:
                return error.verify_message
            except ssl.SSLError:  # a certificate that was asked for, and is not there
                return None
    return None


def _load_certificate(context: ssl.SSLContext, settings: TlsSettings) -> None:
    certfile, keyfile = settings.ssl_certfile, settings.ssl_keyfile
    assert certfile is not None
    if _CERTIFICATE not in _text("ssl-certfile", certfile):
        raise ConfigError("ssl-certfile", f"{certfile} has no certificate in PEM form")
    flag, file = ("ssl-certfile", certfile)
    if keyfile is not None:
        flag, file = ("ssl-keyfile", keyfile)
    key = _text(flag, file)
    if any(mark in key for mark in _ENCRYPTED):
        raise ConfigError(
            flag, f"the key in {file} is encrypted: store it without a passphrase"
        )
    if _KEY not in key:
        hint = "" if keyfile is not None else "; --ssl-keyfile names its file"
        raise ConfigError(flag, f"{file} has no private key in PEM form{hint}")
    try:
        # Without a password OpenSSL would ask for one at the terminal.
        context.load_cert_chain(certfile, keyfile, password="")
    except OSError as error:
        text = f"{certfile} and {file} cannot be used: {_reason(error)}"
        if isinstance(error, ssl.SSLError) and error.reason == "KEY_VALUES_MISMATCH":
            text = f"the key in {file} does not belong to the certificate in {certfile}"
        raise ConfigError(flag, text) from error


def _load_authorities(context: ssl.SSLContext, file: str) -> None:
    if _CERTIFICATE not in _text("ssl-ca-certs", file):
        raise ConfigError("ssl-ca-certs", f"{file} has no certificate in PEM form")
    try:
        context.load_verify_locations(file)
    except OSError as error:  # `ssl.SSLError` is one
        text = f"{file} cannot be used: {_reason(error)}"
        raise ConfigError("ssl-ca-certs", text) from error


def _text(flag: str, file: str) -> str:
    try:
        with Path(file).open("rb") as opened:
            return opened.read(_MOST_BYTES).decode(errors="replace")
    except OSError as error:
        raise ConfigError(flag, f"cannot read {file}: {error.strerror}") from error


def _reason(error: OSError) -> str:
    if not isinstance(error, ssl.SSLError):
        return error.strerror or str(error)
    reason: str | None = error.reason
    return reason.replace("_", " ").lower() if reason else "it is malformed"
