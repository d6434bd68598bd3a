"""Engines whose KV connector a test makes."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from hookline import LLM
from hookline.config import EngineConfig
from hookline_testing.connectors import DictStore
from hookline_testing.plugin_site import PluginSite

_PLUGIN = """
from hookline import hookimpl
from hookline_testing.connectors import DictScheduler, DictWorker

store = None


@hookimpl
def create_kv_connector(context):
    if context.role == "scheduler":
        return DictScheduler(store, context.config.cache.block_size)
    return DictWorker(store)
"""

ConnectedLLM = Callable[[EngineConfig, DictStore], AbstractContextManager[LLM]]


@pytest.fixture
def connected_llm(tmp_path: Path) -> Iterator[ConnectedLLM]:
    """An engine in this process with a connector, installed as `dict`.

    The configuration's own `kv_transfer` has to name it.
    """
    folder = tmp_path / "site"
    folder.mkdir()
    with PluginSite(folder) as site:
        site.install("dict", _PLUGIN, group="hookline.connectors")

        @contextmanager
        def make(config: EngineConfig, store: DictStore) -> Iterator[LLM]:
            vars(site.module("dict"))["store"] = store
            with LLM.from_config(config) as llm:
                yield llm

        yield make
