"""The built-in logits processors, in the order in which they are applied."""

from hookline.worker.sampling.logits_processor import LogitsProcessor
from hookline.worker.sampling.processors.allowed_token_ids import AllowedTokenIds
from hookline.worker.sampling.processors.bad_words import BadWords
from hookline.worker.sampling.processors.logit_bias import LogitBias
from hookline.worker.sampling.processors.min_tokens import MinTokens
from hookline.worker.sampling.processors.penalties import Penalties


def builtin_processors(max_num_seqs: int, vocab_size: int) -> list[LogitsProcessor]:
    """Creates the processors behind the fields of `SamplingParams`."""
    return [
        Penalties(max_num_seqs),
        LogitBias(),
        AllowedTokenIds(max_num_seqs, vocab_size),
        MinTokens(),
        BadWords(),
    ]
