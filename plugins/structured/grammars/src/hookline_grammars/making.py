"""Makes the extension that an engine or a rank needs, if it needs any."""

from hookline.config.extensions import STRUCTURED_OUTPUTS_OPTION as OPTION
from hookline.exceptions import ConfigError
from hookline.payloads import ExtensionContext
from hookline_grammars.config import StructuredOutputsConfig
from hookline_grammars.extension import EngineExtension, RankExtension
from hookline_grammars.loading import AUTO, chosen_backends
from hookline_grammars.settings import GrammarSettings


def make_extension(
    context: ExtensionContext,
) -> EngineExtension | RankExtension | None:
    """Returns None if structured outputs are off or no backend is installed.

    So it does for an executor without logits.

    Raises:
        ConfigError: An option is wrong, or the named backend is not installed, or needs
            logits.
        ModelLoadError: The model's description is missing or damaged.
    """
    own = StructuredOutputsConfig.from_mapping(context.options)
    if context.is_rank:
        return RankExtension(context.config)
    if context.has_logits:
        settings = GrammarSettings.of(context.config)
        return None if settings is None else EngineExtension(settings, own)
    if chosen_backends(own.backend) and own.backend != AUTO:
        name = context.config.executor_name
        raise ConfigError(OPTION, f"the executor {name} has no logits")
    return None
