"""What an upstream tells: what is seen from outside, and what its pages say."""

from dataclasses import replace

from hookline.config import EngineConfig
from hookline.tells import Tells
from hookline_gateway.upstreams.load import Load
from hookline_metrics.engine_tells import EngineTells

GATEWAY = "gateway"
"""The label `model_name` of what is not of one upstream, such as HTTP."""

_PAGE = "the upstream's page of metrics tells it"
_INSIDE = "a gateway sees requests from outside, and no engine"
_WORDS = "a gateway passes answers on and reads no tokens"

TELLS = EngineTells(
    always=(Tells.REQUESTS,),
    sometimes={
        Tells.LOAD: _PAGE,
        Tells.USAGE: _PAGE,
        Tells.CONTEXT: "the upstream's models or page of metrics tell it",
    },
    never={
        **dict.fromkeys((Tells.EVENTS, Tells.STEPS, Tells.PLAN, Tells.COST), _INSIDE),
        **dict.fromkeys((Tells.BLOCKS, Tells.EVICTIONS, Tells.CACHE), _INSIDE),
        **dict.fromkeys((Tells.DRAFTS, Tells.CONFIG), _INSIDE),
        Tells.CONTENT: _WORDS,
        Tells.FRONT_END: "the server that prepares requests is the upstream's",
        Tells.OBSERVER: "the gateway's loggers are in its own process",
    },
)


def told(load: Load | None, max_model_len: int | None) -> tuple[Tells, ...]:
    """Returns what an upstream with this load tells."""
    found = {
        Tells.LOAD: load is not None,
        Tells.USAGE: load is not None and load.has_kv_usage,
        Tells.CONTEXT: max_model_len is not None,
    }
    sometimes = (each for each, is_told in found.items() if is_told)
    return (*TELLS.always, *sometimes)


def named(config: EngineConfig) -> EngineConfig:
    """Returns the configuration with the name of what is not of one upstream."""
    return replace(config, model=replace(config.model, served_model_name=GATEWAY))
