"""The input of custom tools, decoded from what a model writes."""

import json

import pytest

from hookline_server.answers.custom_input import CustomInput

TEXTS = ("", "plain", '"', "\\", "a\\\\b", "\\u00e9", "é\n\t\r", "😀😀", "\x00\x1f/")


def decoded(text: str, size: int) -> str:
    """The input, if the model's text arrives in pieces of this size."""
    custom = CustomInput()
    pieces = [custom.push(text[at : at + size]) for at in range(0, len(text), size)]
    return "".join([*pieces, custom.finish()])


@pytest.mark.parametrize("is_ascii", [False, True])
def test_every_text_at_every_split(is_ascii: bool) -> None:
    """
    What was encoded comes back, wherever an escape was cut.
    """
    for text in (*TEXTS, "".join(TEXTS)):
        whole = json.dumps({"input": text}, ensure_ascii=is_ascii)
        spaced = f' {{\n "input" :\t {json.dumps(text, ensure_ascii=is_ascii)} }}'
        for form in (whole, spaced):
            for size in (1, 2, 3, 5, 7, len(form)):
                assert decoded(form, size) == text, (form, size)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"patch": "abc"}', "abc"),
        ('{"reason": "x", "input": "abc"}', "abc"),
        ('{"input": "abc", "reason": "x"}', "abc"),
        ('"abc"', "abc"),
        ("*** Begin Patch", "*** Begin Patch"),
        ('{"a": 1}', '{"a": 1}'),
        ('{"input": {"a": 1}}', '{"input": {"a": 1}}'),
        ('{"input": "it is cut \\u00', "it is cut "),
        ('{"input": "it is cut', "it is cut"),
        (r'{"input": "C:\user \d"}', r"C:\user \d"),
        (r'{"input": "half \ud83d of one"}', "half ? of one"),
        ("", ""),
    ],
)
def test_what_models_write_instead(text: str, expected: str) -> None:
    """
    The only text, or all of it: a client can tell its user what went wrong.
    """
    for size in (1, 4, 100):
        assert decoded(text, size) == expected
