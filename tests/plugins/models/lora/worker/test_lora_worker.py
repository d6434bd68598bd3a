"""The worker's side of adapters: orders, slots, sleep, and models without them."""

from pathlib import Path

import numpy as np
import pytest
import torch

from hookline.engine.decoder.forward_batch import ForwardBatch
from hookline.engine.worker.input_batch import Int64, SamplePlaces, StepInputs
from hookline.exceptions import ConfigError
from hookline.step import SleepLevel
from hookline_lora.config import LoraConfig
from hookline_lora.messages import AdapterOrders
from hookline_lora.worker.feed import AdapterFeed, SlotColumn, StepAdapters
from hookline_testing.adapters import make_adapter, shapes_of
from hookline_testing.oracle import Oracle, make_oracle

from .conftest import MakeEngine, PeftOf

PROMPT, COUNT = [*range(5, 25)], 10


def test_a_slot_computes_what_was_filled_last(
    base: Oracle, adapters: list[Path], make_engine: MakeEngine, peft_of: PeftOf
) -> None:
    """Recorded steps follow, too: those of the first adapter serve the second."""
    engine = make_engine(base.folder)
    engine.load(*adapters)

    for adapter in (*adapters, adapters[0]):
        engine.fill({1: adapter})
        said = engine.add(PROMPT, COUNT, adapter)
        engine.run()
        assert engine.tokens[said] == peft_of(base, adapter).greedy(PROMPT, COUNT)


@pytest.mark.parametrize("level", SleepLevel)
def test_adapters_are_in_their_slots_after_sleep(
    base: Oracle,
    adapters: list[Path],
    make_engine: MakeEngine,
    peft_of: PeftOf,
    level: SleepLevel,
) -> None:
    """Also after one without weights; nobody orders it."""
    engine = make_engine(base.folder)
    engine.load(*adapters)
    engine.fill(dict(enumerate(adapters)))
    engine.add(PROMPT, 1, adapters[0])
    engine.run()

    engine.core.sleep(level)
    engine.core.wake_up()

    said = [engine.add(PROMPT, COUNT, each) for each in (*adapters, None)]
    engine.run()
    models = [*(peft_of(base, each) for each in adapters), base]
    assert [engine.tokens[each] for each in said] == [
        model.greedy(PROMPT, COUNT) for model in models
    ]


def test_a_dropped_adapter_leaves_its_slot(
    base: Oracle, adapters: list[Path], make_engine: MakeEngine
) -> None:
    """It can be read again; a folder without files is told as a failure."""
    engine = make_engine(base.folder)
    engine.load(adapters[0])
    engine.fill({0: adapters[0]})
    engine.order(AdapterOrders(drop=(engine.digest(adapters[0]),)))
    engine.load(adapters[0])
    engine.orders.expected += 1
    engine.order(AdapterOrders(load={"0" * 64: str(base.folder)}))
    engine.run()

    first, second, third = engine.orders.reports
    assert first.loaded.keys() == second.loaded.keys() == {engine.digest(adapters[0])}
    assert third.failed.keys() == {"0" * 64}
    assert "adapter_config.json" in third.failed["0" * 64]


def test_another_content_is_not_loaded(
    base: Oracle, adapters: list[Path], make_engine: MakeEngine
) -> None:
    """The scheduler's side has described other files than those that lie there."""
    engine = make_engine(base.folder)
    engine.orders.expected += 1
    engine.order(AdapterOrders(load={"f" * 64: str(adapters[0])}))
    engine.run()

    (report,) = engine.orders.reports
    assert "ffff" in report.failed["f" * 64]


def test_only_the_named_layers_may_change(
    base: Oracle, tmp_path: Path, make_engine: MakeEngine, peft_of: PeftOf
) -> None:
    """Others of the same product are told by nobody, and are left alone."""
    lora = LoraConfig(target_modules=("v_proj", "down_proj"))
    engine = make_engine(base.folder, lora=lora)
    adapter = make_adapter(
        tmp_path / "a", shapes_of(base.model), targets=("v_proj", "down_proj")
    )
    engine.load(adapter)
    engine.fill({0: adapter})
    said = engine.add(PROMPT, COUNT, adapter)
    engine.run()

    assert engine.orders.targets is not None
    names = {each.rpartition(".")[2] for each in engine.orders.targets.shapes}
    assert names == {"v_proj", "down_proj"}
    assert engine.tokens[said] == peft_of(base, adapter).greedy(PROMPT, COUNT)


@pytest.mark.parametrize("family", ["gemma2", "gpt2"])
def test_a_family_that_runs_as_modules_is_refused(
    family: str, tmp_path: Path, make_engine: MakeEngine
) -> None:
    """By name, at the start."""
    oracle = make_oracle(family, tmp_path)

    with pytest.raises(ConfigError, match=rf"models of type {family} cannot") as caught:
        make_engine(oracle.folder)

    assert "modules (" in str(caught.value)


class GivenFeed:
    """Feeds one batch, whatever it is asked for."""

    def __init__(self, batch: ForwardBatch) -> None:
        self._batch = batch

    def batch(self, inputs: StepInputs, logits_indices: Int64) -> ForwardBatch:
        del inputs, logits_indices
        return self._batch


@pytest.mark.parametrize("slots", [[-1, 5, -1], [3, 5, 0]])
def test_only_steps_with_adapters_carry_rows(slots: list[int]) -> None:
    """A step of the base is what the feed gives, the same object."""
    nothing = torch.zeros(0, dtype=torch.int64)
    given = ForwardBatch(
        slot_mapping=nothing,
        block_tables=nothing,
        query_lens=[1, 3],
        seq_lens=[1, 3],
        num_decodes=1,
        seq_lens_tensor=nothing,
        positions=nothing,
        token_ids=nothing,
        logits_indices=nothing,
    )
    inputs = StepInputs(
        rows=np.array([2, 0]),
        token_ids=np.zeros(4, np.int64),
        positions=np.arange(4),
        slots=np.arange(4),
        query_lens=np.array([1, 3]),
        seq_lens=np.array([1, 3]),
        query_starts=np.array([0, 1, 4]),
        block_tables=np.zeros((2, 1), np.int32),
        is_sampling=np.array([True, True]),
        num_drafts=None,
        samples=SamplePlaces(*(np.zeros(0, np.int64) for _ in range(3))),
    )
    column = SlotColumn(3, 8, 6, torch.device("cpu"))
    column.change_logits = True
    for row, slot in enumerate(slots):
        column.set(row, slot)

    found = AdapterFeed(GivenFeed(given), column).batch(inputs, np.array([0, 3]))

    if slots[2] == -1:
        assert found is given
        return
    assert isinstance(found.adapters, StepAdapters)
    assert found.adapters.sampled is not None
    rows, sampled = (
        {slot: index.tolist() for slot, index in each.groups()}
        for each in (found.adapters.rows, found.adapters.sampled)
    )
    assert rows == {0: [0], 3: [1, 2, 3]}
    assert sampled == {0: [0], 3: [1]}
