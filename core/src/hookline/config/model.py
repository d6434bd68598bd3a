"""Configuration of the model: its folder, format and dtype."""

from dataclasses import dataclass, field
from enum import StrEnum

from hookline.config.option_fields import check_options
from hookline.config.options import option
from hookline.exceptions import ConfigError


class Runner(StrEnum):
    """What an engine does with its model."""

    AUTO = "auto"
    GENERATE = "generate"
    POOLING = "pooling"


class Convert(StrEnum):
    """What a model that generates can do besides."""

    AUTO = "auto"
    NONE = "none"
    EMBED = "embed"


class LoadFormat(StrEnum):
    SAFETENSORS = "safetensors"
    DUMMY = "dummy"


class Dtype(StrEnum):
    AUTO = "auto"
    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"
    FLOAT32 = "float32"


class Quantization(StrEnum):
    """Bits of weights and activations, or the format that a checkpoint has."""

    W8A16 = "w8a16"
    W4A16 = "w4a16"
    GPTQ = "gptq"
    AWQ = "awq"
    COMPRESSED_TENSORS = "compressed-tensors"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """The model that an engine serves.

    Attributes:
        has_few_layers: Load only the first layers, one or more of each kind; set where
            the model computes nothing for anybody, but its kernels are compiled.
    """

    model: str = field(
        default="demo",
        metadata=option(
            "Path of a model folder (with config.json), or name of an installed model."
        ),
    )
    served_model_name: str | None = field(
        default=None,
        metadata=option(
            "Model name used in the API and in metrics.",
            shown_default="the model's folder name",
        ),
    )
    tokenizer: str | None = field(
        default=None,
        metadata=option(
            "Path of a folder with a tokenizer.",
            metavar="FOLDER",
            shown_default="the model's",
        ),
    )
    dtype: Dtype = field(
        default=Dtype.AUTO,
        metadata=option(
            "Data type of weights, activations and, unless kv-cache-dtype is set, KV "
            "cache; auto uses the checkpoint's."
        ),
    )
    quantization: Quantization | None = field(
        default=None,
        metadata=option(
            "w8a16 and w4a16 quantize weights to 8 or 4 bits while they are loaded. "
            "The others are formats of quantized checkpoints, which config.json names.",
            shown_default="the checkpoint's",
        ),
    )
    load_format: LoadFormat = field(
        default=LoadFormat.SAFETENSORS,
        metadata=option(
            "Format of the weights; dummy initializes them randomly and reads no files."
        ),
    )
    max_model_len: int | None = field(
        default=None,
        metadata=option(
            "Maximum number of prompt plus output tokens.",
            metavar="TOKENS",
            minimum=1,
            shown_default="the model's context length",
        ),
    )
    seed: int = field(
        default=0,
        metadata=option("Random seed of dummy weights and of requests without a seed."),
    )
    runner: Runner = field(
        default=Runner.AUTO,
        metadata=option(
            "Generate text, or only embed (pooling); auto is pooling for folders of "
            "Sentence Transformers.",
        ),
    )
    convert: Convert = field(
        default=Convert.AUTO,
        metadata=option(
            "embed lets a model that generates embed as well; auto and none do not."
        ),
    )
    has_few_layers: bool = False

    def __post_init__(self) -> None:
        check_options(self)
        if not self.model:
            raise ConfigError("model", "must name a folder or an installed model")

    @property
    def served_name(self) -> str:
        """Name in the API, and `model_name` in metrics."""
        if self.served_model_name:
            return self.served_model_name
        return self.model.rstrip("/").rsplit("/", maxsplit=1)[-1]
