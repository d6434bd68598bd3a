"""Makes requests of prompts, as the program that calls wants them."""

from functools import partial

import msgspec

from hookline.exceptions import PromptTooLongError
from hookline.frontend.front_end import FrontEnd
from hookline.pooling import PoolingParams
from hookline.request import GenerateRequest, RequestFacts
from hookline.sampling_params import SamplingParams
from hookline_offline.caller_trace import in_callers_span
from hookline_offline.prompts import ParsedPrompt


def prepare(
    front_end: FrontEnd,
    prompt: ParsedPrompt,
    params: SamplingParams,
    facts: RequestFacts,
    pooling: PoolingParams | None = None,
    *,
    may_be_shorter: bool = False,
) -> GenerateRequest:
    """Returns a request that has been checked.

    Args:
        front_end: The engine's front end.
        prompt: The prompt.
        params: Its sampling parameters.
        facts: Client id, tenant, priority and the like.
        pooling: How the prompt is embedded; None if text is generated.
        may_be_shorter: Whether `max_tokens`, which nobody has set, may exceed the
            context, whose end then limits the output.

    Raises:
        RequestError: It cannot be served.
    """
    checked = partial(
        front_end.prepare,
        prompt.content,
        facts=in_callers_span(facts),
        cache_salt=prompt.cache_salt,
        pooling=pooling,
    )
    try:
        return checked(params)
    except PromptTooLongError:
        if not may_be_shorter:
            raise
        return checked(msgspec.structs.replace(params, max_tokens=None))
