"""Requests wait at the gate until their adapter has a slot; others go on."""

import pytest

from hookline.finish_cause import Failed, Rejected
from hookline.request import FinishReason
from hookline_lora.config import AdapterSource, LoraConfig
from hookline_lora.messages import (
    CommitAdapter,
    ListAdapters,
    PrepareAdapter,
    UnloadAdapter,
    UnloadMode,
)
from hookline_metrics.adapters import AdapterLevel
from hookline_testing.adapter_engine import AdapterEngine


def modules(*names: str) -> tuple[AdapterSource, ...]:
    return tuple(AdapterSource(name=name, path=f"/adapters/{name}") for name in names)


def test_adapters_of_the_start_are_in_slots_before_any_request() -> None:
    """What the configuration names is read while the engine is still idle."""
    engine = AdapterEngine(LoraConfig(modules=modules("a", "b"), max_loras=2))

    engine.run()

    assert engine.worker.slots == {0: "a", 1: "b"}


def test_a_request_waits_while_its_adapter_is_read_and_others_run() -> None:
    """A cold load takes as long as it takes, beside steps of the base model."""
    config = LoraConfig(modules=modules("a", "b"), max_loras=1)
    engine = AdapterEngine(config, load_seconds=5.0)
    engine.run()
    engine.send(1, None, max_tokens=10)
    engine.send(2, "b")

    engine.step()
    held = engine.core.stats.held
    engine.run()

    assert held == {"adapter": 1}
    ends = {each: event.at for each, event in engine.finished.items()}
    assert ends[1] - engine.sent_at[1] == 10e9
    (wait,) = engine.waits
    assert wait.request_id == 2
    assert wait.adapter == "b"
    assert wait.loading_seconds >= 5.0
    assert engine.core.stats.held == {}
