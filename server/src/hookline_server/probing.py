"""A probe of an engine: one token, with a deadline."""

import asyncio
from functools import partial

from hookline.clock import NANOSECONDS, Clock
from hookline.exceptions import EngineDeadError
from hookline.frontend.engine_set import EngineState
from hookline.frontend.front_end import FrontEnd
from hookline.frontend.output_stream import OutputStream
from hookline.request import RequestFacts
from hookline.sampling_params import SamplingParams
from hookline_server.probe import ProbeOutcome, ProbeResult

PROBE_ID = "health-probe"
"""The client's id of probes, by which loggers know them."""
_PARAMS = SamplingParams(max_tokens=1, temperature=0.0, ignore_eos=True)


async def probe_engine(
    front_end: FrontEnd, engine: EngineState, clock: Clock, timeout_seconds: float
) -> ProbeResult:
    """Lets an engine generate one token.

    A saturated engine is not sick: it may let the probe wait, as long as it runs steps.
    """
    if engine.is_asleep:
        return ProbeResult(engine.index, ProbeOutcome.ASLEEP, 0.0)
    started, steps = clock.now(), engine.vitals.steps
    outcome, detail = ProbeOutcome.TOKEN, ""
    try:
        await _one_token(front_end, engine, started, timeout_seconds)
    except EngineDeadError as error:
        outcome, detail = ProbeOutcome.FAILED, str(error)
    except TimeoutError:
        is_busy = engine.vitals.steps > steps
        outcome = ProbeOutcome.BUSY if is_busy else ProbeOutcome.FAILED
        detail = "" if is_busy else f"no token and no step in {timeout_seconds:g} s"
    seconds = (clock.now() - started) / NANOSECONDS
    return ProbeResult(engine.index, outcome, round(seconds, 4), detail)


async def _one_token(
    front_end: FrontEnd, engine: EngineState, arrived_at: int, timeout_seconds: float
) -> None:
    """Raises `EngineDeadError`, or `TimeoutError` after the timeout."""
    facts = RequestFacts(client_id=PROBE_ID)
    request = front_end.prepare([0], _PARAMS, facts=facts)
    submit = partial(
        front_end.submit,
        request,
        arrived_at=arrived_at,
        is_streamed=False,
        to=engine.index,
    )
    stream = OutputStream(front_end, submit)
    try:
        async with asyncio.timeout(timeout_seconds):
            async for _ in stream:
                pass
    finally:
        stream.abort(PROBE_ID)  # nothing, unless it is still open
