"""Without the compiler, modules and plain torch serve, and log the reason."""

import subprocess
import sys

import pytest

from hookline_testing.oracle import Oracle

SERVE = """
import logging
import sys

logging.basicConfig(level=logging.WARNING)
logging.getLogger("hookline_models.forwards.choice").setLevel(logging.INFO)
if sys.argv[2] == "blocked":
    sys.modules["numba"] = sys.modules["llvmlite"] = None

from hookline import LLM, SamplingParams
from hookline.config import (
    CacheConfig, Dtype, EngineConfig, ExecutorConfig, Kernels, ModelConfig
)

config = EngineConfig(
    model=ModelConfig(model=sys.argv[1], dtype=Dtype(sys.argv[4])),
    cache=CacheConfig(num_kv_blocks=64),
    executor=ExecutorConfig(kernels=Kernels(sys.argv[3])),
)
with LLM.from_config(config) as llm:
    params = SamplingParams(temperature=0.0, max_tokens=12)
    (output,) = llm.generate([[5, 6, 7, 8, 9]], params)
print(*output.outputs[0].token_ids)
print("compiled" if sys.modules.get("numba") else "plain")
"""
TOLD = (
    "INFO:hookline.engine.worker.forward:the model runs as modules: ",
    "WARNING:hookline_kernels.choosing:attention falls back to torch: ",
    "WARNING:hookline_kernels.sampling:sampling falls back to torch: ",
)


def serve(oracle: Oracle, *options: str) -> tuple[list[str], str]:
    """Tokens, their kernels, and the log of a separate process."""
    done = subprocess.run(
        [sys.executable, "-c", SERVE, str(oracle.folder), *options],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(), done.stderr


@pytest.mark.exhaustive
def test_without_the_compiler_requests_are_served_with_warnings(llama: Oracle) -> None:
    """Such an installation is slow, not down, and each part logs why."""
    (tokens, _), log = serve(llama, "blocked", "auto", "float32")

    assert tokens.split() == [str(t) for t in llama.greedy([5, 6, 7, 8, 9], 12)]
    for told in TOLD:
        assert log.count(told) == 1
        reason = log.split(told)[1].splitlines()[0]
        assert "numba" in reason or "llvmlite" in reason


@pytest.mark.exhaustive
def test_without_the_compiler_packed_products_serve(llama: Oracle) -> None:
    """Packed weights need no compiler."""
    (tokens, _), _ = serve(llama, "blocked", "auto", "bfloat16")

    assert len(tokens.split()) == 12


@pytest.mark.exhaustive
@pytest.mark.parametrize("numba", ["blocked", "there"])
def test_torch_kernels_need_no_compiler(llama: Oracle, numba: str) -> None:
    """The reference runs alone, without warnings."""
    (tokens, kind), log = serve(llama, numba, "torch", "float32")

    assert tokens.split() == [str(t) for t in llama.greedy([5, 6, 7, 8, 9], 12)]
    assert kind == "plain"
    assert not any(told in log for told in TOLD)
