"""Two servers with everything on, and clients of every kind: what dashboards show.

One server speculates and has so little room that requests wait, are refused and
preempted; the other keeps KV blocks in the host's memory. Prometheus sees them as two
pods in Kubernetes.
"""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from http import HTTPStatus
from http.client import HTTPConnection, HTTPResponse
from threading import Event

from hookline_testing.own_time import Deadline
from hookline_testing.prometheus_process import Prometheus
from hookline_testing.server_process import Server, serving

Body = dict[str, object]

COMMON = (
    "--port=0",
    "--log-level=error",
    "--metrics-dialect=hookline,vllm,sglang",
    "--show-hidden-metrics-for-version=0.0",
    "--kv-cache-metrics-sample=1",
    "--enable-sleep-mode",
    "--max-model-len=384",
    "--max-num-queued-reqs=24",
    "--slo=ttft=0.05,tpot=0.05,e2e=5",
)
PREFILL, DECODE = "hookline-prefill-0", "hookline-decode-0"
PODS = {
    PREFILL: (
        "--num-kv-blocks=40",
        "--max-num-seqs=8",
        '--speculative-config={"method": "ngram", "num_speculative_tokens": 3}',
    ),
    DECODE: (
        "--enable-lora",
        "--num-kv-blocks=64",
        '--kv-transfer-config={"kv_connector": "cpu_offload"}',
    ),
}
ASLEEP = 'hookline_engine_sleep_state{state="kv_cache_released"} == 1'
NAP_SECONDS = 60.0
COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"


@contextmanager
def loaded_pods() -> Iterator[dict[str, Server]]:
    """Servers by their pods' names, with clients until the end of the block."""
    done = Event()
    with ExitStack() as stack:
        pods = {
            pod: stack.enter_context(serving(*COMMON, *argv))
            for pod, argv in PODS.items()
        }
        work = [each for server in pods.values() for each in _work(server)]
        with ThreadPoolExecutor(len(work)) as pool:
            clients = [pool.submit(_repeat, done, ask) for ask in work]
            try:
                yield pods
            finally:
                done.set()
        for client in clients:
            client.result()


def scrape_config(pods: dict[str, Server]) -> dict[str, object]:
    """Prometheus's configuration, with the labels that Kubernetes would give."""
    targets = [
        {
            "targets": [f"127.0.0.1:{server.port}"],
            "labels": {"namespace": "serving", "service": "hookline", "pod": pod},
        }
        for pod, server in pods.items()
    ]
    return {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s"},
        "scrape_configs": [{"job_name": "hookline", "static_configs": targets}],
    }


def nap(pods: dict[str, Server], prometheus: Prometheus) -> None:
    """Puts an engine to sleep until Prometheus has seen it.

    Engines with a KV connector cannot sleep.
    """
    server = pods[PREFILL]
    status, _ = server.post("/sleep?level=1", {})
    assert status == HTTPStatus.OK
    deadline = Deadline(NAP_SECONDS)
    while not prometheus.values(ASLEEP):
        assert deadline.is_ahead, "Prometheus has not seen the sleep"
        time.sleep(0.2)
    status, _ = server.post("/wake_up", {})
    assert status == HTTPStatus.OK


def _work(server: Server) -> list[Callable[[int], None]]:
    """What the clients of a server ask for, again and again."""
    ask = partial(_ask, server)
    return [
        *[lambda number: ask(COMPLETIONS, _long(number))] * 5,
        lambda number: ask(COMPLETIONS, {**_long(number), "n": 3}),
        lambda number: ask(COMPLETIONS, {"prompt": f"x = {number}", "max_tokens": 8}),
        lambda number: ask(CHAT, _chat(number)),
        lambda number: _read(server, CHAT, _chat(number)),
        lambda number: _read(server, COMPLETIONS, _long(number)),
        lambda number: _leave(server, _long(number)),
        lambda _: ask(COMPLETIONS, {"prompt": "x", "max_tokens": "many"}),
        lambda _: ask(COMPLETIONS, {"prompt": "x" * 9999}),
        lambda _: ask(COMPLETIONS, {"prompt": ["x"] * 99}),  # more than may wait
        lambda number: ask(COMPLETIONS, _long(number), {"X-Request-Timeout": "0.001"}),
    ]


def _ask(
    server: Server, path: str, body: Body, headers: dict[str, str] | None = None
) -> None:
    """Asks for completions, whatever becomes of them."""
    server.post(path, {"model": "demo", **body}, headers)


def _read(server: Server, path: str, body: Body) -> None:
    connection, response = server.stream(
        path, {"model": "demo", "stream": True, **body}
    )
    response.read()
    connection.close()


def _leave(server: Server, body: Body) -> None:
    """Leaves after the first event of a stream."""
    connection, response = _stream(server, COMPLETIONS, body)
    response.readline()
    connection.close()


def _stream(
    server: Server, path: str, body: Body
) -> tuple[HTTPConnection, HTTPResponse]:
    return server.stream(path, {"model": "demo", "stream": True, **body})


def _long(number: int) -> Body:
    """A prompt that begins like every fourth one, and tokens enough to be preempted."""
    prefix = f"# file {number % 4}\n" + "import os\nimport sys\n" * 4
    return {
        "prompt": f"{prefix}def function_{number}(",
        "max_tokens": 96,
        "ignore_eos": True,
    }


def _chat(number: int) -> Body:
    message = {"role": "user", "content": f"Write function {number % 4}."}
    return {"messages": [message], "max_tokens": 24}


def _repeat(done: Event, ask: Callable[[int], None]) -> None:
    number = 0
    while not done.wait(0.1):
        ask(number)
        number += 1
