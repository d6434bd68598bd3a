"""Extension `fair`: the scheduling policy that takes tenants in turn."""

from hookline.hookspecs import hookimpl
from hookline.payloads import ExtensionContext


@hookimpl
def create_extension(context: ExtensionContext) -> object:
    """Makes the extension, which has no options."""
    del context
    from hookline_fair.fair_queue import FairExtension  # noqa: PLC0415

    return FairExtension()
