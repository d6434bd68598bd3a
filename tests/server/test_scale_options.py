"""`--autoscale`: what it means, and what it cannot be combined with."""

from dataclasses import replace

import pytest

from hookline import LLM
from hookline.config import EngineConfig
from hookline.engine_setup.engine_facts import config_hash
from hookline.exceptions import ConfigError
from hookline_cluster.config import ClusterConfig, EngineRange
from hookline_server.cli import main
from hookline_testing.serve_options import options_of


def test_a_server_begins_with_as_few_as_allowed() -> None:
    """Unless it is told with how many; all divide the machine as the most would."""
    config, _ = options_of(["serve", "--autoscale=2:6"])
    more, _ = options_of(["serve", "--autoscale=2:6", "--data-parallel-size=3"])

    assert ClusterConfig.of(config).autoscale == EngineRange(2, 6)
    assert config.engine_indices == (0, 1)
    assert more.engine_indices == (0, 1, 2)
    assert (config.engines_here, config.num_concurrent) == (6, 6)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--autoscale=4"], "'4' is not MIN:MAX"),
        (["--autoscale=1:many"], "is not MIN:MAX"),
        (["--autoscale=0:2"], "autoscale: 0:2 must be MIN:MAX with 1 <= MIN"),
        (["--autoscale=3:2"], "autoscale: 3:2 must be MIN:MAX"),
        (["--autoscale=1:65"], "MAX <= 64"),
        (["--autoscale=1:2", "--data-parallel-size=3"], "does not include"),
        (["--autoscale=1:2", "--in-process"], "autoscale: is not possible with --in-"),
        (
            ["--autoscale=2:2", "--data-parallel-size-local=1"],
            "autoscale: is not possible with --data-parallel-size-local",
        ),
        (["--autoscale-target=0"], "autoscale-target"),
        (["--autoscale-quiet=-1"], "autoscale-quiet"),
    ],
)
def test_mistakes_are_found_before_the_model_loads(
    capsys: pytest.CaptureFixture[str], argv: list[str], message: str
) -> None:
    """Each is one error that names the option."""
    status = main(["serve", "demo", "--executor=simulated", "--port=0", *argv])

    assert status == 2
    assert message in capsys.readouterr().err


def test_offline_engines_do_not_come_and_go() -> None:
    """The option is for servers."""
    with pytest.raises(ConfigError, match="autoscale: is for servers"):
        LLM(executor="simulated", autoscale="1:2")


def test_an_engine_that_joins_has_the_hash_of_the_others() -> None:
    """What it is told of their size is no option."""
    config = EngineConfig.from_options(autoscale="1:2")
    cache = replace(config.cache, sibling_blocks=64)

    assert not config.in_process
    assert config_hash(replace(config, cache=cache)) == config_hash(config)
