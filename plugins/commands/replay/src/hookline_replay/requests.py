"""Makes the commands again that an engine got."""

import msgspec

from hookline.engine.commands import Add, Call, Command, Finish
from hookline.finish_cause import (
    Aborted,
    Embedded,
    Failed,
    FinishCause,
    LengthReached,
    Rejected,
    StoppedByString,
    StoppedByToken,
    TimedOut,
)
from hookline.request import GenerateRequest, RequestFacts
from hookline.sampling_values import SamplingValues
from hookline_recording import RecordingError, schema
from hookline_recording.needs import NO_NEEDS
from hookline_replay.script import END, Script

MOST_TOKENS = 1 << 24
"""No prompt, and no step's output of one request, is longer than this."""

_decode_call = msgspec.msgpack.Decoder(Call).decode
_decode = msgspec.msgpack.Decoder(Command).decode

CAUSES: dict[str, FinishCause] = {
    type(each).__name__: each
    for each in (
        *(StoppedByToken(END), StoppedByString(""), LengthReached(), Embedded()),
        *(Aborted(""), TimedOut(), Failed(""), Rejected("", "")),
    )
}
"""A cause of each kind, without its details."""


class Commands:
    """Makes commands from a recording's records.

    Attributes:
        unread: Commands that are of another version, and were made from what else the
            recording has of them.
    """

    def __init__(self, script: Script) -> None:
        self._script = script
        self.unread = 0

    def next(self) -> tuple[int, Command] | None:
        """Takes the next command, with its time; None if something else comes first."""
        while (record := self._script.next_command()) is not None:
            made = self._made(record)
            if made is not None:
                return record.at, made
        return None

    def _made(self, record: schema.Arrived | schema.Command) -> Command | None:
        if isinstance(record, schema.Arrived):
            return None if self._script.has_tokens else Add(request_of(record))
        if record.kind == "Add":
            return self._whole(record) if self._script.has_tokens else None
        if record.kind == "Finish":
            cause = CAUSES.get(record.cause, Aborted(""))
            return Finish(list(record.request_ids), cause)
        try:
            return _decode_call(record.body)
        except (ValueError, RecursionError) as error:
            raise RecordingError(
                str(self._script.path), f"a {record.kind} in it cannot be read: {error}"
            ) from error

    def _whole(self, record: schema.Command) -> Command:
        try:
            command = _decode(record.body)
        except (ValueError, RecursionError):
            command = None
        if isinstance(command, Add):
            return command
        self.unread += 1
        first, *others = (self._script.arrived[each] for each in record.request_ids)
        return Add(request_of(first), [each.request_id for each in others])


def request_of(arrived: schema.Arrived) -> GenerateRequest:
    """Makes a request whose tokens are not known."""
    needs = arrived.needs or NO_NEEDS
    return GenerateRequest(
        request_id=arrived.request_id,
        prompt_token_ids=[0] * min(arrived.prompt_tokens, MOST_TOKENS),
        params=SamplingValues(max_tokens=arrived.max_tokens),
        eos_token_ids=(END,),
        facts=RequestFacts(
            client_id=arrived.client_id,
            tenant=arrived.tenant,
            priority=arrived.priority,
            lora=arrived.adapter,
            client=needs.client,
            weight=needs.weight,
        ),
        timeout_seconds=needs.timeout_seconds,
        completion_index=arrived.completion_index,
        is_prefill_only=needs.is_prefill_only,
        skip_reading_prefix_cache=needs.skips_cache,
        is_moved=needs.is_moved,
    )
