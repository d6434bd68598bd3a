"""Types of parameters, with the bounds that are checked where they are read."""

from typing import Annotated

from hookline.exceptions import RequestError
from hookline.request_limits import (
    BAD_WORDS,
    BAD_WORDS_LENGTH,
    CHAT_TEMPLATE,
    LOGIT_BIAS,
    LOGPROBS,
    STOP,
    STOP_LENGTH,
    STOP_TOKEN_IDS,
    N,
)
from hookline_server.protocol.schema_notes import bounds
from hookline_server.protocol.wire import Int64

HIGHEST_TEMPERATURE = 2.0
"""OpenAI's limit; beyond it models produce noise."""

MAX_CACHE_SALT_LENGTH = 256

AS_MANY_AS_FIT = -1
"""Value of `truncate_prompt_tokens`."""

Temperature = Annotated[float, bounds(minimum=0, maximum=HIGHEST_TEMPERATURE)]
TopP = Annotated[float, bounds(exclusiveMinimum=0, maximum=1)]
TopK = Annotated[Int64, bounds(minimum=-1)]
MinP = Annotated[float, bounds(minimum=0, maximum=1)]
Penalty = Annotated[float, bounds(minimum=-2, maximum=2)]
RepetitionPenalty = Annotated[float, bounds(exclusiveMinimum=0)]
NotNegative = Annotated[Int64, bounds(minimum=0)]
Never = Annotated[bool, bounds(const=False)]
Count = Annotated[Int64, bounds(minimum=1, maximum=N.most)]
Logprobs = Annotated[Int64, bounds(minimum=0, maximum=LOGPROBS.most)]
StopText = Annotated[str, bounds(minLength=1, maxLength=STOP_LENGTH.most)]
Stop = StopText | Annotated[list[StopText], bounds(maxItems=STOP.most)]
StopTokenIds = Annotated[list[NotNegative], bounds(maxItems=STOP_TOKEN_IDS.most)]
TokenIds = Annotated[list[NotNegative], bounds(minItems=1)]
LogitBias = Annotated[
    dict[Int64, float],
    bounds(maxProperties=LOGIT_BIAS.most, propertyNames={"pattern": "^[0-9]{1,10}$"}),
]
BadWord = Annotated[str, bounds(minLength=1, maxLength=BAD_WORDS_LENGTH.most)]
BadWords = Annotated[list[BadWord], bounds(maxItems=BAD_WORDS.most)]
CacheSalt = Annotated[str, bounds(minLength=1, maxLength=MAX_CACHE_SALT_LENGTH)]
ChatTemplate = Annotated[str, bounds(maxLength=CHAT_TEMPLATE.most)]
LastTokens = Annotated[Int64, bounds(minimum=-1)]
TokenBudget = Annotated[Int64, bounds(minimum=-1)]


def check_cache_salt(salt: str) -> None:
    """Checks its length; raises `RequestError` if it is invalid."""
    if not 0 < len(salt) <= MAX_CACHE_SALT_LENGTH:
        raise RequestError(
            f"cache_salt must have 1 to {MAX_CACHE_SALT_LENGTH} characters",
            param="cache_salt",
        )


def check_truncation(most: int) -> None:
    """Checks `truncate_prompt_tokens`; raises `RequestError` if it is invalid."""
    if most < 1 and most != AS_MANY_AS_FIT:
        raise RequestError(
            "truncate_prompt_tokens must be at least 1, or -1 for as many as fit into "
            "the context",
            param="truncate_prompt_tokens",
        )
