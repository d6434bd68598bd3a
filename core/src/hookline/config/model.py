"""Configuration of the model: its folder, format and dtype."""

from dataclasses import dataclass
from enum import StrEnum

from hookline.config.options import check_options, option
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
    W8A8 = "w8a8"
    W4A8 = "w4a8"
    GPTQ = "gptq"
    AWQ = "awq"
    COMPRESSED_TENSORS = "compressed-tensors"
    FP8 = "fp8"
    FBGEMM_FP8 = "fbgemm_fp8"
    MODELOPT = "modelopt"
    MXFP4 = "mxfp4"


class TokenizerMode(StrEnum):
    """How a tokenizer is read: tokenizer.json itself, or by `transformers`' class."""

    AUTO = "auto"
    HF = "hf"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """The model that an engine serves.

    Attributes:
        has_few_layers: Load only the first layers, one or more of each kind; set where
            the model computes nothing for anybody, but its kernels are compiled.
    """

    model: str = option(
        "Model folder (with config.json), installed model, or id of a hub (org/name).",
        default="demo",
    )
    served_model_name: str | None = option(
        "Model name used in the API and in metrics.",
        default=None,
        shown_default="the model's folder name, or its id",
    )
    tokenizer: str | None = option(
        "Folder with a tokenizer, or id of a hub.",
        default=None,
        metavar="FOLDER",
        shown_default="the model's",
    )
    tokenizer_mode: TokenizerMode = option(
        "auto reads tokenizer.json as it is, and converts other files; hf always asks "
        "the class that tokenizer_config.json names.",
        default=TokenizerMode.AUTO,
    )
    chat_template: str | None = option(
        "Chat template of all conversations: a file, the name of one of the model's, "
        "or the template itself.",
        default=None,
        metavar="FILE|NAME",
        shown_default="the model's",
    )
    dtype: Dtype = option(
        "Data type of weights, activations and, unless kv-cache-dtype is set, KV "
        "cache; auto uses the checkpoint's.",
        default=Dtype.AUTO,
    )
    quantization: Quantization | None = option(
        "w8a16 and w4a16 quantize weights to 8 or 4 bits while they are loaded, w8a8 "
        "and w4a8 activations to 8, too. "
        "The others are formats of quantized checkpoints, which config.json names.",
        default=None,
        shown_default="the checkpoint's",
    )
    load_format: LoadFormat = option(
        "Format of the weights; dummy initializes them randomly and reads no files.",
        default=LoadFormat.SAFETENSORS,
    )
    max_model_len: int | None = option(
        "Maximum number of prompt plus output tokens.",
        default=None,
        metavar="TOKENS",
        minimum=1,
        shown_default="the model's context length",
    )
    seed: int = option(
        "Random seed of dummy weights and of requests without a seed.", default=0
    )
    runner: Runner = option(
        "Generate text, or only embed (pooling); auto is pooling for folders of "
        "Sentence Transformers.",
        default=Runner.AUTO,
    )
    generation_config: str = option(
        "Where requests that are silent get their sampling from: auto is the model's "
        "generation_config.json, vllm no file, or a folder with such a file.",
        default="auto",
        metavar="auto|vllm|FOLDER",
    )
    override_generation_config: dict[str, object] = option(
        'Values that take the place of that file\'s, such as {"temperature": 0.5}.',
        default_factory=dict,
        metavar="JSON",
        shown_default="none",
        read_mapping=dict,
    )
    hf_overrides: dict[str, object] = option(
        "Values that take the place of config.json's, such as "
        '{"max_position_embeddings": 8192}.',
        default_factory=dict,
        metavar="JSON",
        shown_default="none",
        read_mapping=dict,
    )
    convert: Convert = option(
        "embed lets a model that generates embed as well; auto and none do not.",
        default=Convert.AUTO,
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
