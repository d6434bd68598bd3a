"""`hookline warm-up`, and servers whose kernels are not compiled yet."""

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hookline import LLM, SamplingParams
from hookline.config import EngineConfig
from hookline_background_compiling import warm_up
from hookline_background_compiling.messages import CompilerMessage, KernelCompiled
from hookline_background_compiling.process import outcome
from hookline_kernels.cpu.jit import kept_cache
from hookline_server.cli import main
from hookline_testing.own_time import Deadline
from hookline_testing.server_process import serving

PATH = "/v1/completions"
BODY = {"model": "demo", "prompt": "class Stack:", "max_tokens": 24, "temperature": 0}
LIMIT_SECONDS = 240


def test_torch_alone_has_nothing_to_warm_up(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """
    Without kernels there is nothing to compile, which is one line of error.
    """
    assert main(["warm-up", "--kernels=torch"]) == 2

    assert "nothing to compile" in capsys.readouterr().err


class FullDisk:
    """A compiling process that cannot write what it compiles."""

    def __init__(self, config: EngineConfig, *, is_background: bool) -> None:
        assert not is_background
        self.config = config

    def messages(self) -> Iterator[CompilerMessage]:
        yield KernelCompiled("a-kernel", 1.0, succeeded=True)
        yield outcome(Path("/cache"), "kernels", not_kept=3)

    def close(self) -> None:
        """Nothing is open."""


def test_kernels_that_cannot_be_kept_are_one_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    The command says how many could not be written where.
    """
    monkeypatch.setattr(warm_up, "CompilerProcess", FullDisk)

    assert main(["warm-up"]) == 1

    error = capsys.readouterr().err
    assert error == (
        "hookline: error: 3 kernels could not be written to /cache; is its disk full?\n"
    )


@pytest.mark.exhaustive
def test_warm_up_compiles_what_ranks_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    An engine with two ranks, whose sizes and sums are its own, compiles nothing more.
    """
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))

    assert main(["warm-up", "-tp", "2"]) == 0
    compiled = set(tmp_path.rglob("*.nbi"))
    with LLM("demo", tensor_parallel_size=2, num_kv_blocks=128) as llm:
        llm.generate("class Stack:", SamplingParams(temperature=0.0, max_tokens=24))

    assert any("sum_over_ranks" in path.name for path in compiled)
    assert set(tmp_path.rglob("*.nbi")) == compiled


@pytest.fixture
def few_kernels(tmp_path: Path) -> Path:
    """Has the kernels that this machine has kept, without some that take seconds."""
    kept = kept_cache().folder
    assert kept is not None
    # As `keep_cache` names it in the folder that NUMBA_CACHE_DIR names.
    shutil.copytree(
        kept,
        tmp_path / "hookline" / "kernels" / kept.name,
        ignore=shutil.ignore_patterns("prefill*", "norm*"),
    )
    return tmp_path


@pytest.mark.exhaustive
def test_warm_up_compiles_once(
    few_kernels: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """
    A second call finds the kernels of the first, and a server then starts with them.
    """
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(few_kernels))

    assert main(["warm-up"]) == 0
    first = capsys.readouterr().out
    assert main(["warm-up"]) == 0
    second = capsys.readouterr().out

    assert "compiled rms-norm" in first
    assert "compiled 0 kernels" in second
    with serving("--port=0", "--num-kv-blocks=256") as server:
        assert "compiled attention" in server.banner


@pytest.mark.exhaustive
def test_server_changes_to_kernels_between_steps(few_kernels: Path) -> None:
    """
    A server without kernels answers at once, and alike before and after they are there.
    """
    # In float32, where no two tokens are nearly as likely.
    options = ("--port=0", "--dtype=float32", "--num-kv-blocks=256")
    variables = {"NUMBA_CACHE_DIR": str(few_kernels)}
    with serving(*options, environment=variables) as server:
        assert "its kernels are being compiled" in server.banner
        _, before = server.post(PATH, BODY)
        server.wait_for("hookline_kernels_compiling", 1)
        deadline = Deadline(LIMIT_SECONDS)
        while "kernels are in use" not in server.log.read_text():
            assert deadline.is_ahead
            server.post(PATH, BODY)
            time.sleep(0.5)
        _, after = server.post(PATH, BODY)

        assert after["choices"][0]["text"] == before["choices"][0]["text"]
        server.wait_for("hookline_kernels_compiling", 0)
