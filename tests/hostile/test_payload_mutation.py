"""A proposer and a connector that try to change what the engine shows them."""

import json
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from hookline_testing.plugin_site import PluginSite
from hookline_testing.server_process import Server, serving

pytestmark = pytest.mark.hostile

SPOILING = """
def spoil(*attempts):
    failures = []
    for attempt in attempts:
        try:
            attempt()
        except Exception as error:
            failures.append(error)
    if failures:
        raise failures[0]
"""

PROPOSER = (
    SPOILING
    + """
from hookline import hookimpl
from hookline_drafting import Drafts, ProposerCapabilities


def write(array):
    array.flags.writeable = True
    array[:] = 7


def write_base(array):
    base = array.base
    while base is not None:
        try:
            write(base)
        except AttributeError:
            memoryview(base).cast("B")[:] = bytes(memoryview(base).nbytes)
        base = getattr(base, "base", None)


class Spoiling:
    capabilities = ProposerCapabilities()

    def propose(self, requests):
        seen = [each.token_ids for each in requests]
        spoil(
            *(lambda seen=each: write(seen) for each in seen),
            *(lambda seen=each: write_base(seen) for each in seen),
            *(lambda each=each: each.params.logit_bias.update({5: 50.0})
              for each in requests),
            lambda: requests.clear(),
        )
        return [Drafts(token_ids=[]) for _ in seen]

    def release(self, request_ids):
        request_ids.clear()


@hookimpl
def create_proposer(context):
    return Spoiling()
"""
)

CONNECTOR = (
    SPOILING
    + """
from hookline import hookimpl
from hookline_kv_transfer import SchedulerCapabilities
from hookline_testing.idle_connector import IdleWorkerSide


def spoil_request(request):
    spoil(
        lambda: request.token_ids.clear(),
        lambda: request.block_hashes.clear(),
        lambda: request.facts.trace_context.update({"traceparent": "x"}),
        lambda: request.kv_transfer_params.clear(),
    )


class Scheduler:
    capabilities = SchedulerCapabilities()

    def register_kv_layout(self, layout):
        pass

    def get_num_new_matched_tokens(self, request, num_computed_tokens):
        spoil_request(request)
        return 0, False

    def update_state_after_alloc(self, request, load):
        spoil_request(request)

    def build_connector_meta(self, step):
        spoil(
            lambda: step.written.clear(),
            lambda: step.evicted.clear(),
            lambda: step.cancelled.clear(),
        )

    def request_finished(self, request, block_ids, transfer_id):
        spoil_request(request)
        return False, None

    def shutdown(self):
        pass


@hookimpl
def create_kv_connector(context):
    return Scheduler() if context.role == "scheduler" else IdleWorkerSide()
"""
)

NUM_ANSWERS = 24
ANSWER_SECONDS = 60


def completion(server: Server, model: str, index: int) -> tuple[str, str]:
    """Returns the greedy completion of one of the prompts, and why it ended.

    Each prompt fills a block, so that the first request already is looked up: later
    ones are not, once calls of another kind have failed several times.
    """
    prompt = f"def add_{index}(first, second):\n    third = first + second + {index}\n"
    body = {
        "model": model,
        "prompt": f"{prompt}    return third * first + {index} * ",
        "max_tokens": 12,
        "temperature": 0,
        "kv_transfer_params": {"hint": [1, 2]},
    }
    status, answer = server.post(
        "/v1/completions", body, timeout_seconds=ANSWER_SECONDS
    )
    assert status == 200, answer
    (choice,) = answer["choices"]
    return choice["text"], choice["finish_reason"]


def all_answers(server: Server) -> list[tuple[str, str]]:
    model = json.loads(server.get("/v1/models")[1])["data"][0]["id"]
    with ThreadPoolExecutor(12) as pool:
        answer = partial(completion, server, model)
        return list(pool.map(answer, range(NUM_ANSWERS)))


def right_answers(*arguments: str) -> list[tuple[str, str]]:
    """Returns the answers of a server without plugins."""
    with serving(*arguments) as server:
        return all_answers(server)


def test_proposer_changes_no_answer(tmp_path: Path) -> None:
    """
    A proposer that writes to the tokens of requests only ends its own calls: all
    answers are right.
    """
    with PluginSite(tmp_path) as site:
        site.install("spoiling", PROPOSER, group="hookline.proposers")
    arguments = ("--port=0", "--num-kv-blocks=512", "--dtype=float32")
    config = {"method": "spoiling", "num_speculative_tokens": 3}
    with serving(
        *arguments,
        f"--speculative-config={json.dumps(config)}",
        environment={"PYTHONPATH": str(tmp_path)},
    ) as server:
        found = all_answers(server)
        server.wait_for_any(
            "hookline_spec_decode_proposer_failures_total", cause="raised"
        )

    assert found == right_answers(*arguments)


def test_connector_changes_no_answer(tmp_path: Path) -> None:
    """
    A connector that clears tokens, hashes and parameters of requests only ends its own
    calls: all answers are right.
    """
    with PluginSite(tmp_path) as site:
        site.install("spoiling", CONNECTOR, group="hookline.connectors")
    arguments = ("--port=0", "--executor=simulated")
    with serving(
        *arguments,
        '--kv-transfer-config={"kv_connector": "spoiling", "kv_role": "kv_both"}',
        environment={"PYTHONPATH": str(tmp_path)},
    ) as server:
        found = all_answers(server)
        server.wait_for_any(
            "hookline_kv_transfer_failures_total", stage="lookup", reason="raised"
        )

    assert found == right_answers(*arguments)
