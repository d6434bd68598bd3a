"""The text of system messages, without what clients add for the provider's accounts."""

import re

from hookline_server.protocol.ignored import Ignored

_NAME = "x-anthropic-billing-header:"
_LINE = re.compile(rf"^[ \t]*{_NAME}[^\n]*(?:\n+|\Z)", re.MULTILINE)


def without_billing(text: str, ignored: Ignored) -> str:
    """Returns a system message's text without lines of Claude Code's billing header.

    They differ from request to request, so that no prompt would begin as an earlier
    one did.
    """
    if _NAME not in text:
        return text
    kept, count = _LINE.subn("", text)
    if count:
        ignored.add("text", "billing_header")
    return kept
