"""What the engines of `sample` tell, for `hookline metrics list --engine sample`."""

from hookline import hookimpl
from hookline.tells import Tells
from hookline_metrics.engine_tells import EngineTells

_REQUESTS = (Tells.REQUESTS, Tells.EVENTS, Tells.CONTENT)
_NO_STEPS = "it is asked for whole answers"
_NO_CACHE = "it keeps nothing"


@hookimpl
def engine_tells() -> EngineTells:
    """Each of `Tells` is in one of the three; `EngineFacts.tells` agrees."""
    return EngineTells(
        always=[*_REQUESTS, Tells.LOAD, Tells.FRONT_END, Tells.OBSERVER],
        sometimes={Tells.CONTEXT: "its model is known"},
        never={
            **dict.fromkeys((Tells.STEPS, Tells.PLAN, Tells.DRAFTS), _NO_STEPS),
            **dict.fromkeys((Tells.COST, Tells.CONFIG), _NO_STEPS),
            **dict.fromkeys((Tells.BLOCKS, Tells.EVICTIONS), _NO_CACHE),
            **dict.fromkeys((Tells.USAGE, Tells.CACHE), _NO_CACHE),
        },
    )
