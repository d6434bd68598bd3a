"""Whether drafts leave an engine's output as it is."""

from collections.abc import Sequence

from hookline import LLM, SamplingParams
from hookline.config import EngineConfig
from hookline.stats.scheduler_stats import Residue
from hookline_testing.conservation import assert_conserved
from hookline_testing.oracle import Oracle


def count_drafts(
    oracle: Oracle, config: EngineConfig, prompts: Sequence[list[int]], num_tokens: int
) -> int:
    """Compares greedy outputs, of the prompts twice over, with the oracle's.

    Args:
        oracle: Knows the right output.
        config: Of an engine with the oracle's model that drafts.
        prompts: The prompts.
        num_tokens: Tokens that each gets.

    Returns:
        Number of tokens that were drafted the first time.
    """
    greedy = SamplingParams(temperature=0.0, max_tokens=num_tokens)
    with LLM.from_config(config) as llm:
        outputs = llm.generate(prompts, greedy)
        again = llm.generate(prompts, greedy)
        stats = llm.front_end.engines[0].stats
        assert_conserved(llm)

    expected = [oracle.greedy(prompt, num_tokens) for prompt in prompts]
    assert [output.outputs[0].token_ids for output in outputs] == expected
    assert [output.outputs[0].token_ids for output in again] == expected
    assert stats.totals.residue == Residue()
    return sum(output.outputs[0].draft_tokens for output in outputs)
