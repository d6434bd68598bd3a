"""The built-in logits processors, in the order in which they are applied."""

from collections.abc import Sequence

from hookline.worker.sampling.logits_processor import LogitsProcessor
from hookline.worker.sampling.processors.allowed_token_ids import AllowedTokenIds
from hookline.worker.sampling.processors.bad_words import BadWords
from hookline.worker.sampling.processors.logit_bias import LogitBias
from hookline.worker.sampling.processors.min_tokens import MinTokens
from hookline.worker.sampling.processors.penalties import Penalties


def builtin_processors(
    max_num_seqs: int,
    vocab_size: int,
    extensions: Sequence[LogitsProcessor] = (),
) -> list[LogitsProcessor]:
    """Creates the processors behind the fields of `SamplingParams`.

    Args:
        max_num_seqs: Number of batch rows.
        vocab_size: Width of the logits.
        extensions: Processors of extensions.
    """
    return [
        Penalties(max_num_seqs),
        LogitBias(),
        AllowedTokenIds(max_num_seqs, vocab_size),
        *extensions,  # those that follow ban nothing where nothing else is left
        MinTokens(),
        BadWords(),
    ]
