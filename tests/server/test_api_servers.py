"""Several API servers on one port are one server to their clients."""

import json
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from hookline_testing.own_time import Deadline
from hookline_testing.server_process import Server, api_servers_of, serving
from hookline_testing.waiting import wait_until

pytestmark = pytest.mark.slow

OPTIONS = (
    *("--port", "0", "--executor", "simulated", "--api-server-count", "2"),
    *("--simulated-step-seconds", "0.005", "--num-kv-blocks", "512"),
    *("--heartbeat-seconds", "0.2", "--enable-sleep-mode"),
)
KEYS = """
keys:
  - name: free
    key: sk-free-0123456789
    scopes: [serve, metrics, admin]
  - name: limited
    key: sk-limited-0123456789
    limits: {requests_per_minute: 3}
"""
FREE, LIMITED = "sk-free-0123456789", "sk-limited-0123456789"
CLIENTS, ROUNDS = 8, 6


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    keys = tmp_path_factory.mktemp("keys") / "keys.yaml"
    keys.write_text(KEYS)
    with serving(*OPTIONS, "--api-keys", str(keys)) as started:
        yield started


@pytest.fixture
def clients(server: Server) -> Iterator[list[HTTPConnection]]:
    """Two connections, one to each server: each has the fewest in turn."""
    opened = [HTTPConnection("127.0.0.1", server.port, timeout=60) for _ in range(2)]
    for each in opened:
        each.connect()
        each.request("GET", "/health/live")
        each.getresponse().read()
    yield opened
    for each in opened:
        each.close()


def send(
    client: HTTPConnection,
    method: str,
    path: str,
    body: object = None,
    key: str = FREE,
) -> tuple[int, Any]:
    client.request(
        method,
        path,
        None if body is None else json.dumps(body),
        {"Authorization": f"Bearer {key}", "Content-Type": "application/json"},
    )
    answer = client.getresponse()
    text = answer.read()
    return answer.status, json.loads(text) if text else None


def metric(server: Server, name: str, **labels: str) -> float:
    _, text = server.get("/metrics", {"Authorization": f"Bearer {FREE}"})
    for line in text.splitlines():
        if line.startswith(f"{name}{{") and all(
            f'{key}="{value}"' in line for key, value in labels.items()
        ):
            return float(line.rsplit(" ", 1)[1])
    raise AssertionError(f"no {name} in /metrics")


def served_by(server: Server) -> set[str]:
    """The API servers that have logged a request for completions."""
    lines = server.log.read_text().splitlines()
    names = [f"process='API server {number}'" for number in (0, 1)]
    return {
        name
        for name in names
        if any(name in line and "/v1/completions" in line for line in lines)
    }


def stay_and_leave(server: Server, client: int) -> Counter[str]:
    """Streams requests one after another; every third is left after its first bytes."""
    seen: Counter[str] = Counter()
    for number in range(ROUNDS):
        body = {
            "model": "demo",
            "prompt": [5 + client, 6 + number],
            "max_tokens": 40,
            "ignore_eos": True,
            "stream": True,
        }
        connection = HTTPConnection("127.0.0.1", server.port, timeout=60)
        headers = {"Authorization": f"Bearer {FREE}"}
        connection.request("POST", "/v1/completions", json.dumps(body), headers)
        answer = connection.getresponse()
        if number % 3 == 2:
            answer.read(20)
            seen["abort"] += 1
        else:
            assert answer.read().endswith(b"data: [DONE]\n\n")
            seen["length"] += 1
        connection.close()
    return seen


