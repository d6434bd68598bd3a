"""A run of requests by an engine that a plugin takes part in."""

from hookline import LLM, EngineConfig, SamplingParams
from hookline.config import ExecutorConfig, Kernels, ModelConfig, SchedulerConfig
from hookline_registry import Failure
from hookline_testing.conformance.subject import Subject

_PROMPTS = ("def add(a, b):", "x", "def add(a, b):")
_TOKENS = 4


def run(
    subject: Subject,
    *,
    executor: str = "simulated",
    **given: object,
) -> None:
    """Generates texts by an engine in this process; what goes wrong is a fault.

    torch computes: a plugin's test should not wait for kernels to be compiled.

    Args:
        subject: The plugin.
        executor: Name of the executor.
        given: Further fields of the engine's configuration.
    """
    config = EngineConfig(
        executor=ExecutorConfig(name=executor, kernels=Kernels.TORCH),
        model=ModelConfig(model="demo"),
        scheduler=SchedulerConfig(max_num_seqs=4, max_num_batched_tokens=64),
        **given,  # type: ignore[arg-type]
    )
    outcome = subject.call("an engine with it", _texts, config)
    if isinstance(outcome, Failure):
        return
    for reason, number in outcome:
        if reason != "length" or number != _TOKENS:
            subject.fault(
                f"a request for {_TOKENS} tokens ended with {reason!r} after {number}",
                subject.factory,
            )


def _texts(config: EngineConfig) -> list[tuple[str, int]]:
    params = SamplingParams(max_tokens=_TOKENS, ignore_eos=True, temperature=0.0)
    with LLM.from_config(config) as llm:
        outputs = llm.generate(list(_PROMPTS), params, use_tqdm=False)
    return [
        (str(each.outputs[0].finish_reason), len(each.outputs[0].token_ids))
        for each in outputs
    ]
