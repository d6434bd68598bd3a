"""Engines that take KV from each other, over a wire that tests spoil."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from hookline.clock import SystemClock
from hookline.config import (
    CacheConfig,
    EngineConfig,
    ExecutorConfig,
    ModelConfig,
)
from hookline.engine_setup.building import build_core
from hookline_faults.p2p_transport import Wire
from hookline_faults.wire_time import WireTime
from hookline_kv_transfer import KVTransferConfig
from hookline_testing.driven_engine import DrivenEngine, SystemPace
from hookline_testing.plugin_site import PluginSite

_PLUGIN = """
from hookline import hookimpl
from hookline_p2p import P2POptions, SchedulerSide, WorkerSide, make_transport
from hookline_faults.p2p_transport import SpoiltTransport

wires = []


@hookimpl
def create_kv_connector(context):
    options = P2POptions.from_mapping(context.options)
    if context.role == "scheduler":
        return SchedulerSide(options)
    transport = SpoiltTransport(make_transport(options), wires[-1])
    clock = wires[-1].clock
    return WorkerSide(options, transport, chunk_bytes=64, clock=clock)
"""

MakeEngine = Callable[..., tuple[DrivenEngine, Wire]]


@contextmanager
def engines(folder: Path, time: WireTime | None = None) -> Iterator[MakeEngine]:
    """Starts engines with options of their own, each behind a wire, and ends them.

    Two of their blocks go into a message. Without a model an engine's tokens are right
    only on the right KV, too. Time is the system's unless one is given.
    """
    with PluginSite(folder) as site, ExitStack() as stack:
        site.install("peers", _PLUGIN, group="hookline.connectors")

        def make(
            config: EngineConfig | None = None,
            *,
            load_timeout_seconds: float = 1.5,
            save_timeout_seconds: float = 2.0,
            **options: object,
        ) -> tuple[DrivenEngine, Wire]:
            transfer = KVTransferConfig(
                kv_connector="peers",
                kv_load_timeout_seconds=load_timeout_seconds,
                kv_save_timeout_seconds=save_timeout_seconds,
            )
            config = config or EngineConfig(
                model=ModelConfig(max_model_len=512),
                cache=CacheConfig(block_size=4, num_kv_blocks=256),
                executor=ExecutorConfig(name="simulated"),
            )
            given = {"peer_timeout_seconds": 0.6, **options}
            named = config.kv_transfer or transfer.section()
            own = {**named, "kv_connector_extra_config": given}
            wire = Wire(time=time)
            vars(site.module("peers"))["wires"].append(wire)
            clock = SystemClock() if time is None else time.clock
            core = build_core(replace(config, kv_transfer=own), clock)
            stack.callback(core.close)
            return DrivenEngine(core, SystemPace() if time is None else time), wire

        yield make


@pytest.fixture
def make_engine(tmp_path: Path) -> Iterator[MakeEngine]:
    """As `engines`, in virtual time."""
    folder = tmp_path / "site"
    folder.mkdir()
    with engines(folder, WireTime()) as make:
        yield make


@pytest.fixture
def make_real_engine(tmp_path: Path) -> Iterator[MakeEngine]:
    """As `engines`, in the system's time: others than these engines use it, too."""
    folder = tmp_path / "site"
    folder.mkdir()
    with engines(folder) as make:
        yield make
