"""Settings of all tests.

Several test processes share the processors: half as many again as there are, or
`HOOKLINE_TEST_PROCESSES` times as many, because many tests wait for other processes.
An OpenMP thread that spins while it waits takes a core from the one that it waits for:
beside a second test process, tests of whole models then take ten times as long.

Kernels emulate a matrix unit (AMX) on machines without one, so that they are tested on
all machines.

Garbage is not collected while tests are, and no collection looks at modules and tests
later: to walk through all that are loaded takes as long as the start of an engine. So
engines in a test process do not freeze and unfreeze. Tests of settled heaps start
processes.

A run behind `nohup` or `&` ignores signals that tests send to processes, which would
inherit that; they do not inherit handlers.

Hypothesis does not judge how fast examples are drawn and tried: that depends on the
machine.
"""

import gc
import os
import signal
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:  # they import torch, and not all tests do
    from hookline import LLM
    from hookline_testing.oracle import Oracle

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # read when torch is imported
os.environ.setdefault("GOMP_SPINCOUNT", "0")
os.environ["HF_HUB_OFFLINE"] = "1"  # tests of downloads have a hub of their own
os.environ.setdefault(
    "HOOKLINE_EMULATE_AMX",
    f"missing:{Path(__file__).parents[1]}"
    "/tools/testing/src/hookline_testing/emulated_amx.py",
)

from hookline_kernels.runtime import allocator, gc_freeze
from hookline_testing.essential import may_be_asked_for
from hookline_testing.forked_servers import forks_from_the_second_on
from hookline_testing.forks_of_supervised import fork_supervised
from hookline_testing.long_first import long_first


def _freeze_without_collecting() -> None:
    allocator.return_freed_memory()


settings.register_profile(
    "untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("untimed")

for number in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, lambda *_: None)

fork_supervised(forks_from_the_second_on())
gc_freeze.freeze_gc = _freeze_without_collecting  # before others import it by name
gc_freeze.unfreeze_gc = lambda: None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Sets what is loaded for the tests apart from what they make."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_unconfigure() -> None:
    """Lets the interpreter take everything apart, or libraries report leaks."""
    gc.unfreeze()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leaves out files none of whose tests can have the marks that `-m` asks for.

    To import all files takes a large part of a minute in each process.
    """
    asked = config.getoption("markexpr")
    if not asked or not collection_path.match("test_*.py"):
        return None
    marking = (collection_path, collection_path.with_name("conftest.py"))
    text = "".join(each.read_text("utf-8") for each in marking if each.exists())
    return None if may_be_asked_for(text, asked) else True


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Orders the tests for the processes of a run."""
    if (worker := getattr(config, "workerinput", None)) is not None:
        items[:] = long_first(items, worker["workercount"])


def pytest_xdist_auto_num_workers() -> int:
    """Returns the number of processes of `-n auto`."""
    times = float(os.environ.get("HOOKLINE_TEST_PROCESSES", "1.5"))
    return max(1, round(times * len(os.sched_getaffinity(0))))


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> "Oracle":
    """One small random model, which serves where the family does not matter."""
    from hookline_testing.oracle import make_oracle  # noqa: PLC0415

    return make_oracle("llama", tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="module")
def module_llm(llama: "Oracle") -> "Iterator[LLM]":
    """One engine of it for the tests of a module; they use `llm`."""
    from hookline import LLM  # noqa: PLC0415
    from hookline.config import CacheConfig, EngineConfig, ModelConfig  # noqa: PLC0415

    config = EngineConfig(
        model=ModelConfig(model=str(llama.folder)),
        cache=CacheConfig(num_kv_blocks=512),
    )
    with LLM.from_config(config) as llm:
        yield llm


@pytest.fixture
def llm(module_llm: "LLM") -> "Iterator[LLM]":
    """The module's engine; whatever a test does to it, the books balance."""
    from hookline_testing import assert_conserved  # noqa: PLC0415

    yield module_llm

    assert_conserved(module_llm)
