"""However its processes are arranged, a server tells its loggers the same at once."""

import re
import signal
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from hookline_testing.headless_process import headless
from hookline_testing.server_process import Server, serving
from hookline_testing.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

TUTORIAL = Path(__file__).parents[2] / "docs" / "write-a-plugin.md"
OPTIONS = (
    *("--port", "0", "--executor", "simulated", "--simulated-step-seconds", "0.002"),
    *("--num-kv-blocks", "256", "--stat-logger", "hookline_receipts:Receipts"),
    # However busy this machine is, no page may be old.
    *("--page-wait-seconds", "20"),
)
ROLES = {"engine-0", "text"}
TOPOLOGIES: dict[str, tuple[Sequence[str], set[str]]] = {
    "one process": ((), {"api-0"}),
    "observer process": (("--observer-process",), {"api-0", "observer"}),
    "several API servers": (
        ("--api-server-count", "2"),
        {"parent", "api-0", "api-1", "observer"},
    ),
    "several engines": (("--data-parallel-size", "2"), {"api-0", "engine-1"}),
    "another machine": (
        ("--data-parallel-size", "2", "--data-parallel-size-local", "1"),
        {"api-0", "engine-1"},
    ),
}
"""Their options, and the roles of processes beside those that all have."""
ROUNDS = 5
BODY = {"model": "demo", "prompt": "def add(a, b):", "ignore_eos": True}
RECEIPT = re.compile(r"^(\w+, \d+ tokens), TTFT \d+\.\d+ s$", re.MULTILINE)
FAMILIES = (
    *("hookline_process_resident_memory_bytes", "hookline_process_cpu_seconds_total"),
    *("hookline_process_open_fds", "hookline_process_threads"),
    "hookline_process_start_time_seconds",
)


@contextmanager
def arranged(name: str, folder: Path) -> Iterator[Server]:
    """A server with the logger of the tutorial, as the tutorial shows it."""
    source = re.findall(
        r"^```python\n(.*?)^```$", TUTORIAL.read_text(), re.MULTILINE | re.DOTALL
    )[0]
    (folder / "hookline_receipts.py").write_text(source)
    options, _ = TOPOLOGIES[name]
    variables = {"PYTHONPATH": str(folder)}
    with ExitStack() as stack:
        if name == "another machine":
            secret = folder / "secret"
            secret.write_text("a secret for this test only\n")
            variables["HOOKLINE_DATA_PARALLEL_SECRET"] = secret.read_text()
            link = (
                *("--data-parallel-address", "127.0.0.1"),
                *("--data-parallel-rpc-port", str(free_port())),
            )
            node = (
                *("--data-parallel-start-rank", "1"),
                *("--data-parallel-secret-file", str(secret)),
            )
            engines = (*OPTIONS[2:8], *options, *link)
            stack.enter_context(headless(*engines, *node))
            options = (*options, *link)
        yield stack.enter_context(serving(*OPTIONS, *options, environment=variables))


def free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def ask(server: Server, number: int) -> str:
    """Sends one of several kinds of requests; returns the receipt that it gets."""
    body = BODY | {"max_tokens": 3 + number}
    kind = number % 4
    if kind == 0:
        connection, answer = server.stream("/v1/completions", body | {"stream": True})
        with closing(connection):
            assert answer.read().endswith(b"data: [DONE]\n\n")
    elif kind == 1:  # the engine hears of its end from the front end
        _, whole = server.post("/v1/completions", body | {"max_tokens": 200})
        stop = whole["choices"][0]["text"][1:2]
        _, answered = server.post(
            "/v1/completions", body | {"max_tokens": 200, "stop": stop}
        )
        assert answered["choices"][0]["finish_reason"] == "stop"
        return "stop"
    else:
        status, answered = server.post("/v1/completions", body)
        assert status == 200, answered
    return f"length, {body['max_tokens']} tokens"


def numbers(server: Server) -> tuple[float, float, float]:
    """Requests that finished, HTTP requests answered, and the age of the page."""
    _, page = server.get("/metrics")

    def total(start: str) -> float:
        lines = [line for line in page.splitlines() if line.startswith(start)]
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines)

    return (
        total("hookline_requests_finished_total{"),
        total('hookline_http_requests_total{method="POST"'),
        total("hookline_page_behind_seconds"),
    )


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_loggers_get_the_same_at_once(name: str, tmp_path: Path) -> None:
    """
    A page that is read right after an answer has it, each of many times; every process
    is measured by its role; and the tutorial's logger prints each receipt once.
    """
    _, more = TOPOLOGIES[name]
    expected, missing, sent = [], [], 0
    with arranged(name, tmp_path) as server:
        for number in range(4 * ROUNDS):
            receipt = ask(server, number)
            if receipt == "stop":
                expected.append("length, 200 tokens")
                sent += 1
            sent += 1
            expected.append(receipt)
            if (found := numbers(server)) != (sent, sent, 0):
                missing.append((number, found))
        for role in ROLES | more:
            server.wait_for_any("hookline_processes", role=role)
        for role in ROLES | more:
            for family in FAMILIES:
                assert server.metric(family, role=role) > 0, (family, role)
        server.end(signal.SIGTERM)
        wait_until(
            lambda: len(RECEIPT.findall(server.log.read_text())) >= sent,
            "receipts are missing",
        )
        receipts = RECEIPT.findall(server.log.read_text())

    assert missing == []
    stops = [each for each in receipts if each.startswith("stop, ")]
    others = [each for each in receipts if each not in stops]
    assert sorted(others) == sorted(each for each in expected if each != "stop")
    assert len(stops) == expected.count("stop") == ROUNDS
