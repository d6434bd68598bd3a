"""`why` tells waits for an adapter: its loading, and who had the slot."""

from pathlib import Path

import pytest

from hookline.engine.commands import Finish
from hookline.finish_cause import Aborted
from hookline_insight.account import Cause
from hookline_insight.wording import Words
from hookline_lora.config import AdapterSource, LoraConfig

from .staged_engine import DECODE, LOAD, STEP, Stage

TURN = STEP + DECODE
"""Seconds of a step of a request that decodes alone."""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of rings of this test."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def stage(max_cpu_loras: int, name: str = "legal") -> Stage:
    """One slot, which adapter `sql` has at the start; the last adapter is on disk."""
    modules = tuple(
        AdapterSource(name=each, path=f"/adapters/{each}")
        for each in ("sql", "chat", name)
    )
    config = LoraConfig(modules=modules, max_loras=1, max_cpu_loras=max_cpu_loras)
    return Stage(adapters=config)


def test_a_cold_adapter_is_loading(folder: Path) -> None:
    """With an idle slot all of the wait is the reading of the weights."""
    case = stage(2).add(0, 1, 16, 3, lora="legal").add(0, 2, 16, 100)

    explainer = case.play(folder)

    account = explainer.account(1)
    parts = {part.cause: part for part in account.parts}
    assert account.residue == 0
    assert parts[Cause.ADAPTER_LOADING].ns / 1e9 == pytest.approx(LOAD, abs=3 * STEP)
    assert Cause.GATE not in parts or parts[Cause.GATE].ns < STEP * 1e9
    said = Words(explainer).sentence(account)
    assert "waiting for adapter `legal`, which was loading" in said


@pytest.mark.parametrize("max_cpu_loras", [1, 2], ids=["no memory", "memory"])
def test_who_has_the_slot_is_told(folder: Path, max_cpu_loras: int) -> None:
    """Before the reading, if memory is full, or after it: others computed meanwhile."""
    case = stage(max_cpu_loras)
    case.add(0, 2, 16, 100, lora="sql").add(0, 3, 16, 100).add(
        0.05, 1, 16, 3, lora="legal"
    )

    explainer = case.play(folder)

    account = explainer.account(1)
    parts = {part.cause: part for part in account.parts}
    assert account.residue == 0
    loading, slot = parts[Cause.ADAPTER_LOADING], parts[Cause.ADAPTER_SLOT]
    assert loading.ns / 1e9 == pytest.approx(LOAD, abs=3 * STEP)
    whole = 100 * (STEP + 2 * DECODE) - 0.05
    waited = whole if max_cpu_loras == 1 else whole - LOAD
    assert slot.ns / 1e9 == pytest.approx(waited, abs=5 * STEP)
    assert set(slot.culprits) == {2}
    said = Words(explainer).sentence(account)
    if max_cpu_loras == 1:
        assert (
            "waiting for a slot for adapter `legal`, held by adapter `sql` of r-2 ("
        ) in said
    order = [
        share.cause
        for piece in account.pieces
        for share in piece.shares
        if share.cause in (Cause.ADAPTER_LOADING, Cause.ADAPTER_SLOT)
        if share.ns > STEP * 1e9
    ]
    first = Cause.ADAPTER_SLOT if max_cpu_loras == 1 else Cause.ADAPTER_LOADING
    assert order[0] == first


def test_a_wait_that_ended_with_its_request_is_one_at_the_gate(folder: Path) -> None:
    """What it waited for was not told."""
    case = stage(1).add(0, 1, 16, 3, lora="legal")
    case.at(0.2, Finish([1], Aborted("client")))

    explainer = case.play(folder)

    account = explainer.account(1)
    parts = {part.cause: part for part in account.parts}
    assert account.residue == 0
    assert parts[Cause.GATE].detail == "adapter"


def test_hostile_names_of_adapters_are_said_in_one_line(folder: Path) -> None:
    """No terminal obeys them."""
    name = "legal\x1b[31m\nroot took 0 s"
    case = stage(2, name).add(0, 1, 16, 3, lora=name).add(0, 2, 16, 100)

    explainer = case.play(folder)

    said = Words(explainer).sentence(explainer.account(1))
    assert "\n" not in said
    assert "\x1b" not in said
    assert "which was loading" in said
