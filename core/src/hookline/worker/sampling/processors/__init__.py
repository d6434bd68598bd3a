"""The built-in logits processors, in the order in which they are applied."""

from hookline.structured.own_backends import MatcherSource
from hookline.worker.sampling.logits_processor import LogitsProcessor
from hookline.worker.sampling.processors.allowed_token_ids import AllowedTokenIds
from hookline.worker.sampling.processors.bad_words import BadWords
from hookline.worker.sampling.processors.grammar_masks import GrammarMasks
from hookline.worker.sampling.processors.logit_bias import LogitBias
from hookline.worker.sampling.processors.min_tokens import MinTokens
from hookline.worker.sampling.processors.penalties import Penalties


def builtin_processors(
    max_num_seqs: int,
    vocab_size: int,
    matchers: MatcherSource | None = None,
    *,
    may_compile: bool = True,
) -> list[LogitsProcessor]:
    """Creates the processors behind the fields of `SamplingParams`.

    Args:
        max_num_seqs: Number of batch rows.
        vocab_size: Width of the logits.
        matchers: Makes matchers of grammars; None without structured outputs.
        may_compile: Whether kernels may change logits, which are in main memory then.
    """
    # Those after the grammar ban nothing where nothing else is left.
    grammar: list[LogitsProcessor] = []
    if matchers is not None:
        grammar = [GrammarMasks(matchers, vocab_size, may_compile=may_compile)]
    return [
        Penalties(max_num_seqs),
        LogitBias(),
        AllowedTokenIds(max_num_seqs, vocab_size),
        *grammar,
        MinTokens(),
        BadWords(),
    ]