def test_sums_are_what_clients_saw(server: Server) -> None:
    """Of requests at both servers, of which some were left by their clients."""
    with ThreadPoolExecutor(CLIENTS) as pool:
        parts = list(pool.map(lambda n: stay_and_leave(server, n), range(CLIENTS)))
    seen = sum(parts, Counter[str]())
    deadline = Deadline(60)
    name = "hookline_requests_finished_total"
    while (
        sum(metric(server, name, reason=reason) for reason in seen) < seen.total()
        or metric(server, "hookline_requests_running") > 0
    ):
        assert deadline.is_ahead
        time.sleep(0.1)

    found = {reason: metric(server, name, reason=reason) for reason in seen}
    assert found == dict(seen)
    assert metric(server, "hookline_requests_received_total") == seen.total()
    assert metric(server, "hookline_conservation_residue", kind="requests") == 0
    assert metric(server, "hookline_request_e2e_seconds_count") == seen.total()
    prompts = metric(server, "hookline_prompt_tokens_total", source="computed")
    assert prompts == 2 * seen.total()
    assert served_by(server) == {f"process='API server {n}'" for n in (0, 1)}


def test_a_response_is_continued_at_another_server(
    clients: list[HTTPConnection],
) -> None:
    """It is read and deleted there, too."""
    one, other = clients
    body = {"model": "demo", "input": "Hello", "max_output_tokens": 16}
    _, first = send(one, "POST", "/v1/responses", body)
    next_body = body | {"previous_response_id": first["id"]}
    status, second = send(other, "POST", "/v1/responses", next_body)
    path = f"/v1/responses/{first['id']}"
    read = send(other, "GET", path)[1]
    deleted = send(other, "DELETE", path)[0]

    assert status == 200
    assert second["previous_response_id"] == first["id"]
    assert read == first
    assert deleted == 200
    assert send(one, "GET", path)[0] == 404


def test_a_keys_limit_is_that_of_all_servers(clients: list[HTTPConnection]) -> None:
    """Three requests in a minute, at whichever server."""
    body = {"model": "demo", "prompt": [5, 6], "max_tokens": 1}

    statuses = [
        send(clients[number % 2], "POST", "/v1/completions", body, LIMITED)[0]
        for number in range(5)
    ]

    assert statuses == [200, 200, 200, 429, 429]


def test_engines_sleep_for_all_servers(clients: list[HTTPConnection]) -> None:
    """And wake up, at the command of any; the others get the news, too."""
    one, other = clients

    def readiness() -> list[int]:
        return [send(each, "GET", "/health/ready")[0] for each in clients]

    asleep = send(one, "POST", "/sleep")[0]
    wait_until(lambda: readiness() == [503, 503], "not all servers know of the sleep")
    awake = send(other, "POST", "/wake_up")[0]
    wait_until(lambda: readiness() == [200, 200], "not all know of the end of it")

    assert (asleep, awake) == (200, 200)


def test_load_counts_the_streams_of_all(
    server: Server, clients: list[HTTPConnection]
) -> None:
    """Two streams, one at each server, are two at both."""
    body = {
        "model": "demo",
        "prompt": [5, 6],
        "max_tokens": 2000,
        "ignore_eos": True,
        "stream": True,
    }
    headers = {"Authorization": f"Bearer {FREE}"}
    streams = []
    for each in clients:
        each.request("POST", "/v1/completions", json.dumps(body), headers)
        streams.append(each.getresponse())

    _, text = server.get("/load", headers)

    assert json.loads(text) == {"server_load": 2}


def test_a_signal_drains_all_servers() -> None:
    """Open requests of both are served to their ends, and the exit status is 0."""
    with serving(*OPTIONS) as server, ThreadPoolExecutor(4) as pool:
        servers = api_servers_of(server.process.pid)
        body = {"model": "demo", "prompt": [5, 6], "max_tokens": 600}
        sent = [
            pool.submit(server.post, "/v1/completions", body | {"ignore_eos": True})
            for _ in range(4)
        ]
        server.wait_for("hookline_requests_running", 4)
        status = server.end()

    assert status == 0
    assert [each.result()[0] for each in sent] == [200] * 4
    assert len(servers) == 2
    assert not any(Path(f"/proc/{each}").exists() for each in servers)
