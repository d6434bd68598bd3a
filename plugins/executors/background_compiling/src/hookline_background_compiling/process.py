"""Compiles one engine's kernels: `python -m hookline_background_compiling.process`.

Its owner sends the engine's configuration, and is sent reports. It loads the model with
few layers and tries what an engine would, with every kernel that is missing compiled in
another process.
"""

import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from hookline.clock import SystemClock
from hookline.config.engine import EngineConfig
from hookline.config.executor import Kernels
from hookline.config.extensions import DRAFTING
from hookline.engine.worker.executor import Executor, ExecutorContext
from hookline.engine_setup.executor_factory import RANKS, load_executor_factory
from hookline.exceptions import ConfigError, ModelLoadError
from hookline.plugin_loading.extensions import load_extensions
from hookline.startup_timer import StartupTimer
from hookline_background_compiling.messages import (
    CompilationEnded,
    CompilationRefused,
    CompilerMessage,
    KernelCompiled,
)
from hookline_description.describing import describe
from hookline_host.cpu_quota import usable_cores
from hookline_host.memory import available_memory
from hookline_kernels import KernelError
from hookline_kernels.compile_farm import CompileFarm
from hookline_kernels.missing import when_missing
from hookline_kernels.runtime.kernel_cache import writable_cache
from hookline_kernels.token_mask import choose_masking
from hookline_models.uniproc import resolve
from hookline_processes.owner import Owner, run_supervised

_PROCESS_BYTES = 512 * 2**20
"""Memory of a process that compiles, about."""
_END_SECONDS = 5.0
"""Time for processes of the farm to end before this one ends without them."""


def main(owner: Owner, _: Sequence[str]) -> int:
    """Compiles, and returns the exit status: 0 also for a refusal."""
    if (data := owner.receive_bytes()) is None:
        return 0  # the owner has gone already
    config = msgspec.msgpack.decode(data, type=EngineConfig)

    def report(message: CompilerMessage) -> None:
        owner.send_bytes(msgspec.msgpack.encode(message))

    farm = CompileFarm(_processes(), lambda *facts: report(KernelCompiled(*facts)))
    _end_with(owner, farm)
    try:
        folder = writable_cache()
        kernels = _compile(config, farm)
    except (ConfigError, ModelLoadError, KernelError) as error:
        report(CompilationRefused(str(error)))
    else:
        report(outcome(folder, kernels, farm.not_kept))
    finally:
        farm.close()
        _end_as_usual()
    return 0


def outcome(folder: Path, kernels: str, not_kept: int) -> CompilerMessage:
    """Returns the last report, by the number of kernels that could not be written."""
    if not_kept:
        return CompilationRefused(
            f"{not_kept} kernels could not be written to {folder}; is its disk full?"
        )
    return CompilationEnded(str(folder), kernels)


def _processes() -> int:
    """Returns how many processes have a core and memory."""
    memory = available_memory()
    if memory is None:
        return usable_cores()
    return max(1, min(usable_cores(), memory // _PROCESS_BYTES))


def _compile(config: EngineConfig, farm: CompileFarm) -> str:
    """Compiles what an engine of this configuration needs; returns its kernels."""
    config, clock = _small(config), SystemClock()
    timer = StartupTimer(clock)
    config = resolve(config, timer)
    extensions = load_extensions(config, is_rank=True, only={DRAFTING})
    if not extensions:  # which may look at all layers
        config = replace(config, model=replace(config.model, has_few_layers=True))
    context = ExecutorContext(
        config=config, clock=clock, timer=timer, extensions=extensions
    )
    with when_missing(farm):
        executor = _executor(context)
        choose_masking()  # requests with grammars need it later
        try:
            farm.finish()
            return executor.shape.kernels
        finally:
            executor.close()


def _executor(context: ExecutorContext) -> Executor:
    """Builds the engine's executor, or one of a rank on its own.

    Ranks have kernels of their own sizes, and sum by further ones.
    """
    # Imported once it is known which parts of torch are left out.
    from hookline.engine.worker.rank_context import SINGLE_RANK  # noqa: PLC0415
    from hookline.engine.worker.uniproc import UniprocExecutor  # noqa: PLC0415
    from hookline_models.building import build_worker  # noqa: PLC0415

    parallel, ranks = context.config.parallel, SINGLE_RANK
    if parallel.tensor_parallel_size > 1 or context.config.spreads_experts:
        make_single_rank = load_executor_factory(RANKS).make_single_rank
        assert make_single_rank is not None
        ranks = make_single_rank(context.config)
    return UniprocExecutor(build_worker(context, ranks))


def _small(config: EngineConfig) -> EngineConfig:
    """Returns the configuration of an engine that needs little memory and no thread."""
    length = describe(config.model).max_model_len(config.model.max_model_len)
    blocks = 1 + -(-length // config.cache.block_size)
    return replace(
        config,
        cache=replace(
            config.cache,
            num_kv_blocks=blocks,
            kv_cache_memory=None,
            kv_cache_prefault=0,
        ),
        executor=replace(
            config.executor,
            threads=1,
            kernels=Kernels.AUTO,
            shares_cores=False,
        ),
        scheduler=replace(config.scheduler, async_scheduling=False),
        parallel=replace(config.parallel, pipeline_parallel_size=1, rank=0),
        kv_transfer=None,
        logits_processors=(),
    )


def _end_with(owner: Owner, farm: CompileFarm) -> None:
    """Ends this process and those of the farm with the owner, or when asked."""

    def end(*_: object) -> None:
        farm.close()
        os._exit(1)  # an exception would be taken for a failed trial

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    owner.watch(_end_by_signal)


def _end_by_signal() -> None:
    """Has the main thread end the farm, which is for no other."""
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_END_SECONDS)


def _end_as_usual() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


if __name__ == "__main__":
    sys.exit(run_supervised(main, ignored=()))
