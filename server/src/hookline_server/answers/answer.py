"""The common part of both completion endpoints' responses: id, usage, finish reason."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import msgspec
from msgspec import UNSET

from hookline.outputs import CompletionOutput, RequestOutput
from hookline.request import FinishReason
from hookline_server.api_error import ApiError
from hookline_server.deadlines import timed_out
from hookline_server.protocol.transfer_params import TransferParams
from hookline_server.protocol.usage import Usage, make_usage
from hookline_server.streams import Batch


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Fields that all messages of one request repeat."""

    id: str
    created: int
    model: str


class Answer(Protocol):
    """Converts one request's outputs to messages; holds the state of the stream."""

    def whole(self, outputs: Sequence[RequestOutput]) -> msgspec.Struct:
        """Returns the response to a request without streaming."""
        ...

    def chunks(self, batch: Batch) -> Iterable[msgspec.Struct]:
        """Returns the events of a batch of outputs."""
        ...

    def usage_chunk(self) -> msgspec.Struct | None:
        """Returns the usage event, if the client requested it."""
        ...


@dataclass(slots=True)
class UsageMeter:
    """Sums the tokens of one request over its prompts and choices."""

    _prompts: dict[int, RequestOutput] = field(default_factory=dict)
    _completions: dict[int, CompletionOutput] = field(default_factory=dict)

    def take(self, number: int, output: RequestOutput, *, n: int) -> None:
        """Adds an output of one prompt; totals replace earlier ones."""
        self._prompts[number] = output
        for completion in output.outputs:
            self._completions[number * n + completion.index] = completion

    @property
    def usage(self) -> Usage:
        return self._usage(list(self._completions.values()))

    @property
    def usage_of_prompts(self) -> Usage:
        """Returns the usage of a response without generated tokens."""
        return self._usage([])

    def _usage(self, completions: Sequence[CompletionOutput]) -> Usage:
        outputs = self._prompts.values()
        return make_usage(
            sum(len(output.prompt_token_ids) for output in outputs),
            sum(each.output_tokens for each in completions),
            cached_tokens=sum(output.cached_tokens for output in outputs),
            draft_tokens=sum(each.draft_tokens for each in completions),
            accepted_tokens=sum(each.accepted_tokens for each in completions),
        )


def transfer_params(output: RequestOutput) -> TransferParams:
    """Returns the KV connector's parameters for the client, or the omitted field."""
    return UNSET if output.kv_transfer_params is None else output.kv_transfer_params


def finish_word(reason: FinishReason | None) -> str | None:
    """Returns the API's finish reason; aborts, timeouts and errors raise instead."""
    if reason is None or reason in (FinishReason.STOP, FinishReason.LENGTH):
        return reason
    if reason is FinishReason.TIMEOUT:
        raise timed_out()
    if reason is FinishReason.ABORT:
        raise ApiError(503, "the request was aborted by the server", code="aborted")
    raise ApiError(500, "the engine could not finish the request", code="engine_error")
