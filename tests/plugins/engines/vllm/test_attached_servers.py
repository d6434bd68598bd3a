"""Several API servers, of which each is told its own part, are counted together."""

import logging
import os
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hookline.config.engine import EngineConfig
from hookline.exceptions import ConfigError
from hookline.frontend.observation import Observers
from hookline_recording.folder import OWNER_VARIABLE, owner_of_engines
from hookline_testing.attached_vllm import AttachedServer
from hookline_testing.fake_vllm import (
    LENGTH,
    EngineCoreOutput,
    SchedulerStats,
    vllm_config,
)
from hookline_testing.own_time import Deadline
from hookline_testing.waiting import PATIENCE_SECONDS
from hookline_vllm import api_servers
from hookline_vllm.api_servers import ApiServers
from hookline_vllm.telling import Telling


@pytest.fixture
def servers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[AttachedServer, AttachedServer]]:
    """Two, whose loggers have one process."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv(OWNER_VARIABLE, "")
    monkeypatch.setenv("HOOKLINE_STAT_LOGGERS", "prometheus")
    with ExitStack() as stack:
        made = [stack.enter_context(closing(AttachedServer(n, 2))) for n in (0, 1)]
        for each in made:
            each.wait_until_begun()
        yield made[0], made[1]
    assert not list(tmp_path.glob("hookline-vllm-*/*"))


@pytest.mark.slow
async def test_one_process_counts_the_requests_of_all_servers(
    servers: tuple[AttachedServer, AttachedServer],
) -> None:
    """Whichever server is asked for the page, and was told the scheduler's state."""
    one, other = servers
    for name, server in (("a", one), ("b", one), ("c", other)):
        server.vllm.add(name)
    one.vllm.step(
        EngineCoreOutput("a", [1], LENGTH), stats=SchedulerStats(3, kv_cache_usage=0.5)
    )
    other.vllm.stat_logger.record(None, None)
    shown = {
        'hookline_requests_received_total{engine="0",model_name="tiny"} 3.0',
        'hookline_requests_running{engine="0",model_name="tiny"} 2.0',
        'hookline_kv_cache_usage_ratio{engine="0",model_name="tiny"} 0.5',
        'hookline_observer_front_ends{model_name="tiny"} 2.0',
    }

    for server in servers:
        patience, missing = Deadline(PATIENCE_SECONDS), shown
        while missing and patience.is_ahead:
            status, text = await server.page("/hookline/metrics")
            missing = shown - {*text.splitlines()}
        assert (status, missing) == (200, set())
    assert (await one.page("/hookline/other"))[0] == 404


def test_servers_without_a_common_process_count_apart(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A log line says so; one server needs no process."""
    monkeypatch.setattr(api_servers, "installed", lambda _: [])
    monkeypatch.setenv(OWNER_VARIABLE, "")
    assert owner_of_engines(is_apart=True) == os.getppid()
    assert owner_of_engines(is_apart=False) == os.getpid()
    config = EngineConfig()

    with caplog.at_level(logging.WARNING):
        observers = ApiServers(2, 1).observe(config)
    assert isinstance(observers, Observers)
    assert ApiServers(2, 1).sections(observers) == {}
    assert "each of 2 API servers counts its own" in caplog.text
    assert owner_of_engines(is_apart=False) == os.getppid()  # whose they are
    wanted = EngineConfig.from_options(observer_process=True)
    with pytest.raises(ConfigError, match="hookline-observer"):
        ApiServers(1, 0).observe(wanted)


def test_engines_of_one_server_share_nothing() -> None:
    """Its facts have no section of other front ends."""
    observers: Any = SimpleNamespace(address="here")

    assert ApiServers(1, 0).sections(observers) == {}
    assert ApiServers(2, 0).sections(observers).keys() == {"front_ends"}


@pytest.mark.parametrize("is_elastic", [False, True])
def test_loggers_that_vllm_may_drop_say_so(
    is_elastic: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It makes new ones as it scales up, and none of those that plugins have."""
    monkeypatch.setenv("HOOKLINE_STAT_LOGGERS", "none")
    config = vllm_config()
    config.parallel_config.enable_elastic_ep = is_elastic

    with caplog.at_level(logging.WARNING):
        Telling(config, [0], tells_requests=True).close(0.0)

    assert ("when it scales up" in caplog.text) is is_elastic
