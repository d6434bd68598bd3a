"""What the two kinds of completion have in common: identity, usage, ends."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import msgspec
from msgspec import UNSET

from hookline.outputs import CompletionOutput, RequestOutput
from hookline.request import FinishReason
from hookline_server.api_error import ApiError
from hookline_server.protocol.transfer_params import TransferParams
from hookline_server.protocol.usage import Usage, make_usage
from hookline_server.streams import Batch


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What every message about one request repeats."""

    id: str
    created: int
    model: str


class Answer(Protocol):
    """Turns the outputs of one request into messages; holds the request's state."""

    def whole(self, outputs: Sequence[RequestOutput]) -> msgspec.Struct:
        """The response of a request that was not streamed."""
        ...

    def chunks(self, batch: Batch) -> Iterable[msgspec.Struct]:
        """The events that one batch of outputs makes."""
        ...

    def usage_chunk(self) -> msgspec.Struct | None:
        """The last event, where the client asked for it."""
        ...


@dataclass(slots=True)
class UsageMeter:
    """Adds up the tokens of one request over its prompts and choices."""

    _prompts: dict[int, RequestOutput] = field(default_factory=dict)
    _completions: dict[int, CompletionOutput] = field(default_factory=dict)

    def take(self, number: int, output: RequestOutput, *, n: int) -> None:
        """Takes an output of one prompt; later totals replace earlier ones."""
        self._prompts[number] = output
        for completion in output.outputs:
            self._completions[number * n + completion.index] = completion

    @property
    def usage(self) -> Usage:
        return self._usage(list(self._completions.values()))

    @property
    def usage_of_prompts(self) -> Usage:
        """The usage when whatever was generated is not part of the answer."""
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
    """What a KV connector has for the client; no field at all where it has nothing."""
    return UNSET if output.kv_transfer_params is None else output.kv_transfer_params


def finish_word(reason: FinishReason | None) -> str | None:
    """How the API calls the end of a choice; an unhappy end is an error instead."""
    if reason is None or reason in (FinishReason.STOP, FinishReason.LENGTH):
        return reason
    if reason is FinishReason.ABORT:
        raise ApiError(503, "the request was aborted by the server", code="aborted")
    raise ApiError(500, "the engine could not finish the request", code="engine_error")
