"""An engine that shares nothing with Hookline's own: what the interface asks of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hookline import LLM, SamplingParams
from hookline.config import EngineConfig, ModelConfig
from hookline.request import FinishReason
from hookline_testing import assert_conserved
from hookline_testing.oracle import Oracle
from hookline_testing.plugin_site import PluginSite

SOURCE = """
import queue
import time

from hookline.engine.commands import Add, Call, Reply
from hookline.events import (
    ClockPair, Finished, NewTokens, Queued, Scheduled, StepEvents, StepOutput,
)
from hookline.exceptions import EngineDeadError
from hookline.finish_cause import LengthReached
from hookline.payloads import EngineFacts
from hookline.stats.scheduler_stats import EngineTotals, SchedulerStats
from hookline.step import ModelShape
from hookline.transport.engine_client import EngineInfo

CLOSED = object()
NO_MODEL = ModelShape(
    architecture="Parrot",
    dtype="none",
    cache_dtype="none",
    vocab_size=512,
    max_model_len=64,
    eos_token_ids=(),
)


class Parrot:
    index, owns_engines, dropped = 0, True, 0

    def __init__(self):
        facts = EngineFacts(
            engine_index=0,
            model_name="parrot",
            model=NO_MODEL,
            block_size=16,
            max_num_seqs=8,
            max_num_batched_tokens=64,
            enable_prefix_caching=False,
            executor="parrot",
        )
        clock = ClockPair(wall=time.time_ns(), monotonic=time.monotonic_ns())
        self.engines = {0: EngineInfo(facts, clock)}
        self.told = queue.SimpleQueue()
        self.requests = self.tokens = self.prompts = 0

    def capability(self, kind):
        return None

    def send(self, engine_index, command):
        if isinstance(command, Add):
            for request in (command.request, *command.siblings()):
                self.answer(request)
        elif isinstance(command, Call):
            self.told.put(Reply(client=command.client, number=command.number))
            self.tell(StepEvents())

    def answer(self, request):
        at, each = time.monotonic_ns(), request.request_id
        prompt, wanted = request.prompt_token_ids, request.params.max_tokens
        tokens = (prompt * (wanted // len(prompt) + 1))[:wanted]
        self.requests += 1
        self.tokens += wanted
        self.prompts += len(prompt)
        self.tell(
            StepEvents(
                queued=[Queued(each, at, len(prompt))],
                scheduled=[Scheduled(each, at, 0, 0, 0, False)],
                new_tokens=[NewTokens(each, at, tokens)],
                finished=[Finished(each, at, LengthReached(), wanted)],
            )
        )

    def tell(self, events):
        totals = EngineTotals(
            received=self.requests,
            finished={"length": self.requests},
            sampled_tokens=self.tokens,
            finished_tokens=self.tokens,
            computed_tokens=self.prompts + self.tokens - self.requests,
        )
        stats = SchedulerStats(totals=totals)
        self.told.put(StepOutput(0, time.monotonic_ns(), "step", stats, events=events))

    def receive(self, timeout_seconds):
        try:
            told = self.told.get(timeout=timeout_seconds)
        except queue.Empty:
            return None
        if told is CLOSED:
            raise EngineDeadError("the parrot is gone")
        return told

    def close(self):
        self.told.put(CLOSED)


def connect(context):
    return Parrot()
"""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[PluginSite]:
    folder = tmp_path / "site"
    folder.mkdir()
    with PluginSite(folder) as made:
        yield made


def test_an_engine_of_a_plugin_serves_and_is_counted(
    llama: Oracle, site: PluginSite
) -> None:
    """Requests, tokens and ends count like those of the own engine, without residue."""
    site.install("parrot", SOURCE, group="hookline.engines", attribute="connect")
    config = EngineConfig(model=ModelConfig(model=str(llama.folder)), engine="parrot")

    with LLM.from_config(config) as llm:
        given = llm.generate(
            [[3, 4, 5], [6, 7]], SamplingParams(max_tokens=4, ignore_eos=True, n=2)
        )
        assert_conserved(llm)
        totals = llm.front_end.engines.first.stats.totals

    assert [list(each.token_ids) for one in given for each in one.outputs] == [
        *[[3, 4, 5, 3]] * 2,
        *[[6, 7, 6, 7]] * 2,
    ]
    ends = {each.finish_reason for one in given for each in one.outputs}
    assert ends == {FinishReason.LENGTH}
    assert (totals.received, totals.finished, totals.sampled_tokens) == (
        4,
        {"length": 4},
        16,
    )
