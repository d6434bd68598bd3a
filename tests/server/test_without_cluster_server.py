"""A server without the distribution hookline-cluster has the engine that it has."""

from contextlib import closing
from pathlib import Path

import pytest

from hookline.config import EngineConfig
from hookline.exceptions import ConfigError
from hookline_server.cli.commands.headless import run_headless
from hookline_server.cli.engine_starter import owner_starter
from hookline_server.engine_number import ScalingReport, ScalingState
from hookline_server.fixed_number import FixedNumber
from hookline_server.logs.options import LogFormat
from hookline_server.logs.set_up import ServerLog
from hookline_server.settings import ServerSettings
from hookline_testing.payloads import FACTS


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOKLINE_PLUGINS", "no:hookline-cluster")


async def test_the_number_of_engines_is_shown_and_stays() -> None:
    """What would change it is named."""
    number = FixedNumber(FACTS)

    assert await number.report() == ScalingReport(
        ScalingState((FACTS.engine_index,)), 1, is_changing=False
    )
    with pytest.raises(ConfigError, match="hookline-cluster, which is not installed"):
        await number.scale(2, drain_seconds=1.0)


def test_several_api_servers_need_it(tmp_path: Path) -> None:
    """Before anything is started."""
    config = EngineConfig(in_process=False)

    with (
        (tmp_path / "log").open("wb") as file,
        closing(ServerLog(LogFormat.CONSOLE, file.fileno())) as log,
        pytest.raises(ConfigError, match=r"api-server-count: .*hookline-cluster"),
    ):
        owner_starter(config, log)


def test_engines_of_another_machines_server_need_it() -> None:
    """`--headless` is refused."""
    with pytest.raises(ConfigError, match=r"headless: .*hookline-cluster"):
        run_headless(EngineConfig(), ServerSettings())
