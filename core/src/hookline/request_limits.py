"""The limits of a request, in one table.

What one request may cost follows from them: the front end checks each one before it
copies, tokenizes or sends anything.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from hookline.exceptions import LimitError, RequestError


@dataclass(frozen=True, slots=True)
class Limit:
    """The maximum of one quantity in a request.

    Attributes:
        name: Its name in metrics.
        param: The request's field; None for the body as a whole.
        most: Maximum.
        what: What is counted.
    """

    name: str
    param: str | None
    most: int
    what: str

    def check(
        self, number: int, *, most: int | None = None, param: str | None = None
    ) -> None:
        """Checks a number.

        Args:
            number: The number.
            most: Another maximum, such as the vocabulary, if it is lower.
            param: Takes the place of the field's name in the error.

        Raises:
            LimitError: It is above the maximum.
        """
        allowed = self.most if most is None else min(self.most, most)
        if number > allowed:
            raise LimitError(
                self.name, allowed, self.what, number, param=param or self.param
            )


# As those of OpenAI: N, EMBEDDED_INPUTS, LOGPROBS and METADATA….

N = Limit("n", "n", 128, "completions of a prompt")
CHOICES = Limit("choices", "prompt", 1024, "choices (prompts × n)")
EMBEDDED_INPUTS = Limit("embedded_inputs", "input", 2048, "inputs to embed")
POOLED_VALUES = Limit(
    "pooled_values", "input", 2**23, "numbers in the vectors of a response"
)
LOGPROBS = Limit("logprobs", "logprobs", 20, "likeliest tokens per position")
# Only without streaming: they are kept until the end, about 100 bytes each.
LOGPROB_ENTRIES = Limit(
    "logprob_entries",
    "logprobs",
    2**22,
    "log-probabilities (choices × tokens × likeliest tokens)",
)
RETURNED_TOKEN_IDS = Limit(
    "returned_token_ids",
    "return_token_ids",
    2**22,
    "token ids of prompts (choices × tokens)",
)
STOP = Limit("stop", "stop", 16, "stop strings")
STOP_LENGTH = Limit("stop_length", "stop", 256, "characters in one string")
STOP_TOKEN_IDS = Limit("stop_token_ids", "stop_token_ids", 1024, "token ids")
# In practice the vocabulary.
ALLOWED_TOKEN_IDS = Limit("allowed_token_ids", "allowed_token_ids", 2**31, "token ids")
LOGIT_BIAS = Limit("logit_bias", "logit_bias", 16_384, "token ids")
BAD_WORDS = Limit("bad_words", "bad_words", 1024, "words")
BAD_WORDS_LENGTH = Limit("bad_words_length", "bad_words", 256, "characters in one word")
BAD_WORDS_CHARACTERS = Limit(
    "bad_words_characters", "bad_words", 16_384, "characters in all words"
)
# Only for several prompts: each is sent with its own parameters.
PARAMETER_ENTRIES = Limit(
    "parameter_entries", "prompt", 2**20, "entries of the parameters' lists × prompts"
)
MESSAGES = Limit("messages", "messages", 4096, "messages")
CONTENT_PARTS = Limit("content_parts", "messages", 4096, "content parts")
TOOLS = Limit("tools", "tools", 1024, "functions")
TOOLS_BYTES = Limit("tools_bytes", "tools", 2**20, "bytes as JSON")
TOOLS_DEPTH = Limit("tools_depth", "tools", 64, "levels of nesting")
TOOL_NAME_LENGTH = Limit("tool_name_length", "tools", 128, "characters")
TOOL_CALLS = Limit("tool_calls", "messages", 4096, "tool calls")
TOOL_CALL_VALUES = Limit(
    "tool_call_values", "messages", 2**17, "JSON values in the arguments of tool calls"
)
TOOL_CALL_DEPTH = Limit("tool_call_depth", "messages", 64, "levels of nesting")
DOCUMENTS = Limit("documents", "documents", 1024, "documents")
# For `documents`, too.
TEMPLATE_BYTES = Limit(
    "chat_template_kwargs", "chat_template_kwargs", 2**20, "bytes as JSON"
)
TEMPLATE_DEPTH = Limit(
    "chat_template_kwargs_depth", "chat_template_kwargs", 16, "levels of nesting"
)
# Several times as long as those of models.
CHAT_TEMPLATE = Limit("chat_template", "chat_template", 2**16, "characters")
METADATA = Limit("metadata", "metadata", 16, "pairs")
METADATA_KEY = Limit("metadata_key", "metadata", 64, "characters in one key")
METADATA_VALUE = Limit("metadata_value", "metadata", 512, "characters in one value")
# As many as a request's body has by default.
HISTORY_BYTES = Limit(
    "history_bytes", "previous_response_id", 2**23, "bytes of earlier items as JSON"
)
# Enough for the ids of 100,000 blocks.
TRANSFER_BYTES = Limit(
    "kv_transfer_params", "kv_transfer_params", 2**20, "bytes as JSON"
)
TRANSFER_DEPTH = Limit(
    "kv_transfer_params_depth", "kv_transfer_params", 16, "levels of nesting"
)
EXTRA_ARGS_BYTES = Limit("vllm_xargs", "vllm_xargs", 64 * 1024, "bytes as JSON")
GRAMMAR_BYTES = Limit(
    "grammar_bytes",
    "structured_outputs",
    128 * 1024,
    "bytes of schema, expression, grammar or choices",
)
GRAMMAR_VALUES = Limit(
    "grammar_values", "structured_outputs", 16_384, "JSON values in the schema"
)
GRAMMAR_DEPTH = Limit(
    "grammar_depth", "structured_outputs", 64, "levels of nesting in the schema"
)
GRAMMAR_CHOICES = Limit("grammar_choices", "structured_outputs", 4096, "choices")
JSON_VALUES = Limit("json_values", None, 2**21, "JSON values in the body")
JSON_CONTAINERS = Limit("json_containers", None, 2**15, "lists and objects in the body")
JSON_STRINGS = Limit("json_strings", None, 2**17, "strings in the body")

LIMITS: tuple[Limit, ...] = tuple(
    each for each in list(vars().values()) if isinstance(each, Limit)
)


def check_words(stop: Collection[str], bad_words: Collection[str]) -> None:
    """Checks number and length of stop strings and bad words.

    Raises:
        LimitError: There are too many, or they are too long.
        RequestError: One is empty.
    """
    STOP.check(len(stop))
    BAD_WORDS.check(len(bad_words))
    # Their types are checked later.
    for each in stop:
        STOP_LENGTH.check(len(each) if isinstance(each, str) else 0)
    lengths = [len(each) for each in bad_words if isinstance(each, str)]
    BAD_WORDS_LENGTH.check(max(lengths, default=0))
    BAD_WORDS_CHARACTERS.check(sum(lengths))
    for param, words in (("stop", stop), ("bad_words", bad_words)):
        if not all(words):
            raise RequestError(f"{param} must not hold empty strings", param=param)


def check_token_lists(
    vocab_size: int,
    *,
    logit_bias: Mapping[int, float],
    allowed_token_ids: Collection[int],
    stop_token_ids: Collection[int],
) -> None:
    """Checks the lengths of lists of token ids, which the vocabulary limits.

    Raises:
        LimitError: One is too long.
    """
    for limit, given in (
        (LOGIT_BIAS, logit_bias),
        (ALLOWED_TOKEN_IDS, allowed_token_ids),
        (STOP_TOKEN_IDS, stop_token_ids),
    ):
        if given:
            limit.check(len(given), most=vocab_size)
