"""A line as bytes: UTF-8 JSON that no reader can take for more than one line."""

import json

import msgspec

from hookline_request_log.schema import Line

_ENCODER = msgspec.json.Encoder()
# JSON escapes the ASCII ones; many readers, Python's among them, break at these too.
_LINE_BREAKS = tuple(
    (character.encode(), json.dumps(character)[1:-1].encode())
    for character in ("\x85", "\u2028", "\u2029")
)


def encode(line: Line) -> bytes:
    """The line with its newline at the end."""
    try:
        data = _ENCODER.encode(line)
    except UnicodeEncodeError:  # half a surrogate pair: strict readers refuse it too
        text = json.dumps(msgspec.to_builtins(line), ensure_ascii=False)
        data = text.encode(errors="replace")
    if not data.isascii():
        for character, escaped in _LINE_BREAKS:
            data = data.replace(character, escaped)
    return data + b"\n"
