"""Extension `lora`: LoRA adapters beside their base model."""

from hookline.hookspecs import hookimpl
from hookline.payloads import ExtensionContext, ExtensionFacts


@hookimpl
def create_extension(context: ExtensionContext) -> object | None:
    """Makes the extension.

    Raises:
        ConfigError: An option is wrong, or the executor computes no adapters.
    """
    from hookline_lora.config import LoraConfig  # noqa: PLC0415
    from hookline_lora.extension import LoraExtension  # noqa: PLC0415

    return LoraExtension(LoraConfig.from_mapping(context.options), context.config)


@hookimpl
def create_extension_facts(context: ExtensionFacts) -> object:
    """Returns the facts of an engine that serves adapters."""
    import msgspec  # noqa: PLC0415

    from hookline_lora.facts import LoraFacts  # noqa: PLC0415

    return msgspec.convert(context.section, LoraFacts)
