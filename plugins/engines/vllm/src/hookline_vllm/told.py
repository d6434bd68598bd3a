"""What an attachment tells of vLLM's engine."""

from hookline.tells import Tells
from hookline_metrics.engine_tells import EngineTells

WITH_REQUESTS = (Tells.EVENTS, Tells.CONTENT)
"""What only the wraps of requests tell."""

ALWAYS = (
    *(Tells.PLAN, Tells.EVICTIONS, Tells.LOAD, Tells.USAGE, Tells.CACHE),
    *(Tells.CONFIG, Tells.CONTEXT),
)

TELLS = EngineTells(
    always=ALWAYS,
    sometimes=dict.fromkeys(WITH_REQUESTS, "vLLM's `OutputProcessor` could be wrapped"),
    never={
        Tells.STEPS: "vLLM gives loggers sums; only recordings have its steps",
        Tells.BLOCKS: "vLLM tells how full its cache is, not what its blocks hold",
        Tells.DRAFTS: "its drafts are not read; vLLM's own page has them",
        Tells.COST: "the model is vLLM's, and nothing is known of its layers",
        Tells.FRONT_END: "the server that prepares requests is vLLM's",
    },
)
