"""Hashes of configurations are equal for equal options, and only for them."""

import dataclasses
import subprocess
import sys

from hookline.config import EngineConfig, ModelConfig
from hookline.engine_setup.engine_facts import config_hash
from hookline_metrics.config import MetricsConfig

CONFIG = EngineConfig(kv_transfer={"kv_connector": "cpu_offload"})


def test_engines_of_one_server_share_the_hash() -> None:
    """
    The engine's index is not part of it.
    """
    second = dataclasses.replace(CONFIG, engine_index=1)

    assert config_hash(second) == config_hash(CONFIG)


def test_any_option_changes_the_hash() -> None:
    """
    Options of the model, a connector and the metrics count alike.
    """
    labelled = MetricsConfig(labels={"zone": "a"})
    others = [
        dataclasses.replace(CONFIG, model=ModelConfig(model="other")),
        dataclasses.replace(CONFIG, kv_transfer=None),
        dataclasses.replace(CONFIG, sections={"metrics": labelled}),
    ]

    hashes = {config_hash(each) for each in (CONFIG, *others)}

    assert len(hashes) == 1 + len(others)
    assert all(len(each) == 12 for each in hashes)


def test_another_process_finds_the_same_hash() -> None:
    """
    It does not depend on the process, such as by the order of its sets.
    """
    program = (
        "from hookline.config import EngineConfig\n"
        "from hookline.engine_setup.engine_facts import config_hash\n"
        "print(config_hash(EngineConfig()))"
    )

    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )

    assert done.stdout.strip() == config_hash(EngineConfig())
