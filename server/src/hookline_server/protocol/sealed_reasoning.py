"""Reasoning as `encrypted_content`, for clients that send nothing else of it back.

Codex drops the text of reasoning from what it sends, and keeps this. It hides nothing:
the client gets the same text beside it.
"""

import base64
import binascii

_PREFIX = "hookline."


def sealed(text: str) -> str:
    """Returns a text in the form of encrypted content."""
    return _PREFIX + base64.b64encode(text.encode("utf-8", "replace")).decode()


def unsealed(content: str | None) -> str | None:
    """Returns the text of encrypted content; None if another server has made it."""
    if content is None or not content.startswith(_PREFIX):
        return None
    try:
        data = base64.b64decode(content.removeprefix(_PREFIX), validate=True)
        return data.decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
