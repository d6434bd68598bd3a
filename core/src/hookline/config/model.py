"""Which model an engine serves, and how it is loaded."""

from dataclasses import dataclass
from enum import StrEnum

from hookline.config.checks import check_positive
from hookline.exceptions import ConfigError


class LoadFormat(StrEnum):
    SAFETENSORS = "safetensors"
    DUMMY = "dummy"


class Dtype(StrEnum):
    AUTO = "auto"
    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"
    FLOAT32 = "float32"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """Which model, and how it is loaded.

    Attributes:
        model: A folder with `config.json`, or the name of an installed model
            (entry-point group `hookline.models`).
        served_model_name: What clients call it; the model's own name by default.
        tokenizer: A folder with a tokenizer; the model's own by default.
        dtype: Of weights and KV cache; `auto` takes the checkpoint's.
        load_format: `dummy` fills the weights from `seed` and reads none.
        max_model_len: Longest prompt plus output in tokens; the model's by default.
        seed: For dummy weights and for requests that bring no seed of their own.
    """

    model: str = "demo"
    served_model_name: str | None = None
    tokenizer: str | None = None
    dtype: Dtype = Dtype.AUTO
    load_format: LoadFormat = LoadFormat.SAFETENSORS
    max_model_len: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.model:
            raise ConfigError("model", "must name a folder or an installed model")
        check_positive("max-model-len", self.max_model_len)

    @property
    def served_name(self) -> str:
        """The name that clients use and that metrics carry as `model_name`."""
        if self.served_model_name:
            return self.served_model_name
        return self.model.rstrip("/").rsplit("/", maxsplit=1)[-1]
