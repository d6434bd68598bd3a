"""The limits of a request, in one table.

What one request may cost follows from them: the front end checks each one before it
copies, tokenizes or sends anything.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from hookline.exceptions import LimitError


@dataclass(frozen=True, slots=True, kw_only=True)
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


N = Limit(name="n", param="n", most=128, what="completions of a prompt")
"""OpenAI's limit, too."""

CHOICES = Limit(name="choices", param="prompt", most=1024, what="choices (prompts × n)")

EMBEDDED_INPUTS = Limit(
    name="embedded_inputs", param="input", most=2048, what="inputs to embed"
)
"""OpenAI's limit, too."""

POOLED_VALUES = Limit(
    name="pooled_values",
    param="input",
    most=2**23,
    what="numbers in the vectors of a response",
)

LOGPROBS = Limit(
    name="logprobs", param="logprobs", most=20, what="likeliest tokens per position"
)
"""OpenAI's limit, too, and the default of vLLM's."""

LOGPROB_ENTRIES = Limit(
    name="logprob_entries",
    param="logprobs",
    most=2**22,
    what="log-probabilities (choices × tokens × likeliest tokens)",
)
"""Only without streaming: they are kept until the end, about 100 bytes each."""

RETURNED_TOKEN_IDS = Limit(
    name="returned_token_ids",
    param="return_token_ids",
    most=2**22,
    what="token ids of prompts (choices × tokens)",
)

STOP = Limit(name="stop", param="stop", most=16, what="stop strings")

STOP_LENGTH = Limit(
    name="stop_length", param="stop", most=256, what="characters in one string"
)

STOP_TOKEN_IDS = Limit(
    name="stop_token_ids", param="stop_token_ids", most=1024, what="token ids"
)

ALLOWED_TOKEN_IDS = Limit(
    name="allowed_token_ids", param="allowed_token_ids", most=2**31, what="token ids"
)
"""In practice the vocabulary."""

LOGIT_BIAS = Limit(name="logit_bias", param="logit_bias", most=16_384, what="token ids")

BAD_WORDS = Limit(name="bad_words", param="bad_words", most=1024, what="words")

BAD_WORDS_LENGTH = Limit(
    name="bad_words_length", param="bad_words", most=256, what="characters in one word"
)

BAD_WORDS_CHARACTERS = Limit(
    name="bad_words_characters",
    param="bad_words",
    most=16_384,
    what="characters in all words",
)

PARAMETER_ENTRIES = Limit(
    name="parameter_entries",
    param="prompt",
    most=2**20,
    what="entries of the parameters' lists × prompts",
)
"""Only for several prompts: each is sent with its own parameters."""

MESSAGES = Limit(name="messages", param="messages", most=4096, what="messages")

CONTENT_PARTS = Limit(
    name="content_parts", param="messages", most=4096, what="content parts"
)

TOOLS = Limit(name="tools", param="tools", most=128, what="functions")
"""OpenAI's limit, too."""

TOOLS_BYTES = Limit(name="tools_bytes", param="tools", most=2**20, what="bytes as JSON")

TOOLS_DEPTH = Limit(
    name="tools_depth", param="tools", most=64, what="levels of nesting"
)

TOOL_NAME_LENGTH = Limit(
    name="tool_name_length", param="tools", most=128, what="characters"
)

TOOL_CALLS = Limit(name="tool_calls", param="messages", most=4096, what="tool calls")

TOOL_CALL_VALUES = Limit(
    name="tool_call_values",
    param="messages",
    most=2**17,
    what="JSON values in the arguments of tool calls",
)

TOOL_CALL_DEPTH = Limit(
    name="tool_call_depth",
    param="messages",
    most=64,
    what="levels of nesting",
)

DOCUMENTS = Limit(name="documents", param="documents", most=1024, what="documents")

TEMPLATE_BYTES = Limit(
    name="chat_template_kwargs",
    param="chat_template_kwargs",
    most=2**20,
    what="bytes as JSON",
)
"""For `documents`, too."""

TEMPLATE_DEPTH = Limit(
    name="chat_template_kwargs_depth",
    param="chat_template_kwargs",
    most=16,
    what="levels of nesting",
)

CHAT_TEMPLATE = Limit(
    name="chat_template", param="chat_template", most=2**16, what="characters"
)
"""Several times as long as those of models."""

METADATA = Limit(name="metadata", param="metadata", most=16, what="pairs")
"""OpenAI's limit, too."""

