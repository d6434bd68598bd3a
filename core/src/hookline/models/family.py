"""Model families whose attention needs more than the registered function."""

from typing import Protocol, cast

from transformers import PreTrainedModel

from hookline.exceptions import ConfigError
from hookline.plugins.calling import hook_of
from hookline.plugins.kinds import MODEL_FAMILY
from hookline_registry import RegistryError, UnknownPluginError

DISTRIBUTION = "hookline-families"
"""The distribution that has the usual families."""


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


def find_family(model_type: str) -> ModelFamily | None:
    """Returns the installed family of this name, if there is one.

    Raises:
        ConfigError: Its plugin is broken.
    """
    try:
        return cast("ModelFamily", hook_of(MODEL_FAMILY, model_type)())
    except UnknownPluginError:
        return None
    except RegistryError as error:
        raise ConfigError("model", str(error)) from error
