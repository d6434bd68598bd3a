"""Engines that share experts, each driven by a thread of one process."""

import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import torch

from hookline.clock import SystemClock
from hookline.config import EngineConfig
from hookline.engine.engine_core import EngineCore
from hookline.engine.worker.executor import ExecutorContext
from hookline.engine_setup.building import build_executor
from hookline.engine_setup.engine_facts import engine_facts
from hookline.engine_setup.executor_factory import load_executor_factory
from hookline.engine_setup.making import make_scheduler_parts
from hookline.startup_timer import StartupTimer
from hookline_ranks.experts.links import ExpertLinks
from hookline_ranks.experts.sharing import keep_step
from hookline_ranks.processes.ring import make_bell
from hookline_ranks.processes.shared_memory import make_memory
from hookline_testing.driven_engine import DrivenEngine


@contextmanager
def expert_links(engines: int) -> Iterator[list[ExpertLinks]]:
    """Makes memory that engines of this process share; yields each one's links."""
    tokens, steps = make_memory(), make_memory()
    bells = tuple(make_bell() for _ in range(engines))
    try:
        yield [
            ExpertLinks(tokens=tokens, steps=steps, bells=bells, index=index)
            for index in range(engines)
        ]
    finally:
        for descriptor in (tokens, steps, *bells):
            os.close(descriptor)


@contextmanager
def sharing_engines(
    folder: Path, engines: int, **options: object
) -> Iterator[list[DrivenEngine]]:
    """Builds engines of one rank each, which have different experts of a model."""
    config = EngineConfig.from_options(
        model=str(folder),
        data_parallel_size=engines,
        enable_expert_parallel=True,
        threads=1,
        **options,
    )
    threads = torch.get_num_threads()
    with ExitStack() as stack:
        stack.callback(torch.set_num_threads, threads)
        links = stack.enter_context(expert_links(engines))
        # One after another: `transformers` loads one model at a time.
        yield [
            DrivenEngine(stack.enter_context(closing(_core(config.of_engine(at), own))))
            for at, own in enumerate(links)
        ]


def _core(config: EngineConfig, links: ExpertLinks) -> EngineCore:
    clock = SystemClock()
    factory = keep_step(links, load_executor_factory(config.executor_name))
    context = ExecutorContext(config=config, clock=clock, timer=StartupTimer(clock))
    executor = build_executor(factory, context)
    facts = engine_facts(config, executor.shape)
    parts = make_scheduler_parts(config, executor.shape, clock)
    return EngineCore(config, executor, clock, facts, parts)


def run_together(engines: Sequence[DrivenEngine]) -> None:
    """Drives all engines, each in a thread, until none has work left."""
    busy, lock = set(range(len(engines))), threading.Lock()

    def drive(index: int) -> None:
        engine = engines[index]
        while busy:
            if engine.core.has_work:
                engine.turn()
                continue
            with lock:
                busy.discard(index)
            sharing = engine.core.sharing
            assert sharing is not None
            if not sharing.assist_others():
                threading.Event().wait(0.0005)

    with ThreadPoolExecutor(len(engines), "engine") as pool:
        list(pool.map(drive, range(len(engines))))
