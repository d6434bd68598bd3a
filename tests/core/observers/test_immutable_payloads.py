"""Nothing that a plugin is shown can be changed."""

from collections.abc import Mapping

import pytest

from hookline.config import CacheConfig, EngineConfig, ModelConfig, ObserverConfig
from hookline.config.executor import ExecutorConfig
from hookline.request import RequestFacts
from hookline.sampling_params import SamplingParams
from hookline_offline.llm import LLM
from hookline_testing.changeable import changeable
from hookline_testing.plugin_site import PluginSite

PROPOSER = """
from hookline import hookimpl
from hookline_drafting import Drafts, ProposerCapabilities

seen = []


class Recording:
    capabilities = ProposerCapabilities()

    def propose(self, requests):
        seen.append(requests)
        return [Drafts(token_ids=each.token_ids[-1:]) for each in requests]

    def release(self, request_ids):
        seen.append(request_ids)


@hookimpl
def create_proposer(context):
    seen.append(context.options)
    return Recording()
"""

CONNECTOR = """
from hookline import hookimpl
from hookline_kv_transfer import (
    ConnectorMetadata, SchedulerCapabilities, WorkerCapabilities
)
from hookline_testing.idle_connector import IdleWorkerSide

seen = []


class Scheduler:
    capabilities = SchedulerCapabilities()

    def register_kv_layout(self, layout):
        seen.append(layout)

    def get_num_new_matched_tokens(self, request, num_computed_tokens):
        seen.append(request)
        return 32, True

    def update_state_after_alloc(self, request, load):
        seen.extend([request, load])

    def build_connector_meta(self, step):
        seen.append(step)
        return ConnectorMetadata(b"x")

    def request_finished(self, request, block_ids, transfer_id):
        seen.extend([request, block_ids])
        return False, {"answer": [1, {"deep": [2]}]}

    def shutdown(self):
        pass


class Worker(IdleWorkerSide):
    capabilities = WorkerCapabilities()

    def start_load_kv(self, metadata):
        seen.append(metadata)
        raise RuntimeError("no load succeeds")


@hookimpl
def create_kv_connector(context):
    seen.append(context.options)
    return Scheduler() if context.role == "scheduler" else Worker()
"""


def make_llm() -> LLM:
    config = EngineConfig(
        model=ModelConfig(model="demo"),
        cache=CacheConfig(num_kv_blocks=160),
        executor=ExecutorConfig(name="simulated"),
        observers=ObserverConfig(
            stat_loggers=("recorder",), options={}, heartbeat_seconds=0.05
        ),
        speculative={"method": "drafting", "num_speculative_tokens": 1, "deep": [[1]]},
        kv_transfer={
            "kv_connector": "loading",
            "kv_connector_extra_config": {"deep": [{"a": [1]}]},
        },
        follows_cache=True,
    )
    return LLM.from_config(config)


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, list[object]]:
    """What a logger, a proposer and a connector have been shown, by plugin."""
    folder = tmp_path_factory.mktemp("plugins")
    with PluginSite(folder) as site:
        site.install_recorder()
        site.install("drafting", PROPOSER, group="hookline.proposers")
        site.install("loading", CONNECTOR, group="hookline.connectors")
        llm = make_llm()
        try:
            params = SamplingParams(
                max_tokens=20,
                logprobs=2,
                prompt_logprobs=1,
                logit_bias={5: 1.0},
                extra_args={"deep": [{"a": [1]}]},
                ignore_eos=True,
            )
            facts = RequestFacts(trace_context={"traceparent": "00-x"})
            llm.generate([[3, 4] * 40], params, facts=facts)
            # Loads only prompts whose log-probabilities nobody wants.
            llm.generate([[5, 6] * 40], SamplingParams(max_tokens=20), facts=facts)
            llm.flush(10)
        finally:
            llm.close()
        return {
            "logger": [payload for _, payload in site.calls()],
            "proposer": list(site.module("drafting").seen),
            "connector": list(site.module("loading").seen),
        }


@pytest.mark.parametrize("plugin", ["logger", "proposer", "connector"])
def test_nothing_in_a_payload_can_be_changed(
    seen: Mapping[str, list[object]], plugin: str
) -> None:
    """
    Every list, map and array that a plugin can reach refuses changes.
    """
    assert seen[plugin]

    found = {
        each
        for payload in seen[plugin]
        for each in changeable(payload, type(payload).__name__)
    }

    assert not found


def test_every_hook_with_events_was_seen(seen: Mapping[str, list[object]]) -> None:
    """
    The run above reaches the payloads that have lists and maps in the engine.
    """
    assert {type(each).__name__ for each in seen["logger"]} >= {
        "CacheChanged",
        "EngineStarted",
        "RequestsFinished",
        "RequestsQueued",
        "RequestsScheduled",
        "StateChanged",
        "StepFinished",
        "TokensGenerated",
    }
    assert {type(each).__name__ for each in seen["connector"]} >= {
        "ConnectorRequest",
        "Load",
        "PlannedStep",
    }
