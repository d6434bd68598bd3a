"""Makes texts safe for a log: no secrets, no control characters, no endless lines."""

import re

MAX_LENGTH = 4096
"""Maximum number of characters of a message or a field; the rest is cut."""

_SECRET = re.compile(
    r"""(?ix)
    (\bbearer\s+
    | \bbasic\s+(?=[A-Za-z0-9+/]{8})
    | \bsk-(?=[\w-]{8})                                  # keys in OpenAI's form
    | \b(?:api[-_]?key|token|secret|password|authorization)["']?\s*[=:]\s*["']?
      (?:(?:bearer|basic)\s+)?
    )
    [^\s"',;&]+
    """
)
_HINTS = ("bearer", "basic", "sk-", "key", "token", "secret", "passw", "authoriz")
"""A lowercase text with a match of `_SECRET` has at least one of these in it."""

_CONTROL = re.compile(
    "[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
_CONTROL_BUT_NEWLINE = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069"
    "\ud800-\udfff]"
)


def public_line(text: str) -> str:
    """Returns a text in one line and without secrets.

    They are replaced first: an escaped newline before a key would hide its beginning.
    """
    return in_one_line(without_secrets(text))


def in_one_line(text: str) -> str:
    """Returns a text with its controls escaped, shortened to `MAX_LENGTH`."""
    if len(text) <= MAX_LENGTH and text.isprintable():
        return text
    return _CONTROL.sub(_escaped, _shortened(text))


def indented(traceback: str) -> str:
    """Returns a traceback whose lines are all indented, so that none passes as another.

    Its messages may be made of a client's bytes.
    """
    return "\n".join(f"    {line}" for line in safe_lines(traceback))


def safe_lines(traceback: str) -> list[str]:
    """Returns a traceback's lines without secrets and controls, each shortened."""
    text = _CONTROL_BUT_NEWLINE.sub(_escaped, without_secrets(traceback))
    lines = text.splitlines()
    return [_shortened(line) for line in lines]


def without_secrets(text: str) -> str:
    """Replaces what looks like a key or a password."""
    lowered = text.lower()
    for hint in _HINTS:  # ten times as fast as a search for the expression
        if hint in lowered:
            return _SECRET.sub(r"\1[redacted]", text)
    return text


def _escaped(match: re.Match[str]) -> str:
    return match.group().encode("unicode_escape", "surrogatepass").decode()


def _shortened(text: str) -> str:
    if len(text) <= MAX_LENGTH:
        return text
    return f"{text[:MAX_LENGTH]}… ({len(text) - MAX_LENGTH} more characters)"
