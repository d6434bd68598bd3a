"""The engine in another process: outputs, failing starts, shutdown."""

import os
import select
import signal
import subprocess
import sys
import tempfile
from contextlib import closing
from dataclasses import fields, is_dataclass, replace
from pathlib import Path

import msgspec
import pytest

from hookline import LLM, ConfigError, EngineDeadError, ModelLoadError, SamplingParams
from hookline.config import (
    CacheConfig,
    EngineConfig,
    ExecutorConfig,
    ModelConfig,
    SchedulerConfig,
)
from hookline.engine.commands import Finish
from hookline.finish_cause import Aborted
from hookline.transport.engine_client import EngineDied
from hookline_host.oom_kills import OomKills
from hookline_process_engine.process_client import ProcessClient
from hookline_processes import supervised
from hookline_testing import assert_conserved
from hookline_testing.file_trees import write_files
from hookline_testing.oracle import Oracle

WAIT_SECONDS = 20.0

FRONT_END = """
import sys
from hookline import LLM, SamplingParams
from hookline.config import *

config = EngineConfig.from_options(
    model=sys.argv[1],
    executor="simulated",
    simulated_step_seconds=0.2,
    in_process=False,
)
llm = LLM.from_config(config)
print(llm.front_end.engines.client.pids[0], flush=True)
if sys.argv[2] == "busy":
    llm.generate([[1, 2]], SamplingParams(max_tokens=250))
sys.stdin.read()
"""


def config_for(folder: Path, **more: object) -> EngineConfig:
    model = ModelConfig(model=str(folder), **more)  # type: ignore[arg-type]
    return EngineConfig(
        model=model, cache=CacheConfig(num_kv_blocks=64), in_process=False
    )


def simulated(config: EngineConfig) -> EngineConfig:
    """The same without a model, whose process starts in a fraction of the time."""
    return replace(config, executor=ExecutorConfig(name="simulated"))


def wait_until_gone(process: int) -> None:
    """Waits for the end of a process, which need not be a child, by its pidfd."""
    poller = select.poll()
    poller.register(process, select.POLLIN)
    assert poller.poll(WAIT_SECONDS * 1000)


def parts(outputs: object) -> tuple[list[object], list[float]]:
    """All values of the outputs in order: what must be equal, and log-probabilities."""
    if isinstance(outputs, float):
        return [], [outputs]
    if is_dataclass(outputs):
        inner = [getattr(outputs, field.name) for field in fields(outputs)]
    elif isinstance(outputs, msgspec.Struct):
        inner = list(msgspec.structs.astuple(outputs))
    elif isinstance(outputs, list | tuple):
        inner = list(outputs)
    else:
        return [outputs], []
    found = [parts(value) for value in inner]
    return (
        [len(inner), *(value for exact, _ in found for value in exact)],
        [number for _, numbers in found for number in numbers],
    )


@pytest.mark.exhaustive
def test_outputs_are_those_of_the_same_process(llama: Oracle) -> None:
    """Everything a request can bring back crosses the boundary unchanged."""
    prompts: list[str | list[int]] = [
        "def f(x):",
        [1, 2, 3],
        list(range(50, 90)),
        list(range(50, 90)),
    ]
    each = [
        SamplingParams(temperature=0.0, max_tokens=16),
        SamplingParams(n=3, seed=7, max_tokens=9, logprobs=2, prompt_logprobs=1),
        SamplingParams(temperature=0.7, seed=1, max_tokens=20, stop=("a", "e")),
        SamplingParams(
            seed=2,
            max_tokens=20,
            min_tokens=4,
            logit_bias={5: 2.5},
            allowed_token_ids=(5, 6, 7, 8),
            stop_token_ids=(7,),
            bad_words=("ab", "c"),
            repetition_penalty=1.2,
        ),
    ]
    apart = replace(
        config_for(llama.folder),
        scheduler=SchedulerConfig(max_num_batched_tokens=24, max_num_seqs=8),
    )

    with LLM.from_config(replace(apart, in_process=True)) as llm:
        here = llm.generate(prompts, each)
        assert_conserved(llm)
    with LLM.from_config(apart) as llm:
        there = llm.generate(prompts, each)
        assert_conserved(llm)

    # Requests may arrive a step later there, and other batches round differently.
    assert all(output.metrics is not None for output in there)
    for output in (*there, *here):
        output.metrics = None
    exact, numbers = parts(there)
    exact_here, numbers_here = parts(here)
    assert exact == exact_here
    assert numbers == pytest.approx(numbers_here, abs=1e-4)


