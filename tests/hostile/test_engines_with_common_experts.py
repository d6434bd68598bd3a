"""Engines that share experts end, are replaced and sleep together.

Their number is fixed.
"""

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from hookline_testing.oracle import make_oracle
from hookline_testing.own_time import Deadline
from hookline_testing.server_process import Server, engines_of, serving

pytestmark = pytest.mark.hostile

BODY = {"model": "demo", "prompt": [5, 6, 7], "temperature": 0, "ignore_eos": True}
LONG = 150
RANKS = (0, 1, 0, 1)
"""The engines of a burst; its requests run one after another on each."""
DEADLINE = 90.0


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    folder: Path = tmp_path_factory.mktemp("qwen3-moe")
    make_oracle("qwen3-moe", folder)
    return (
        *("--model", str(folder), "--served-model-name", "demo", "--port", "0"),
        *("--data-parallel-size", "2", "--enable-expert-parallel", "--threads", "1"),
        *("--kv-cache-memory", "4MiB", "--heartbeat-seconds", "0.2"),
        *("--max-model-len", "250", "--max-num-seqs", "1"),
        *("--enable-sleep-mode", "--enable-scaling"),
    )


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(len(RANKS)) as made:
        yield made


def ask(server: Server, max_tokens: int, rank: int) -> tuple[int, Any]:
    headers = {"X-data-parallel-rank": str(rank)}
    return server.post("/v1/completions", BODY | {"max_tokens": max_tokens}, headers)


def text_of(answer: tuple[int, Any]) -> str:
    status, body = answer
    assert status == 200, body
    text: str = body["choices"][0]["text"]
    return text


def wait_until_ready(server: Server) -> None:
    deadline = Deadline(DEADLINE)
    while server.get("/health/ready")[0] != 200:
        assert deadline.is_ahead, "the engines were not replaced"
        time.sleep(0.1)


def send_to_both(pool: ThreadPoolExecutor, server: Server) -> list[Future[Any]]:
    sent = [pool.submit(ask, server, LONG, rank) for rank in RANKS]
    for index in "01":
        server.wait_for_any("hookline_requests_running", engine=index)
    return sent


@pytest.mark.exhaustive
def test_all_are_replaced_or_end_together(
    options: tuple[str, ...], pool: ThreadPoolExecutor
) -> None:
    """
    Once they are replaced: requests of which nobody has got anything begin again, and
    answers are as before. Then they end: both say why, requests get an error, and no
    process is left.
    """
    with serving(*options, "--engine-restart", "1") as server:
        expected = text_of(ask(server, LONG, 0))
        before = engines_of(server.process.pid)
        sent = send_to_both(pool, server)
        os.kill(before[0], signal.SIGKILL)
        found = [text_of(each.result(DEADLINE)) for each in sent]
        wait_until_ready(server)
        name = "hookline_engine_restarts_total"
        causes = [
            server.metric(name, engine=index, reason=reason)
            for index, reason in (("0", "exited"), ("1", "peer"))
        ]
        pids = engines_of(server.process.pid)
        sent = send_to_both(pool, server)
        os.kill(pids[1], signal.SIGKILL)
        statuses = [each.result(DEADLINE)[0] for each in sent]
        health, _ = server.get("/health/deep")
        scaled = server.post("/scale", {"data_parallel_size": 3})

        assert found == [expected] * len(RANKS)
        assert causes == [1, 1]
        assert not {*pids.values()} & {*before.values()}
        assert statuses == [503] * len(RANKS)
        assert health == 503
        assert scaled[0] in {409, 503}
        server.log_with(
            "engine 0 has ended: engine 1, which shares its experts, has ended"
        )
        for pid in pids.values():
            assert not Path(f"/proc/{pid}").exists()


@pytest.mark.exhaustive
def test_all_sleep_together(options: tuple[str, ...], pool: ThreadPoolExecutor) -> None:
    """Not before the last request has ended; answers are as before afterwards."""
    with serving(*options) as server:
        expected = text_of(ask(server, LONG, 1))
        for level in (1, 2):
            sent = send_to_both(pool, server)
            slept = server.post(f"/sleep?level={level}&mode=wait", {})
            found = [text_of(each.result(DEADLINE)) for each in sent]
            woken = server.post("/wake_up", {})
            again = text_of(ask(server, LONG, 0))

            assert (slept[0], woken[0]) == (200, 200)
            assert [*found, again] == [expected] * (len(RANKS) + 1)
        status, answer = server.post("/scale", {"data_parallel_size": 3})

        assert status == 409
        assert answer["error"]["param"] == "enable-expert-parallel"
