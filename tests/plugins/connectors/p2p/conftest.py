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
from hookline.core.building import build_core
from hookline_faults.p2p_transport import Wire
from hookline_kv_transfer import KVTransferConfig
from hookline_testing.driven_engine import DrivenEngine
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
    return WorkerSide(options, transport, chunk_bytes=64)
"""

MakeEngine = Callable[..., tuple[DrivenEngine, Wire]]


@contextmanager
def engines(folder: Path) -> Iterator[MakeEngine]:
    """Starts engines with options of their own, each behind a wire, and ends them.

    Two of their blocks go into a message. Without a model an engine's tokens are right
    only on the right KV, too.
    """
    with PluginSite(folder) as site, ExitStack() as stack:
        site.install("peers", _PLUGIN, group="hookline.connectors")

        def make(
            config: EngineConfig | None = None,
            *,
            save_timeout_seconds: float = 2.0,
            **options: object,
        ) -> tuple[DrivenEngine, Wire]:
            transfer = KVTransferConfig(
                kv_connector="peers",
                kv_load_timeout_seconds=1.5,
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
            wire = Wire()
            vars(site.module("peers"))["wires"].append(wire)
            core = build_core(replace(config, kv_transfer=own), SystemClock())
            stack.callback(core.close)
            return DrivenEngine(core), wire

        yield make


@pytest.fixture
def make_engine(tmp_path: Path) -> Iterator[MakeEngine]:
    """As `engines`."""
    folder = tmp_path / "site"
    folder.mkdir()
    with engines(folder) as make:
        yield make
