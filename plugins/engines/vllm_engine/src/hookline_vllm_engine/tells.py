"""What the engine `vllm` tells, by its events and its scheduler's state."""

from hookline.tells import Tells
from hookline_metrics.engine_tells import EngineTells

_NEVER = {
    Tells.BLOCKS: "vLLM tells how full its cache is, not what its blocks hold",
    Tells.EVICTIONS: "its evicted blocks are not read",
    Tells.COST: "the model is vLLM's, and nothing is known of its layers",
}

TELLS = EngineTells(always=[each for each in Tells if each not in _NEVER], never=_NEVER)
