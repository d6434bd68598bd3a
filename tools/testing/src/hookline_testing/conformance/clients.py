"""A client of engines, from a request to its end."""

from typing import cast

from hookline.engine.commands import Add
from hookline.events import StepOutput
from hookline.exceptions import EngineDeadError
from hookline.request import GenerateRequest
from hookline.sampling_params import SamplingParams
from hookline.transport.engine_client import EngineClient, EngineInfo
from hookline_registry import Failure, isolate
from hookline_testing.conformance.subject import Subject

_REQUEST, _TOKENS = 1, 3
_TURNS = 200
_SECONDS = 0.25


def check_client(subject: Subject, made: object) -> None:
    """Has one request run; `receive` is called in another thread than `send`."""
    if not subject.has(made, EngineClient):
        return
    client = cast("EngineClient", made)
    kind = type(made)
    engines = dict(client.engines)
    for index, info in engines.items():
        if not isinstance(info, EngineInfo):
            subject.fault(f"engines[{index}] is no EngineInfo", kind)
    if not engines:
        subject.fault("it has no engines", kind)
    else:
        index = next(iter(engines))
        add = Add(request=_request())
        if not isinstance(subject.call("send", client.send, index, add), Failure):
            tokens = subject.call("receive", _received, client)
            if not isinstance(tokens, Failure | None) and tokens != _TOKENS:
                subject.fault(f"{tokens} tokens came of {_TOKENS}", kind)
            if tokens is None:
                subject.fault("no event came that a request has finished", kind)
    subject.call("close", client.close)
    subject.call("close, called again,", client.close)
    late = isolate(client.receive, 0.0)
    if not (isinstance(late, Failure) and isinstance(late.error, EngineDeadError)):
        subject.fault("receive raises EngineDeadError once it is closed", kind)


def _request() -> GenerateRequest:
    params = SamplingParams(max_tokens=_TOKENS, ignore_eos=True)
    return GenerateRequest(
        request_id=_REQUEST, prompt_token_ids=[3, 4, 5], params=params
    )


def _received(client: EngineClient) -> int | None:
    """Returns the number of tokens of the request; None if it does not end."""
    tokens = 0
    for _ in range(_TURNS):
        found = client.receive(_SECONDS)
        if not isinstance(found, StepOutput):
            continue
        for event in found.events.new_tokens:
            tokens += len(event.token_ids)
        if any(each.request_id == _REQUEST for each in found.events.finished):
            return tokens
    return None
