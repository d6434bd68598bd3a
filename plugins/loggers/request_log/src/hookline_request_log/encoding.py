"""Encodes a line as UTF-8 JSON without any Unicode line break."""

import json

import msgspec

from hookline_request_log.schema import Line

_ENCODER = msgspec.json.Encoder()
# JSON escapes ASCII line breaks; many readers, Python's included, split at these too.
_LINE_BREAKS = tuple(
    (character.encode(), json.dumps(character)[1:-1].encode())
    for character in ("\x85", "\u2028", "\u2029")
)


def encode(line: Line) -> bytes:
    """Encodes the line with a trailing newline."""
    try:
        data = _ENCODER.encode(line)
    except UnicodeEncodeError:  # a lone surrogate, which strict readers reject too
        text = json.dumps(msgspec.to_builtins(line), ensure_ascii=False)
        data = text.encode(errors="replace")
    if not data.isascii():
        for character, escaped in _LINE_BREAKS:
            data = data.replace(character, escaped)
    return data + b"\n"
