"""Engines whose proposer a test makes."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from hookline import LLM
from hookline.config import EngineConfig
from hookline_drafting import Proposer
from hookline_testing.plugin_site import PluginSite

_PLUGIN = """
from hookline import hookimpl

proposer = None


@hookimpl
def create_proposer(context):
    return proposer
"""

SpeculatingLLM = Callable[[EngineConfig, Proposer], AbstractContextManager[LLM]]


@pytest.fixture
def speculating_llm(tmp_path: Path) -> Iterator[SpeculatingLLM]:
    """An engine in this process with a proposer, installed as the method `scripted`.

    The configuration's own `speculative` has to name it.
    """
    folder = tmp_path / "site"
    folder.mkdir()
    with PluginSite(folder) as site:
        site.install("scripted", _PLUGIN, group="hookline.proposers")

        @contextmanager
        def make(config: EngineConfig, proposer: Proposer) -> Iterator[LLM]:
            vars(site.module("scripted"))["proposer"] = proposer
            with LLM.from_config(config) as llm:
                yield llm

        yield make
