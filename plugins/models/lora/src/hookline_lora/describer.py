"""Describes adapters of a served model, by its layers."""

from hookline.exceptions import ConfigError
from hookline.step import ModelShape
from hookline_lora.adapter import AdapterRef
from hookline_lora.config import OPTION, AdapterSource, LoraConfig
from hookline_lora.files.description import describe_adapter
from hookline_lora.files.paths import find_adapter
from hookline_lora.pacing import Pacing
from hookline_lora.scheduler.describing import Describe
from hookline_lora.targets import LoraTargets

_NUMBER_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


def describer(
    lora: LoraConfig, shape: ModelShape, base: str, pacing: Pacing
) -> Describe:
    """Returns what describes adapters.

    Args:
        lora: How adapters are served.
        shape: The model; its ranks tell which of their layers adapters may change.
        base: The model's name.
        pacing: Has it rest while steps are computed.

    Raises:
        ConfigError: The model's executor tells of no such layers.
    """
    targets = LoraTargets.joined(shape.rank_sections)
    if targets is None:
        raise ConfigError(OPTION, "the executor computes no adapters")
    number_bytes = _NUMBER_BYTES[targets.dtype.removeprefix("torch.")]

    def describe(source: AdapterSource) -> AdapterRef:
        found = describe_adapter(
            find_adapter(source.path),
            targets=targets.shapes,
            config=lora,
            number_bytes=number_bytes,
            base=base,
            rest=pacing.rests(),
        )
        return found.named(
            source.name,
            source.path,
            base_model_name=source.base_model_name,
            is_pinned=source.is_pinned,
        )

    return describe
