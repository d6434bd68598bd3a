"""What responses have in common: id, usage, metrics, finish reason."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec
from msgspec import UNSET, UnsetType

from hookline.outputs import CompletionOutput, RequestOutput
from hookline.request import FinishReason
from hookline_server.answers.settings import ResponseSettings, SpecDecodeMetrics
from hookline_server.api_error import ApiError
from hookline_server.deadlines import timed_out
from hookline_server.protocol.request_metrics import ResponseMetrics, response_metrics
from hookline_server.protocol.transfer_params import TransferParams
from hookline_server.protocol.usage import Usage, make_usage
from hookline_server.streams import Batch

NotedMetrics = ResponseMetrics | UnsetType | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Fields that all messages of one request repeat."""

    id: str
    created: int
    model: str
    system_fingerprint: str | UnsetType = UNSET


class Answer(Protocol):
    """Converts one request's outputs to messages; holds the state of the stream."""

    async def whole(self, outputs: Sequence[RequestOutput]) -> msgspec.Struct:
        """Returns the response to a request without streaming.

        Others get their turns between its slices.
        """
        ...

    def chunks(self, batch: Batch) -> Iterable[msgspec.Struct]:
        """Returns the events of a batch of outputs."""
        ...

    def usage_chunk(self) -> msgspec.Struct | None:
        """Returns the usage event, if the client requested it."""
        ...


class UsageMeter:
    """Sums the tokens of one request over its prompts and choices.

    Attributes:
        reasoning_tokens: Tokens of the reasoning; None if it is not separated.
    """

    def __init__(self) -> None:
        self.reasoning_tokens: int | None = None
        self._prompts: dict[int, tuple[int, int]] = {}
        self._completions: dict[int, int] = {}
        self._prompt_sums = [0, 0]
        self._output_tokens = 0

    def add_output(self, number: int, output: RequestOutput, *, n: int) -> None:
        """Adds an output of one prompt; totals replace earlier ones."""
        self.take_prompt(number, output)
        for each in output.outputs:
            index = number * n + each.index
            before = self._completions.get(index, 0)
            self._output_tokens += each.output_tokens - before
            self._completions[index] = each.output_tokens

    def take_prompt(self, number: int, output: RequestOutput) -> None:
        """Adds only the prompt of an output."""
        totals = (len(output.prompt_token_ids), output.cached_tokens)
        before = self._prompts.get(number, (0, 0))
        if totals == before:  # as for each token but the first
            return
        for index, total in enumerate(totals):
            self._prompt_sums[index] += total - before[index]
        self._prompts[number] = totals

    @property
    def usage(self) -> Usage:
        return self._usage(self._output_tokens)

    @property
    def usage_of_prompts(self) -> Usage:
        """Returns the usage of a response without generated tokens."""
        return self._usage(0)

    def _usage(self, output_tokens: int) -> Usage:
        prompt_tokens, cached_tokens = self._prompt_sums
        return make_usage(
            prompt_tokens,
            output_tokens,
            cached_tokens=cached_tokens,
            reasoning_tokens=self.reasoning_tokens,
        )


class MetricsNote:
    """Waits for the last output of a request, which has the metrics."""

    def __init__(self, settings: ResponseSettings) -> None:
        """Starts empty; `settings` choose the metrics."""
        self._has_times = settings.enable_per_request_metrics
        spec = settings.per_request_spec_decode_metrics
        self._has_drafts = spec is not SpecDecodeMetrics.NONE
        self._is_one = True
        self._noted: ResponseMetrics | None = None

    def add_output(self, number: int, output: RequestOutput, *, n: int) -> None:
        """Takes an output of one prompt of which `n` completions were requested."""
        if number or n > 1:
            self._is_one = False
        if output.metrics is None or not output.outputs or not self._tells:
            return
        self._noted = response_metrics(
            output.metrics,
            output.outputs[0].output_tokens,
            has_times=self._has_times,
            has_drafts=self._has_drafts,
        )

    @property
    def noted(self) -> NotedMetrics:
        """The metrics; None for several completions, UNSET if they are switched off."""
        if not self._tells:
            return UNSET
        return self._noted if self._is_one else None

    @property
    def _tells(self) -> bool:
        return self._has_times or self._has_drafts


def transfer_params(output: RequestOutput) -> TransferParams:
    """Returns the KV connector's parameters for the client; UNSET if there are none."""
    return UNSET if output.kv_transfer_params is None else output.kv_transfer_params


def finish_word(completion: CompletionOutput) -> str | None:
    """Returns the API's finish reason; aborts, timeouts and errors raise instead."""
    reason = completion.finish_reason
    if reason is None or reason in (FinishReason.STOP, FinishReason.LENGTH):
        return reason
    if reason is FinishReason.TIMEOUT:
        raise timed_out()
    if reason is FinishReason.ABORT:
        raise ApiError(503, "the request was aborted by the server", code="aborted")
    why = f": {completion.stop_reason}" if completion.stop_reason else ""
    message = f"the engine could not finish the request{why}"
    raise ApiError(500, message, code="engine_error")
