"""A client's bytes cannot forge lines of the log, nor can its key be read there."""

import socket

from hookline_testing.server_process import Server, serving

ARGUMENTS = ("--port", "0", "--executor", "simulated", "--num-kv-blocks", "256")


def send_raw(server: Server, data: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as raw:
        raw.sendall(data)
        raw.shutdown(socket.SHUT_WR)
        answer = b""
        while received := raw.recv(65536):
            answer += received
        return answer


def test_no_client_forges_lines_or_leaks_its_key() -> None:
    """Line ends, terminal controls and keys of requests do not appear in the log."""
    with serving(*ARGUMENTS, "--log-level", "debug") as server:
        server.get("/x%0aFAKE%20ERROR%1b%5b31m%c2%9b")
        send_raw(server, b"GET /a\x1b[31mb HTTP/1.1\r\nHost: localhost\r\n\r\n")
        send_raw(
            server,
            b"GET / HTTP/1.1\r\nHost: localhost\r\n"
            b"Authorization: Bearer secret-of-a-client\r\nbad header\x01: \x00\r\n\r\n",
        )
        server.end()
        log = server.log.read_text()

    assert "secret-of-a-client" not in log
    assert not [line for line in log.splitlines() if line.startswith("FAKE")]
    assert all(line.isprintable() for line in log.split("\n"))
