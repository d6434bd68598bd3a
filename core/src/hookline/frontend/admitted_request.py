"""Facts of a request at its admission by a front end."""

from collections.abc import Sequence
from dataclasses import dataclass

from hookline.request import RequestFacts
from hookline.sampling_params import SamplingParams


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmittedRequest:
    """One completion that was sent to an engine.

    Attributes:
        request_id: Its id in the engine's events.
        arrived_at: When the client's request arrived, in ns on the front end's clock.
        prompt_tokens: Length of the prompt.
        facts: Facts about the request, for observers.
        params: Its sampling parameters.
        is_streamed: Whether the client gets tokens as they are generated.
        completion_index: Index among the `n` completions of the client's request.
        prompt_token_ids: The prompt, or None if the front end does not have it.
        prepared_at: When it was ready to be sent to the engine, in ns likewise; None if
            that was not measured.
    """

    request_id: int
    arrived_at: int
    prompt_tokens: int
    facts: RequestFacts
    params: SamplingParams
    is_streamed: bool = False
    completion_index: int = 0
    prompt_token_ids: Sequence[int] | None = None
    prepared_at: int | None = None
