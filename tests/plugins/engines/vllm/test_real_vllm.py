"""Attached to a real vLLM: its numbers, ours, and the truth of the clients.

`make test-vllm VENV=FOLDER` runs it on the vLLM that is installed in FOLDER.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from hookline_testing.vllm_server import VllmServer, vllm_serving
from hookline_testing.waiting import wait_until

pytestmark = pytest.mark.vllm
MAX_TOKENS = 16
HARM = """
import threading
from hookline import hookimpl

class Raising:
    def __init__(self, context): pass
    @hookimpl
    def state_changed(self, state): raise RuntimeError("no")

class Hanging:
    def __init__(self, context): pass
    @hookimpl
    def state_changed(self, state): threading.Event().wait()
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmServer]:
    """A server whose loggers are ours, one that raises and one that hangs."""
    folder = tmp_path_factory.mktemp("vllm")
    (folder / "harm.py").write_text(HARM)
    with vllm_serving(
        folder,
        VLLM_PLUGINS="hookline",
        HOOKLINE_STAT_LOGGERS="prometheus,insight,live,harm:Raising,harm:Hanging",
    ) as made:
        yield made


def test_numbers_are_the_clients_truth(server: VllmServer) -> None:
    """vLLM counts no client that has left; what else differs would be a mistake."""
    with ThreadPoolExecutor(8) as pool:
        whole = list(pool.map(lambda n: server.ask(n, tokens=MAX_TOKENS), range(22)))
    left = [server.ask(22 + n, tokens=400, reads=6) for n in range(2)]
    _, several = server.post(
        "/v1/completions",
        {
            "model": "tiny",
            "prompt": "def several(",
            "max_tokens": 4,
            "n": 3,
            "ignore_eos": True,
        },
    )

    def is_told() -> bool:
        found = server.figures()
        return found["hookline_requests_finished_total{abort}"] == 2

    wait_until(is_told, "the requests do not end")
    ours, theirs = server.figures(), server.figures("/metrics")
    finished, success = "hookline_requests_finished_total", "vllm:request_success_total"
    tokens, usage = sum(whole), several["usage"]
    prompts = ours["hookline_prompt_tokens_total"]
    table: Sequence[tuple[str, float | None, float, float | None]] = [
        ("requests", None, ours["hookline_requests_received_total"], 24 + 3),
        ("length", theirs[f"{success}{{length}}"], ours[f"{finished}{{length}}"], 25),
        ("abort", theirs[f"{success}{{abort}}"], ours[f"{finished}{{abort}}"], 2),
        ("running", theirs["vllm:num_requests_running"], _running(ours), 0),
        ("prompts", theirs["vllm:prompt_tokens_total"], prompts, None),
        (
            "tokens",
            theirs["vllm:generation_tokens_total"],
            ours["hookline_generation_tokens_total"],
            None,
        ),
        (
            "first tokens",
            theirs["vllm:time_to_first_token_seconds_count"],
            ours["hookline_time_to_first_token_seconds_count"],
            24 + 3,
        ),
        (
            "preemptions",
            theirs["vllm:num_preemptions_total"],
            ours["hookline_preemptions_total"],
            0,
        ),
    ]
    for row in table:
        print(*row, sep="\t")  # noqa: T201 - the table
    assert tokens == 22 * MAX_TOKENS
    assert usage["completion_tokens"] == 12
    faults = {"abort"}
    for name, told, own, true in table:
        assert true is None or own == true, name
        assert told is None or name in faults or told == own, name
    assert theirs[f"{success}{{abort}}"] == 0  # vLLM's fault
    generated = ours["hookline_generation_tokens_total"]
    assert generated >= tokens + 12 + sum(left)
    assert server.is_ready()


def _running(figures: object) -> float:
    assert isinstance(figures, dict)
    return float(figures["hookline_requests_running"])


def test_what_nothing_tells_is_absent(server: VllmServer) -> None:
    """A 0 would say that there were no steps, drafts or tokens computed again."""
    names = server.figures()

    assert names["hookline_request_queue_seconds_count"] > 0
    for part in ("_step_", "spec_decode", "recomputed", "kv_transfer", "bound_ratio"):
        assert not [name for name in names if part in name]


def test_slow_request_is_explained(server: VllmServer) -> None:
    """The steps of the engine's process are in the flight recorder's ring."""
    server.ask(50, tokens=MAX_TOKENS)

    for prefix in ("/hookline", ""):
        status, text = server.get(f"{prefix}/why/cmpl-r-50-0")

        assert status == 200
        assert f"({MAX_TOKENS} tokens)" in text
        assert "prefill" in text
    assert server.get("/live/")[0] == 200
