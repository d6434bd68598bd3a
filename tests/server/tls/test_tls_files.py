"""TlsFiles of TLS: mistakes at the start, and changes while the server runs."""

import asyncio
import logging
import os
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from hookline.exceptions import ConfigError
from hookline_server.tls import certificates
from hookline_server.tls.certificates import Certificates
from hookline_server.tls.context import complaint, server_context
from hookline_server.tls.settings import TlsSettings
from hookline_testing.tls_files import TlsFiles, authority, write_pair

WAIT_SECONDS = 30.0


@pytest.fixture
def pair(tmp_path: Path) -> Path:
    """A folder with a certificate and its key."""
    write_pair(authority().issue_cert("localhost"), tmp_path)
    return tmp_path


def settings_of(folder: Path, **more: object) -> TlsSettings:
    chain, key = str(folder / "chain.pem"), str(folder / "key.pem")
    return TlsSettings(ssl_certfile=chain, ssl_keyfile=key, **more)  # type: ignore[arg-type]


def encrypted(pem: bytes) -> bytes:
    key = serialization.load_pem_private_key(pem, None)
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )


@pytest.mark.parametrize(
    ("file", "content", "expected"),
    [
        ("chain.pem", None, "ssl-certfile.*cannot read .*chain.pem: No such file"),
        ("chain.pem", b"rubbish", "ssl-certfile.*has no certificate in PEM form"),
        ("key.pem", None, "ssl-keyfile.*cannot read .*key.pem: No such file"),
        ("key.pem", b"rubbish", "ssl-keyfile.*has no private key in PEM form"),
        ("key.pem", "other", "the key in .*key.pem does not belong to the certificate"),
        ("key.pem", "encrypted", "the key in .*key.pem is encrypted"),
        (
            "key.pem",
            b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
            "ssl-keyfile.*cannot be used",
        ),
    ],
)
def test_a_bad_file_is_one_sentence(
    pair: Path,
    file: str,
    content: bytes | str | None,
    expected: str,
) -> None:
    """
    It names the option, the file, and what is wrong; nothing is asked at the terminal.
    """
    path = pair / file
    match content:
        case None:
            path.unlink()
        case "other":
            authority().issue_cert("other").private_key_pem.write_to_path(path)
        case "encrypted":
            path.write_bytes(encrypted(path.read_bytes()))
        case _:
            assert isinstance(content, bytes)
            path.write_bytes(content)

    with pytest.raises(ConfigError, match=expected) as raised:
        server_context(settings_of(pair))

    assert "\n" not in str(raised.value)


def test_one_file_may_hold_both(files: TlsFiles) -> None:
    """
    A certificate's file may hold its key; one without it says which option names it.
    """
    both = TlsSettings(ssl_certfile=files.client)

    assert server_context(both).minimum_version is ssl.TLSVersion.TLSv1_2
    with pytest.raises(ConfigError, match="--ssl-keyfile names its file"):
        server_context(TlsSettings(ssl_certfile=files.chain))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"ssl_keyfile": "key.pem"}, "requires ssl-certfile"),
        ({"enable_ssl_refresh": True}, "requires ssl-certfile"),
        ({"ssl_certfile": "a", "ssl_cert_reqs": 2}, "requires ssl-ca-certs"),
        ({"ssl_certfile": "a", "ssl_ca_certs": "b"}, "has no effect without"),
        ({"ssl_certfile": "a", "ssl_cert_reqs": 3}, "ssl-cert-reqs"),
    ],
)
def test_options_that_would_do_nothing_are_refused(
    options: dict[str, object], expected: str
) -> None:
    """
    Whoever names authorities expects that clients are checked.
    """
    with pytest.raises(ConfigError, match=expected):
        TlsSettings(**options)  # type: ignore[arg-type]


def test_authorities_and_ciphers_are_checked(files: TlsFiles, pair: Path) -> None:
    """
    Authorities that are none and ciphers that do not exist are refused.
    """
    key = str(pair / "key.pem")

    with pytest.raises(ConfigError, match=r"ssl-ca-certs.*no certificate"):
        server_context(settings_of(pair, ssl_ca_certs=key, ssl_cert_reqs=2))
    with pytest.raises(ConfigError, match=r"names no cipher of TLS 1\.2"):
        server_context(settings_of(pair, ssl_ciphers="NONSENSE"))
    chosen = server_context(
        settings_of(pair, ssl_ciphers="ECDHE-RSA-AES256-GCM-SHA384")
    )
    assert files.ca
    assert {each["name"] for each in chosen.get_ciphers()} >= {
        "ECDHE-RSA-AES256-GCM-SHA384"
    }


@pytest.mark.parametrize(("days", "expected"), [(1, None), (-1, "expired")])
def test_an_expired_certificate_is_a_warning(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    days: int,
    expected: str | None,
) -> None:
    """
    The server starts, and its log says what clients will say.
    """
    end = datetime.now(UTC) + timedelta(days=days)
    begin = end - timedelta(days=90)
    write_pair(
        authority().issue_cert("localhost", not_before=begin, not_after=end), tmp_path
    )
    settings = settings_of(tmp_path)

    Certificates(settings).warn()

    found = complaint(server_context(settings), str(tmp_path / "chain.pem"))
    assert (found is None) is (expected is None)
    assert ("has expired" in caplog.text) is (expected is not None)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificates, "REFRESH_SECONDS", 0.01)


async def changed(found: Certificates, before: ssl.SSLContext) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        while found.context(asks_clients=True) is before:  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.01)


async def logged(caplog: pytest.LogCaptureFixture, text: str) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        while text not in caplog.text:  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(0.01)


@pytest.mark.usefixtures("quick")
async def test_a_changed_file_is_followed_and_a_broken_one_is_not(
    pair: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """
    A broken file leaves the old certificate, and one line; the next good one is taken.
    """
    caplog.set_level(logging.INFO)
    found = Certificates(settings_of(pair, enable_ssl_refresh=True))
    first = found.context(asks_clients=True)
    following = asyncio.create_task(found.follow())

    (pair / "chain.pem").write_bytes(b"rubbish")
    await logged(caplog, "TLS goes on with the certificate that it had")
    kept = found.context(asks_clients=True)
    write_pair(authority().issue_cert("localhost"), pair)
    await changed(found, first)

    following.cancel()
    assert kept is first
    assert caplog.text.count("TLS goes on") == 1
    assert "reloaded the certificate" in caplog.text


@pytest.mark.usefixtures("quick")
async def test_a_folder_that_is_exchanged_by_its_link_is_followed(
    tmp_path: Path,
) -> None:
    """
    As Kubernetes does it: files are links into a linked folder, which is replaced.
    """
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        write_pair(authority().issue_cert("localhost"), folder)
    (tmp_path / "data").symlink_to("one")
    for name in ("chain.pem", "key.pem"):
        (tmp_path / name).symlink_to(f"data/{name}")
    found = Certificates(settings_of(tmp_path, enable_ssl_refresh=True))
    first = found.context(asks_clients=True)
    following = asyncio.create_task(found.follow())

    (tmp_path / "next").symlink_to("two")
    os.replace(tmp_path / "next", tmp_path / "data")  # noqa: PTH105 - a link, not its file

    await changed(found, first)
    following.cancel()


async def test_nothing_is_followed_unless_asked_for(pair: Path) -> None:
    """
    Without the option nobody looks at the files again.
    """
    await Certificates(settings_of(pair)).follow()
