"""Logits processors of plugins: chosen by name, parameterised, isolated."""

import logging
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from hookline import LLM, SamplingParams
from hookline.config import (
    CacheConfig,
    EngineConfig,
    ExecutorConfig,
    ModelConfig,
)
from hookline.engine.worker.sampling.logits_processor import SampledPositions
from hookline.engine.worker.sampling.logits_processors import LogitsProcessors
from hookline.exceptions import ConfigError
from hookline.outputs import RequestOutput
from hookline.request import FinishReason
from hookline.step import AdmittedSequence
from hookline_models.sampling.sampler import Sampler
from hookline_testing import assert_conserved
from hookline_testing.oracle import Oracle
from hookline_testing.plugin_site import PluginSite

GROUP = "hookline.logits_processors"
PROMPT = [11, 150, 42]

BASE = """
import threading
import torch
from hookline.engine.worker.sampling.logits_processor import LogitsProcessorContext


class Base:
    needs_prepare = False

    def __init__(self, context):
        assert isinstance(context, LogitsProcessorContext)
        self.context = context
        self.state = {}
        self.threads = []

    def admit(self, row, sequence):
        value = sequence.params.extra_args.get(__name__)
        if value is None:
            return False
        assert row not in self.state
        self.state[row] = value
        return True

    def release(self, row):
        del self.state[row]

    def prepare(self, positions):
        raise AssertionError("not asked for")
"""
FORCE = (
    BASE
    + """
made = []


class Force(Base):
    needs_prepare = True

    def __init__(self, context):
        super().__init__(context)
        made.append(self)

    def prepare(self, positions):
        self.threads.append(threading.current_thread())
        shape = len(positions), self.context.vocab_size
        self.mask = torch.full(shape, float("-inf"), device=self.context.device)
        for at, row in enumerate(positions.rows.tolist()):
            own = self.state[row]
            self.mask[at, own[positions.num_output_tokens[at] % len(own)]] = 0.0

    def apply(self, logits, positions):
        logits[positions.indices] += self.mask
"""
)
ACTS = {
    "raising": "raise RuntimeError('oh')",
    "returning": "return logits * 2",
    "emptying": "logits[positions.indices] = float('-inf')",
    "poisoning": "logits[positions.indices[0]] = float('nan')",
    "exiting": "raise SystemExit(3)",
}
REASONS = {
    "raising": "RuntimeError: oh",
    "returning": "apply returned Tensor: it must change the logits in place",
    "emptying": "it left no finite maximum: no token can be sampled",
    "poisoning": "it left no finite maximum: no token can be sampled",
    "exiting": "SystemExit: 3",
}


def install(site: PluginSite, name: str, source: str, kind: str) -> None:
    """Installs a module whose entry point is its class `kind`."""
    site.install(name, f"{source}\n\ncreate = {kind}\n", group=GROUP)
    entry = site.module(name).__file__
    assert entry is not None
    text = f"[{GROUP}]\n{name} = {name}:create\n"
    folder = Path(entry).parent / f"dist_{name}-1.0.dist-info"
    (folder / "entry_points.txt").write_text(text)
    site.forget()


def config_of(llama: Oracle, *names: str, **more: object) -> EngineConfig:
    return EngineConfig(
        model=ModelConfig(model=str(llama.folder)),
        cache=CacheConfig(num_kv_blocks=64),
        logits_processors=names,
        **more,  # type: ignore[arg-type]
    )


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.message for each in caplog.records if each.levelno >= logging.WARNING]


def generate(llm: LLM, *extra_args: dict[str, object]) -> list[RequestOutput]:
    params = [
        SamplingParams(temperature=0.0, max_tokens=6, extra_args=each)
        for each in extra_args
    ]
    return llm.generate([PROMPT] * len(params), params)


def test_requests_give_a_processor_its_arguments(
    llama: Oracle, site: PluginSite
) -> None:
    """Each request is forced to its own tokens, and one without arguments to none."""
    install(site, "force", FORCE, "Force")

    with LLM.from_config(config_of(llama, "force")) as llm:
        forced, plain, other = generate(
            llm, {"force": [7, 8, 9]}, {"unknown": 1}, {"force": [5]}
        )
        generate(llm, {})  # its plan releases the rows of the others
        assert_conserved(llm)

    assert forced.outputs[0].token_ids == [7, 8, 9, 7, 8, 9]
    assert plain.outputs[0].token_ids == llama.greedy(PROMPT, 6)
    assert other.outputs[0].token_ids == [5] * 6
    [processor] = site.module("force").made
    assert processor.state == {}


def test_masks_are_made_on_another_thread(llama: Oracle, site: PluginSite) -> None:
    """While the model runs; the thread ends with the engine."""
    install(site, "force", FORCE, "Force")

    with LLM.from_config(config_of(llama, "force")) as llm:
        generate(llm, {"force": [7]})

    [thread, *others] = site.module("force").made[0].threads
    assert thread is not threading.current_thread()
    assert all(other is thread for other in others)
    assert not thread.is_alive()


def test_drafts_are_verified_against_changed_logits(
    llama: Oracle, site: PluginSite
) -> None:
    """A processor sees the drafts before each position as output."""
    install(site, "force", FORCE, "Force")
    speculative = {"method": "ngram", "num_speculative_tokens": 3}
    config = config_of(llama, "force", speculative=speculative)

    with LLM.from_config(config) as llm:
        params = SamplingParams(
            temperature=0.0, max_tokens=24, extra_args={"force": [7, 8, 9, 10]}
        )
        [output] = llm.generate([PROMPT], params)

    assert output.outputs[0].token_ids == [7, 8, 9, 10] * 6
    assert output.outputs[0].accepted_tokens > 0


