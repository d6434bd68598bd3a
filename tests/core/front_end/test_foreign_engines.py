"""What an engine of a plugin tells of a request may be wrong: only that one ends."""

import json
import math

import pytest
from msgspec.structs import replace

from hookline import LLM, SamplingParams
from hookline.clock import VirtualClock
from hookline.config import CacheConfig, EngineConfig, ExecutorConfig, ModelConfig
from hookline.finish_cause import Rejected
from hookline.frontend.foreign_outputs import audited
from hookline.request import FinishReason, RequestFacts
from hookline.stats.scheduler_stats import SchedulerStats
from hookline_server.answers.token_names import shown_logprob
from hookline_testing import assert_conserved
from hookline_testing.observed import ObservedEngine
from hookline_testing.oracle import Oracle
from hookline_testing.plugin_site import PluginSite
from hookline_testing.simulation import simulated_core

SOURCE = """
from msgspec.structs import replace

from hookline.events import StepOutput
from hookline.request import TokenLogprobs
from hookline.transport.native import connect as native

NAN, INFINITY = float("nan"), float("inf")
BAD_PROMPT = 4


class Client:
    def __init__(self, inner):
        self._inner = inner
        self._bad = set()

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def receive(self, timeout_seconds):
        received = self._inner.receive(timeout_seconds)
        if isinstance(received, StepOutput):
            events = received.events
            for each in events.queued:
                if each.prompt_tokens == BAD_PROMPT:
                    self._bad.add(each.request_id)
            for kind in ("queued", "scheduled", "new_tokens", "finished"):
                some = getattr(events, kind)
                for at, each in enumerate(some):
                    if each.request_id in self._bad:
                        some[at] = self.spoil(kind, each)
        return received

    def spoil(self, kind, event):
        {act}
        return event


def connect(context):
    return Client(native(context))
"""
LOGPROBS = "logprobs=[TokenLogprobs([{}], [{}], {})] * len(event.token_ids)"
ACTS = {
    "beyond": ("new_tokens", "token_ids=[10**6]"),
    "negative": ("new_tokens", "token_ids=[-1]"),
    "words": ("new_tokens", "token_ids=['a']"),
    "none": ("new_tokens", "token_ids=None"),
    "nan": ("new_tokens", LOGPROBS.format(3, "NAN", 1)),
    "infinity": ("new_tokens", LOGPROBS.format(3, "INFINITY", 1)),
    "foreign": ("new_tokens", LOGPROBS.format(10**6, -1.0, 1)),
    "rank": ("new_tokens", LOGPROBS.format(3, -1.0, 0)),
    "short": ("new_tokens", "logprobs=[]"),
    "drafts": ("new_tokens", "draft_tokens=-2"),
    "accepted": ("new_tokens", "accepted_tokens=NAN"),
    "prompt": ("queued", "prompt_tokens=-4"),
    "cached": ("scheduled", "local_cached_tokens=-16"),
    "output": ("finished", "output_tokens=-1"),
    "cause": ("finished", "cause=None"),
}


@pytest.mark.parametrize("act", ACTS)
def test_only_the_request_ends_that_it_is_told_of(
    llama: Oracle, site: PluginSite, act: str
) -> None:
    """With an error; its engine ends it, too, and others keep their tokens."""
    kind, change = ACTS[act]
    line = f"if kind == {kind!r}: event = replace(event, {change})"
    source = SOURCE.replace("{act}", line)
    site.install("odd", source, group="hookline.engines", attribute="connect")
    config = EngineConfig(
        model=ModelConfig(model=str(llama.folder)),
        cache=CacheConfig(num_kv_blocks=64),
        executor=ExecutorConfig(name="simulated"),
        engine="odd",
    )
    params = SamplingParams(max_tokens=4, ignore_eos=True)

    with LLM.from_config(config) as llm:
        bad, good = llm.generate([[3] * 4, [3] * 5], params)
        [later] = llm.generate([[3] * 5], params)
        assert_conserved(llm)

    assert bad.outputs[0].finish_reason is FinishReason.ERROR
    assert str(bad.outputs[0].stop_reason).startswith("the engine gave ")
    for each in (good, later):
        assert each.outputs[0].finish_reason is FinishReason.LENGTH
        assert len(each.outputs[0].token_ids) == 4


SILENT = """
from msgspec.structs import replace

from hookline.events import StepOutput
from hookline.stats.scheduler_stats import SchedulerStats
from hookline.transport.native import connect as native


class Client:
    def __init__(self, inner):
        self._inner = inner

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def receive(self, timeout_seconds):
        received = self._inner.receive(timeout_seconds)
        if isinstance(received, StepOutput):
            received.events.queued.clear()
            received.events.scheduled.clear()
            received = replace(received, stats=SchedulerStats())
        return received


def connect(context):
    return Client(native(context))
"""


def test_engine_that_reports_nothing_is_found(llama: Oracle, site: PluginSite) -> None:
    """The front end counts requests itself, and what is left out is residue."""
    site.install("silent", SILENT, group="hookline.engines", attribute="connect")
    config = EngineConfig(
        model=ModelConfig(model=str(llama.folder)),
        cache=CacheConfig(num_kv_blocks=64),
        executor=ExecutorConfig(name="simulated"),
        engine="silent",
    )

    with LLM.from_config(config) as llm:
        llm.generate([[3] * 4], SamplingParams(max_tokens=2, ignore_eos=True))
        totals = llm.front_end.engines.first.stats.totals

    assert totals.received == 1
    assert totals.residue.requests == 2  # one not received, one not finished


def test_state_is_held_against_the_events() -> None:
    """Each number of requests that an engine leaves out or invents is residue."""
    engine = ObservedEngine(simulated_core(clock=(clock := VirtualClock())), clock)
    engine.submit([1] * 3, SamplingParams(max_tokens=1))
    engine.submit([2] * 3, SamplingParams(max_tokens=4))
    output = engine.receive()
    assert output is not None
    stats, books = output.stats, engine.accounting
    wrong = {
        "received": (replace(stats, totals=replace(stats.totals, received=0)), 2),
        "invented": (replace(stats, totals=replace(stats.totals, received=5)), 3),
        "finished": (replace(stats, totals=replace(stats.totals, finished={})), 1),
        "running": (replace(stats, running=0), 1),
        "waiting": (replace(stats, waiting=4), 4),
        "nothing": (SchedulerStats(), 2 + 1 + 1),
    }
    books.reject(RequestFacts(), Rejected("overloaded", "2 requests are open"))

    found = {
        name: audited(state, books).totals.residue.requests
        for name, (state, _) in wrong.items()
    }

    assert audited(stats, books) is stats
    assert found == {name: residue for name, (_, residue) in wrong.items()}
    assert audited(SchedulerStats(), books).totals.received == 2


def test_minus_infinity_is_shown_as_openai_does() -> None:
    """JSON has no infinities, and a client must not get null for a number."""
    assert shown_logprob(-math.inf) == -9999.0
    assert json.loads(json.dumps(shown_logprob(-0.5))) == -0.5
