"""Several API servers with TLS, as one process after another sees their files."""

import re
import ssl
from http.client import HTTPSConnection
from pathlib import Path

import pytest

from hookline_testing.server_process import serving
from hookline_testing.tls_files import TlsFiles, authority, write_pair

pytestmark = pytest.mark.slow

OPTIONS = (
    *("--port", "0", "--metrics-port", "0", "--executor", "simulated"),
    *("--num-kv-blocks", "512", "--api-server-count", "2", "--enable-ssl-refresh"),
    *("--ssl-cert-reqs", "2"),
)
CONNECTIONS = 4
"""Enough for both servers: each connection goes to the one with fewer."""


def ask(port: int, path: str, tls: ssl.SSLContext) -> tuple[int, bytes, object]:
    """Returns status and answer of a new connection, and its certificate's number."""
    connection = HTTPSConnection("localhost", port, context=tls, timeout=60)
    connection.request("GET", path)
    answer = connection.getresponse()
    certificate = connection.sock.getpeercert() if connection.sock else None
    body = answer.read()
    connection.close()
    return answer.status, body, (certificate or {}).get("serialNumber")


def test_all_servers_have_the_certificate_and_follow_it(
    files: TlsFiles, tmp_path: Path
) -> None:
    """
    Clients of the API need one, those of pages do not; a new one reaches all servers.
    """
    write_pair(authority().issue_cert("localhost"), tmp_path)
    paths = (
        f"--ssl-certfile={tmp_path}/chain.pem",
        f"--ssl-keyfile={tmp_path}/key.pem",
    )
    known = ssl.create_default_context(cafile=files.ca)
    known.load_cert_chain(files.client)
    unknown = ssl.create_default_context(cafile=files.ca)

    with serving(*OPTIONS, *paths, f"--ssl-ca-certs={files.ca}") as server:
        (pages,) = re.findall(r"metrics +https://127\.0\.0\.1:(\d+)/", server.banner)
        before = [ask(server.port, "/v1/models", known) for _ in range(CONNECTIONS)]
        with pytest.raises(OSError):  # noqa: PT011 - whichever end comes first
            ask(server.port, "/v1/models", unknown)
        page = ask(int(pages), "/metrics", unknown)
        health = ask(int(pages), "/health", unknown)
        write_pair(authority().issue_cert("localhost"), tmp_path)
        server.log_with("reloaded the certificate", count=2)
        after = [ask(server.port, "/v1/models", known) for _ in range(CONNECTIONS)]
        status = server.end()

    assert {each[0] for each in (*before, *after, page, health)} == {200}
    assert b"hookline_http_connections" in page[1]
    assert len({each[2] for each in before}) == len({each[2] for each in after}) == 1
    assert before[0][2] != after[0][2]
    assert status == 0