METADATA_KEY = Limit(
    name="metadata_key", param="metadata", most=64, what="characters in one key"
)
"""OpenAI's limit, too."""

METADATA_VALUE = Limit(
    name="metadata_value", param="metadata", most=512, what="characters in one value"
)
"""OpenAI's limit, too."""

HISTORY_BYTES = Limit(
    name="history_bytes",
    param="previous_response_id",
    most=2**23,
    what="bytes of earlier items as JSON",
)
"""As many as a request's body has by default."""

TRANSFER_BYTES = Limit(
    name="kv_transfer_params",
    param="kv_transfer_params",
    most=2**20,
    what="bytes as JSON",
)
"""Enough for the ids of 100,000 blocks."""

TRANSFER_DEPTH = Limit(
    name="kv_transfer_params_depth",
    param="kv_transfer_params",
    most=16,
    what="levels of nesting",
)

EXTRA_ARGS_BYTES = Limit(
    name="vllm_xargs", param="vllm_xargs", most=64 * 1024, what="bytes as JSON"
)

GRAMMAR_BYTES = Limit(
    name="grammar_bytes",
    param="structured_outputs",
    most=128 * 1024,
    what="bytes of schema, expression, grammar or choices",
)

GRAMMAR_VALUES = Limit(
    name="grammar_values",
    param="structured_outputs",
    most=16_384,
    what="JSON values in the schema",
)

GRAMMAR_DEPTH = Limit(
    name="grammar_depth",
    param="structured_outputs",
    most=64,
    what="levels of nesting in the schema",
)

GRAMMAR_CHOICES = Limit(
    name="grammar_choices", param="structured_outputs", most=4096, what="choices"
)

JSON_VALUES = Limit(
    name="json_values", param=None, most=2**21, what="JSON values in the body"
)

JSON_CONTAINERS = Limit(
    name="json_containers",
    param=None,
    most=2**15,
    what="lists and objects in the body",
)

JSON_STRINGS = Limit(
    name="json_strings", param=None, most=2**17, what="strings in the body"
)

LIMITS: tuple[Limit, ...] = (
    N,
    CHOICES,
    EMBEDDED_INPUTS,
    POOLED_VALUES,
    LOGPROBS,
    LOGPROB_ENTRIES,
    RETURNED_TOKEN_IDS,
    STOP,
    STOP_LENGTH,
    STOP_TOKEN_IDS,
    ALLOWED_TOKEN_IDS,
    LOGIT_BIAS,
    BAD_WORDS,
    BAD_WORDS_LENGTH,
    BAD_WORDS_CHARACTERS,
    PARAMETER_ENTRIES,
    MESSAGES,
    CONTENT_PARTS,
    TOOLS,
    TOOLS_BYTES,
    TOOLS_DEPTH,
    TOOL_NAME_LENGTH,
    TOOL_CALLS,
    TOOL_CALL_VALUES,
    TOOL_CALL_DEPTH,
    DOCUMENTS,
    TEMPLATE_BYTES,
    TEMPLATE_DEPTH,
    CHAT_TEMPLATE,
    METADATA,
    METADATA_KEY,
    METADATA_VALUE,
    HISTORY_BYTES,
    TRANSFER_BYTES,
    TRANSFER_DEPTH,
    EXTRA_ARGS_BYTES,
    GRAMMAR_BYTES,
    GRAMMAR_VALUES,
    GRAMMAR_DEPTH,
    GRAMMAR_CHOICES,
    JSON_VALUES,
    JSON_CONTAINERS,
    JSON_STRINGS,
)


def check_words(stop: Collection[str], bad_words: Collection[str]) -> None:
    """Checks number and length of stop strings and bad words.

    Raises:
        LimitError: There are too many, or they are too long.
    """
    STOP.check(len(stop))
    BAD_WORDS.check(len(bad_words))
    # Their types are checked later.
    for each in stop:
        STOP_LENGTH.check(len(each) if isinstance(each, str) else 0)
    if bad_words:
        lengths = [len(each) for each in bad_words if isinstance(each, str)]
        BAD_WORDS_LENGTH.check(max(lengths, default=0))
        BAD_WORDS_CHARACTERS.check(sum(lengths))


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
    LOGIT_BIAS.check(len(logit_bias), most=vocab_size)
    ALLOWED_TOKEN_IDS.check(len(allowed_token_ids), most=vocab_size)
    STOP_TOKEN_IDS.check(len(stop_token_ids), most=vocab_size)