@pytest.mark.parametrize("act", ACTS)
def test_a_failing_processor_ends_its_own_requests(
    llama: Oracle, site: PluginSite, act: str, caplog: pytest.LogCaptureFixture
) -> None:
    """With an error and a line in the log; others and the engine go on."""
    method = f"    def apply(self, logits, positions):\n        {ACTS[act]}"
    body = f"class Bad(Base):\n{method}"
    install(site, "bad", f"{BASE}\n\n{body}", "Bad")

    with LLM.from_config(config_of(llama, "bad")) as llm:
        failed, plain = generate(llm, {"bad": 1}, {})
        [later] = generate(llm, {})
        assert_conserved(llm)

    assert failed.outputs[0].finish_reason is FinishReason.ERROR
    assert failed.outputs[0].token_ids == []
    line, *others = warnings(caplog)
    assert line == f"Logits processor 'bad' failed: {REASONS[act]}"
    is_corrupted = act in {"emptying", "poisoning"}
    assert [REASONS[act] in each for each in others] == [True] * is_corrupted
    for output in (plain, later):
        assert output.outputs[0].token_ids == llama.greedy(PROMPT, 6)


def test_a_failing_admission_ends_the_request(
    llama: Oracle, site: PluginSite, caplog: pytest.LogCaptureFixture
) -> None:
    """The processor is not asked to release what it did not admit."""
    body = """
class Picky(Base):
    released = []

    def admit(self, row, sequence):
        return {"yes": True, "odd": 1}[sequence.params.extra_args["picky"]]

    def release(self, row):
        self.released.append(row)

    def apply(self, logits, positions):
        pass
"""
    install(site, "picky", f"{BASE}\n\n{body}", "Picky")

    with LLM.from_config(config_of(llama, "picky")) as llm:
        outputs = generate(llm, {"picky": "yes"}, {"picky": "odd"}, {})
        generate(llm, {"picky": "yes"})

    good, odd, missing = (output.outputs[0] for output in outputs)
    assert good.token_ids == llama.greedy(PROMPT, 6)
    for failed in (odd, missing):
        assert failed.finish_reason is FinishReason.ERROR
    assert warnings(caplog) == [
        "Logits processor 'picky' failed: admit returned int, not bool",
        "Logits processor 'picky' failed: KeyError: 'picky'",
    ]
    assert len(site.module("picky").Picky.released) == 1


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("create = 3", "'bad' of dist-bad 1.0 is broken: 3 is neither a class nor a"),
        ("def create(context): raise OSError('no')", "cannot be created: OSError: no"),
        ("def create(context): return 3", "'bad' creates no LogitsProcessor"),
        (
            "def create(context): return type",
            "returned the class type, not an instance",
        ),
        ("import nothing_of_that_name", "nothing_of_that_name"),
    ],
)
def test_broken_plugins_end_the_start(
    llama: Oracle, site: PluginSite, source: str, reason: str
) -> None:
    """With one line that names the option."""
    site.install("bad", "", group=GROUP)
    folder = Path(str(site.module("bad").__file__)).parent
    (folder / "bad.py").write_text(source)
    entry = f"[{GROUP}]\nbad = bad:create\n"
    (folder / "dist_bad-1.0.dist-info" / "entry_points.txt").write_text(entry)
    site.forget()

    with pytest.raises(ConfigError, match=reason) as caught:
        LLM.from_config(config_of(llama, "bad"))

    assert caught.value.option == "logits-processor"


@pytest.mark.parametrize(
    ("names", "executor", "reason"),
    [
        (("missing",), "uniproc", "missing"),
        (("force", "force"), "uniproc", "'force' is named twice"),
        (("force",), "simulated", "the executor simulated has no logits"),
    ],
)
def test_wrong_choices_end_the_start(
    llama: Oracle,
    site: PluginSite,
    names: tuple[str, ...],
    executor: str,
    reason: str,
) -> None:
    """Before a model is loaded."""
    install(site, "force", FORCE, "Force")
    config = config_of(llama, *names, executor=ExecutorConfig(name=executor))

    with pytest.raises(ConfigError, match=reason):
        LLM.from_config(config)

    assert site.module("force").made == []


class Counting:
    """Counts calls, and applies to requests with a seed."""

    needs_prepare = False

    def __init__(self) -> None:
        self.calls: list[tuple[str, object]] = []

    def admit(self, row: int, sequence: AdmittedSequence) -> bool:
        del row
        return sequence.params.seed is not None

    def release(self, row: int) -> None:
        self.calls.append(("release", row))

    def prepare(self, positions: SampledPositions) -> None:
        raise AssertionError(positions)

    def apply(self, logits: torch.Tensor, positions: SampledPositions) -> None:
        del logits
        self.calls.append(("apply", positions.rows.tolist()))


def test_requests_without_constraints_cost_nothing(
    make_sampler: Callable[..., tuple[Sampler, np.ndarray[tuple[int], np.dtype]]],
) -> None:
    """A processor is called for its own requests, and not at all if there are none."""
    counting = Counting()
    params = [SamplingParams(), SamplingParams(seed=1), SamplingParams()]
    processors = LogitsProcessors(3, [counting])

    sampler, rows = make_sampler(params, vocab_size=8, processors=processors)
    sampler.sample(torch.zeros(2, 8), rows[[0, 2]])
    sampler.sample(torch.zeros(3, 8), rows)
    for row in rows.tolist():
        processors.release(row)

    assert counting.calls == [("apply", [rows[1]]), ("release", rows[1])]
