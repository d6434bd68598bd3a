"""Extension `fair`: the scheduling policy that takes tenants in turn."""

from hookline.config.checks import refuse_unknown
from hookline.config.extensions import FAIR, OPTION
from hookline.hookspecs import hookimpl
from hookline.payloads import ExtensionContext


@hookimpl
def create_extension(context: ExtensionContext) -> object:
    """Makes the extension; `ConfigError` for an option, as it has none."""
    refuse_unknown(FAIR, OPTION, context.options, ())
    from hookline_fair.fair_queue import FairExtension  # noqa: PLC0415

    return FairExtension()
