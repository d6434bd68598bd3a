"""What a pipeline of stages does not do."""

from dataclasses import replace

import pytest

from hookline.config import EngineConfig, ExecutorConfig, ParallelConfig
from hookline.exceptions import ConfigError
from hookline_background_compiling import process

TWO = replace(EngineConfig(), parallel=ParallelConfig(pipeline_parallel_size=2))


def test_one_process_has_one_stage() -> None:
    """The error names the option and the executor."""
    with pytest.raises(ConfigError, match=r"pipeline-parallel-size: 2.*uniproc"):
        replace(TWO, executor=ExecutorConfig(name="uniproc"))


def test_kernels_are_compiled_for_all_stages() -> None:
    """By one rank that has layers of every kind, the embedding and the output layer."""
    model = replace(TWO.model, model="demo")

    small = process._small(replace(TWO, model=model))

    assert small.parallel.pipeline_parallel_size == 1
