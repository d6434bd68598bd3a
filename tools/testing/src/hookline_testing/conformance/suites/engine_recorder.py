"""Engine recorders: commands and outputs of a run, on the engine's thread."""

from typing import cast

from hookline.config import EngineConfig, ObserverConfig
from hookline.engine.commands import Add
from hookline.engine.engine_loop import EngineRecorder
from hookline.engine_setup.engine_recorder import EngineRecorderContext
from hookline.events import ClockPair
from hookline.request import GenerateRequest
from hookline.sampling_params import SamplingParams
from hookline_testing.conformance.subject import Subject
from hookline_testing.payloads import FACTS, MILLISECOND, RECORD, make_output


def check(subject: Subject) -> None:
    """Tells of a request, and closes."""
    observers = ObserverConfig(record=str(subject.options.get("record", "recording")))
    context = EngineRecorderContext(
        config=EngineConfig(observers=observers),
        facts=FACTS,
        clock=ClockPair(wall=0, monotonic=0),
    )
    made = subject.create(context=context)
    if made is None or not subject.has(made, EngineRecorder):
        return
    recorder = cast("EngineRecorder", made)
    request = GenerateRequest(
        request_id=1, prompt_token_ids=[3], params=SamplingParams(max_tokens=1)
    )
    subject.call("command", recorder.command, MILLISECOND, Add(request=request))
    output = make_output(2 * MILLISECOND, record=RECORD)
    subject.call("output", recorder.output, 2 * MILLISECOND, output)
    subject.call("close", recorder.close)
