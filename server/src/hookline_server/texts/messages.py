"""Messages between a front end and its text processes, as msgpack in frames.

A text process handles jobs one by one, in order, and answers each with one reply.
"""

from collections.abc import Mapping, Sequence

import msgspec


class Setup(msgspec.Struct, frozen=True, array_like=True):
    """What every text process of a front end needs; it is read from a file.

    Attributes:
        tokenizer: The tokenizer as the JSON of `tokenizers`.
        templates: The model's chat templates by name; empty if it has none.
        special_tokens: Variables of the chat template, such as `bos_token`.
    """

    tokenizer: str
    templates: dict[str, str]
    special_tokens: dict[str, object]


class Encode(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A job: tokenize texts.

    Attributes:
        texts: The texts.
        add_special_tokens: Whether to add the special tokens of a prompt.
        max_tokens: Tokens that are of use; a text that is clearly longer may be
            refused before all of it is tokenized. None tokenizes any text.
    """

    texts: Sequence[str]
    add_special_tokens: bool
    max_tokens: int | None = None


class Render(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A job: apply the chat template and tokenize.

    Attributes:
        messages: The conversation.
        variables: Further variables of the template, such as `tools`.
        add_generation_prompt: Whether to end with the start of the assistant's turn.
        continue_final_message: Whether to end with the text of the last message.
        chat_template: Template that takes the place of the model's, or the name of one
            of them; None has the model's chosen by whether there are tools.
        max_tokens: See `Encode`.
        max_chars: Characters after which rendering stops.
    """

    messages: Sequence[Mapping[str, object]]
    variables: Mapping[str, object]
    add_generation_prompt: bool
    continue_final_message: bool
    chat_template: str | None
    max_tokens: int | None
    max_chars: int


Job = Encode | Render


class Ready(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The first reply: the process has loaded the tokenizer."""


class Encoded(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The token ids of each text.

    Attributes:
        token_ids: Each text's token ids as native unsigned integers of four bytes,
            which are faster to read than a list.
        seconds: Time that the job took.
    """

    token_ids: Sequence[bytes]
    seconds: float


class TooLong(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A text that has more tokens than are of use."""

    seconds: float


class TemplateRefused(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The chat template does not accept the messages.

    Attributes:
        reason: The template's reason.
        seconds: Time that the job took.
    """

    reason: str
    seconds: float


Answer = Encoded | TooLong | TemplateRefused
Reply = Ready | Answer
