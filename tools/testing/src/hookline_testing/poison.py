"""A request that ends each engine that computes it."""

import os
from pathlib import Path

POISON = 1234
"""A prompt with this token is poisonous."""

_BREAK_ON_POISON = f"""
from hookline_simulated.executor import SimulatedExecutor

execute = SimulatedExecutor._execute

def break_on_poison(self, plan):
    if any({POISON} in each.token_ids for each in plan.admitted):
        raise RuntimeError("this prompt cannot be computed")
    return execute(self, plan)

SimulatedExecutor._execute = break_on_poison
"""


def poisonable(folder: Path) -> dict[str, str]:
    """Returns the environment of processes whose simulated engines the token ends.

    Args:
        folder: An empty folder that outlasts the processes.
    """
    (folder / "sitecustomize.py").write_text(_BREAK_ON_POISON)
    paths = [str(folder), os.environ.get("PYTHONPATH")]
    return {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