def test_only_the_front_end_ends_the_process(llama: Oracle) -> None:
    """A terminal's interrupt and a TERM do not; closing does, and cleans up."""
    llm = LLM.from_config(simulated(config_for(llama.folder)))
    client = llm.front_end.engines.client
    assert isinstance(client, ProcessClient)
    engine = os.pidfd_open(client.pids[0])

    os.kill(client.pids[0], signal.SIGINT)
    os.kill(client.pids[0], signal.SIGTERM)
    [output] = llm.generate("a", SamplingParams(temperature=0.0, max_tokens=3))
    folder = client._folder
    llm.close()
    llm.close()

    assert len(output.outputs[0].token_ids) == 3
    wait_until_gone(engine)
    os.close(engine)
    assert not folder.exists()
    with pytest.raises(EngineDeadError, match="closed"):
        client.send(0, Finish([1], Aborted("late")))


@pytest.mark.parametrize("activity", ["idle", "busy"])
def test_the_process_ends_with_its_front_end(
    llama: Oracle, activity: str, tmp_path: Path
) -> None:
    """A front end that is killed takes its engine and its sockets with it."""
    with subprocess.Popen(
        [sys.executable, "-c", FRONT_END, str(llama.folder), activity],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    ) as front_end:
        assert front_end.stdout is not None
        engine = os.pidfd_open(int(front_end.stdout.readline()))

        front_end.kill()
        front_end.wait()

        wait_until_gone(engine)
        os.close(engine)
        left = [path.name for path in tmp_path.glob("hookline-*")]
        assert left == [f"hookline-recordings-{os.geteuid()}"]


def test_a_config_error_keeps_its_type(llama: Oracle) -> None:
    """The option and what is wrong with it come back from the process."""
    with pytest.raises(
        ConfigError, match=r"9999 is more than the model's 256"
    ) as found:
        LLM.from_config(simulated(config_for(llama.folder, max_model_len=9999)))

    assert found.value.option == "max-model-len"


@pytest.mark.slow
def test_a_model_error_keeps_its_type(llama: Oracle, tmp_path: Path) -> None:
    """The model and the reason come back from the process."""
    for file in llama.folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1000])

    with pytest.raises(ModelLoadError, match="SafetensorError") as found:
        LLM.from_config(config_for(tmp_path))

    assert found.value.model == str(tmp_path)
    assert "cannot load model" not in found.value.reason


def test_a_process_that_never_starts_is_noticed(
    llama: Oracle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ended before it had connected: an error with its exit code, and no litter."""
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\nexit 3\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    sockets = tmp_path / "sockets"
    sockets.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(sockets))

    with pytest.raises(EngineDeadError, match="exit code 3"):
        LLM.from_config(config_for(llama.folder))

    assert list(sockets.iterdir()) == []


@pytest.mark.parametrize(("kills", "kind"), [(0, "exited"), (1, "memory")])
def test_an_engine_that_is_killed_has_run_out_of_memory_only_by_proof(
    llama: Oracle,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kills: int,
    kind: str,
) -> None:
    """The kernel's count of its kills decides, whoever sent the signal."""
    count = tmp_path / "proc/vmstat"
    write_files(tmp_path, {"proc/vmstat": "oom_kill 3\n"})
    counted = OomKills(tmp_path)
    monkeypatch.setattr(supervised, "oom_kills", lambda: counted)
    with closing(ProcessClient(simulated(config_for(llama.folder)))) as client:
        count.write_text(f"oom_kill {3 + kills}\n")
        os.kill(client.pids[0], signal.SIGKILL)
        while not isinstance(died := client.receive(WAIT_SECONDS), EngineDied):
            assert died is not None

    why = ": memory ran out" if kills else ""
    assert died.reason == f"its process was killed by SIGKILL{why}"
    assert died.kind.value == kind


@pytest.mark.exhaustive
def test_a_long_temporary_folder_is_avoided(
    llama: Oracle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Paths of sockets are limited; where the usual folder is too deep, /tmp serves."""
    deep = tmp_path / ("d" * 120)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))

    with LLM.from_config(config_for(llama.folder)) as llm:
        [output] = llm.generate("a", SamplingParams(temperature=0.0, max_tokens=2))
        assert_conserved(llm)

    assert len(output.outputs[0].token_ids) == 2
