"""Model families whose attention needs more than the registered function."""

from typing import Protocol, cast

from transformers import PreTrainedModel

from hookline.exceptions import ConfigError, ModelLoadError
from hookline.plugins.calling import hook_of
from hookline.plugins.kinds import MODEL_FAMILY
from hookline_registry import RegistryError, UnknownPluginError

_DISTRIBUTION = "hookline-families"
_USUAL = {"bloom", "falcon", "mpt"}
"""Families of that distribution whose modules cannot attend over a paged cache."""


class ModelFamily(Protocol):
    """How models of one `model_type` attend over a paged cache.

    Attributes:
        attention: Name of the attention implementation to load them with.
    """

    @property
    def attention(self) -> str: ...

    def replace_attention(self, model: PreTrainedModel) -> None:
        """Has a loaded model's attention modules call their `AttentionSlot`."""
        ...


def find_family(model: str, model_type: str) -> ModelFamily | None:
    """Returns the installed family of this name, if there is one.

    Raises:
        ModelLoadError: None is installed, and models of this type need one.
        ConfigError: Its plugin is broken.
    """
    try:
        return cast("ModelFamily", hook_of(MODEL_FAMILY, model_type)())
    except UnknownPluginError as error:
        if model_type not in _USUAL:
            return None
        raise ModelLoadError(
            model,
            f"models of the type {model_type!r} need {_DISTRIBUTION}, which is not "
            f"installed (pip install {_DISTRIBUTION})",
        ) from error
    except RegistryError as error:
        raise ConfigError("model", str(error)) from error
