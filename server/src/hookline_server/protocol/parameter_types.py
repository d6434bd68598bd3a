"""Types of parameters, with the bounds that are checked where they are read."""

from typing import Annotated

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
