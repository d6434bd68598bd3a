"""Libraries that an engine's process leaves out, each in a fresh interpreter."""

import json
import subprocess
import sys
from typing import Any

import pytest

LEFT_OUT = ("sympy", "torch._inductor", "torch.distributed.tensor", "triton")

IMPORT_MODELS = """
import json, sys
from hookline.config import Device, EngineConfig, ExecutorConfig
from hookline_models.importing import import_torch
executor = ExecutorConfig(device=Device.CPU, shares_cores={is_own})
import_torch(EngineConfig(executor=executor), is_rank={is_rank})
import transformers.models.llama.modeling_llama, hookline.engine.worker.uniproc
found = [name for name in {names} if sys.modules.get(name) is not None]
"""
PRINT_FOUND = "print(json.dumps(found))"
USE = """
import torch.distributed
print(json.dumps([found, torch.distributed.is_available(), "triton" in sys.modules]))
"""
COMPILE = """
import torch
doubled = torch.compile(lambda x: 2 * x, backend="eager")(torch.ones(2))
print(json.dumps([type(torch._dynamo).__name__, doubled.tolist(), found]))
"""


def run(code: str, *, is_own: bool, is_rank: bool = False) -> Any:
    """What a new interpreter prints."""
    options = {"is_own": is_own, "is_rank": is_rank, "names": LEFT_OUT}
    code = IMPORT_MODELS.format(**options) + code
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("is_rank", [True, False])
def test_engine_process_on_a_cpu_leaves_out_what_it_never_uses(is_rank: bool) -> None:
    """
    Code of models is imported there without torch's compiler and distribution; a plugin
    may compute over processes in the same process nevertheless. A rank has a process of
    its own also where its engine has none.
    """
    found, has_distribution, has_triton = run(USE, is_own=not is_rank, is_rank=is_rank)

    assert found == []
    assert has_distribution
    assert not has_triton


@pytest.mark.exhaustive
def test_what_is_left_out_is_loaded_when_it_is_used() -> None:
    """
    The compiler is complete once somebody compiles.
    """
    assert run(COMPILE, is_own=True) == ["module", [2.0, 2.0], []]


@pytest.mark.exhaustive
def test_process_of_a_caller_has_everything() -> None:
    """
    Offline engines run in a process that is not theirs.
    """
    found = run(PRINT_FOUND, is_own=False)

    assert isinstance(found, list)
    assert {"sympy", "torch.distributed.tensor"} <= set(found)
