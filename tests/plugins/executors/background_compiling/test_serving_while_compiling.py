"""Engines that compute with torch until their kernels are compiled."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest
import torch
from transformers import Gemma3TextConfig, LlamaConfig

from hookline.config import EngineConfig, ExecutorConfig
from hookline.engine.decoder.layer_shapes import LayerCache
from hookline.engine.worker.extension import WorkerSide
from hookline.engine.worker.followed_rows import FollowedRows
from hookline.engine.worker.paged_cache import PagedCache
from hookline_background_compiling.config import BackgroundCompilingConfig
from hookline_background_compiling.first_forward import COMPILING, first_forward
from hookline_background_compiling.messages import (
    CompilationEnded,
    CompilationRefused,
    CompilerMessage,
    KernelCompiled,
)
from hookline_background_compiling.upgrade import KernelUpgrade, WorkerUpgrade
from hookline_kernels import CPU
from hookline_kernels.cpu import jit
from hookline_models.checkpoints.few_layers import keep_few_layers
from hookline_models.forwards.first_forward import ModelToRun
from hookline_models.forwards.module_forward import ModuleForward

WAITS: dict[str, object] = {
    BackgroundCompilingConfig.key: BackgroundCompilingConfig(
        serve_while_compiling=False
    )
}
BESIDE = ExecutorConfig(shares_cores=True)
LAYERS = (LayerCache(num_heads=2, num_kv_heads=1, key_dim=16, value_dim=16),)
ENDED = CompilationEnded("cache", "decoder")


def model(config: EngineConfig, *, may_change: bool = True) -> ModelToRun:
    return ModelToRun(
        config=config,
        platform=CPU,
        layers=LAYERS,
        dtype=torch.float32,
        cache_dtype=torch.float32,
        may_change=may_change,
    )


class Choices:
    """Makes forward passes, and remembers which kind was asked for."""

    def __init__(self) -> None:
        self.asked: list[bool] = []

    def __call__(self, *, may_compile: bool, why_torch: str = "") -> ModuleForward:
        self.asked.append(may_compile)
        return ModuleForward(None, None, name="modules", reason=why_torch)  # type: ignore[arg-type]


@pytest.fixture
def no_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty cache of kernels."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    jit.kept_cache.cache_clear()
    yield
    jit.kept_cache.cache_clear()


@pytest.mark.usefixtures("no_kernels")
def test_missing_kernels_are_asked_for_again_later() -> None:
    """
    The first steps use torch, and the forward pass with kernels can be made later.
    """
    choose = Choices()
    # Of a shape that no other test uses: kernels stay loaded.
    layers = (LayerCache(num_heads=3, num_kv_heads=1, key_dim=48, value_dim=48),)

    first = first_forward(
        replace(model(EngineConfig(executor=BESIDE)), layers=layers), choose
    )

    assert first.forward.reason == COMPILING
    assert choose.asked == [False]
    assert isinstance(first.upgrade, WorkerUpgrade)
    first.upgrade._make_forward()
    assert choose.asked == [False, True]


def test_engine_that_cannot_keep_kernels_compiles_them_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """
    Where the cache cannot be written, no other process could hand kernels over.
    """
    blocking = tmp_path / "file"
    blocking.touch()
    for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "HOME", "TMPDIR", "TEMP", "TMP"):
        monkeypatch.setenv(name, str(blocking))
    monkeypatch.setattr("hookline_host.folders._USUAL", ())
    jit.kept_cache.cache_clear()
    choose = Choices()

    first = first_forward(model(EngineConfig(executor=BESIDE)), choose)

    assert choose.asked == [True]
    assert first.upgrade is None
    assert "XDG_CACHE_HOME" in caplog.text
    jit.kept_cache.cache_clear()


@pytest.mark.parametrize(
    "waiting",
    [
        model(EngineConfig()),
        model(EngineConfig(executor=BESIDE, sections=WAITS)),
        model(EngineConfig(executor=BESIDE), may_change=False),
    ],
)
def test_engine_that_must_not_change_waits_for_its_kernels(
    waiting: ModelToRun,
) -> None:
    """
    In one process, if told so, or if somebody keeps its forward pass, kernels come
    before the first step.
    """
    choose = Choices()

    first = first_forward(waiting, choose)

    assert choose.asked == [True]
    assert first.upgrade is None


@pytest.mark.parametrize("reason", ["uses_cache", "keeps_forward"])
def test_extension_that_keeps_what_it_is_shown_forbids_a_change(reason: str) -> None:
    """
    A side that has been shown a KV cache or kernels must not see others later.
    """
    side = WorkerSide()
    setattr(side, reason, True)

    assert FollowedRows([side]).keeps_forward
    assert not FollowedRows([WorkerSide()]).keeps_forward


def test_cache_keeps_its_memory_when_attention_changes() -> None:
    """
    Kernels attend over the very keys and values that torch has written.
    """
    plain = PagedCache(LAYERS, 2, 16, torch.float32, may_compile=False)

    cache = plain.with_kernels()

    assert cache.keys[0].data_ptr() == plain.keys[0].data_ptr()
    assert [each.name for each in plain.attention.values()] == ["torch"]
    assert [each.name for each in cache.attention.values()] == ["compiled"]


class Compiled:
    """Reports as a compiling process does, and waits to be allowed to end."""

    def __init__(self, *reports: CompilerMessage) -> None:
        self._reports = reports
        self.may_end = Event()
        self.is_closed = False

    def messages(self) -> Iterator[CompilerMessage]:
        assert self.may_end.wait(60)
        yield from self._reports

    def close(self) -> None:
        self.is_closed = True
        self.may_end.set()


def wait_for(upgrade: KernelUpgrade[str]) -> None:
    upgrade._thread.join(60)
    assert not upgrade.is_running


def test_what_is_built_with_kernels_is_taken_once() -> None:
    """
    Nothing is built before the kernels are there; then it is given out, once.
    """
    compiler = Compiled(KernelCompiled("norm", 0.1, succeeded=True), ENDED)
    upgrade = KernelUpgrade(compiler, lambda: "built")

    assert upgrade.is_running
    assert upgrade.pop() is None
    compiler.may_end.set()
    wait_for(upgrade)

    assert upgrade.pop() == "built"
    assert upgrade.pop() is None


def test_kernels_that_cannot_be_compiled_leave_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """
    The log says why steps stay with torch, and nothing is built.
    """
    compiler = Compiled(CompilationRefused("the disk is full"))
    upgrade = KernelUpgrade(compiler, lambda: "built")

    compiler.may_end.set()
    wait_for(upgrade)

    assert upgrade.pop() is None
    assert "the disk is full" in caplog.text


def test_kernels_that_cannot_be_used_leave_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """
    A failure while something is built with the kernels does not harm the engine.
    """

    def build() -> str:
        raise RuntimeError("wrong numbers")

    compiler = Compiled(ENDED)
    upgrade = KernelUpgrade(compiler, build)
    compiler.may_end.set()
    wait_for(upgrade)

    assert upgrade.pop() is None
    assert "wrong numbers" in caplog.text


def test_closed_upgrade_builds_nothing() -> None:
    """
    Closing ends the compiler, and the thread takes nothing of it over.
    """
    compiler = Compiled(ENDED)
    upgrade = KernelUpgrade(compiler, lambda: "built")

    upgrade.close()

    assert compiler.is_closed
    assert upgrade.pop() is None


def test_few_layers_have_one_of_each_kind() -> None:
    """
    A model of equal layers keeps two, and one whose layers differ as many as it takes.
    """
    equal = LlamaConfig(num_hidden_layers=32)
    mixed = Gemma3TextConfig(num_hidden_layers=26)

    keep_few_layers(equal)
    keep_few_layers(mixed)

    assert equal.num_hidden_layers == 2
    assert mixed.layer_types is not None
    assert set(mixed.layer_types) == {"sliding_attention", "full_attention"}
    assert len(mixed.layer_types) == mixed.num_hidden_layers < 26
