"""JSON of what models write for it."""

import json
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from hookline_server.reply_parsing.arguments_mender import ArgumentsMender
from hookline_server.reply_parsing.json_mender import JsonMender

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner)
    ),
    max_leaves=12,
)
PIECES = (
    *('"', "'", "\\", "{", "}", "[", "]", ":", ",", " ", "\n", "\t", "\\u00", "\\x"),
    *(
        "true",
        "None",
        "-1.5e3",
        "NaN",
        "a",
        "key",
        "//",
        "/*",
        "*/",
        "<",
        "`",
        "=",
        ";",
    ),
    *('"a": ', "'b': ", "é", "\x00", '{"a": "', "\\n"),
)
CASES = {
    # what a model wrote, the JSON of it, what was mended
    '{"a": 1, "b": [true, "x"]} ': ('{"a": 1, "b": [true, "x"]}', ()),
    '{"a": "b\nc"}': ('{"a": "b\\nc"}', ("character",)),
    '{"a": "\\d"}': ('{"a": "\\\\d"}', ("escape",)),
    "{'a': None}": ('{"a": null}', ("quote", "literal")),
    '\xa0{\xa0"a"\x0b: 1}': ('{ "a" : 1}', ()),
    '{"a": 1,}': ('{"a": 1}', ("comma",)),
    '{"a": [1}': ('{"a": [1]}', ("bracket",)),
    '{"a": "b': ('{"a": "b"}', ("cut",)),
    '{"a": fal': ('{"a": false}', ("cut",)),
    '{"a": 12.': ('{"a": 12}', ("cut",)),
    '{"a': ('{"a": null}', ("cut",)),
    '{"a": "\\': ('{"a": ""}', ("cut",)),
    "": ("{}", ()),
    '"Paris"': ('{"value": "Paris"}', ("shape",)),
    '"{\\"a\\": 1}"': ('{"a": 1}', ("shape",)),
    '"{\\"a\\": \\"\\ud83d\\"}"': ('{"a": "\ufffd"}', ("shape",)),
    "[1, 2": ('{"value": [1, 2]}', ("shape", "cut")),
    '{"a": 1</tool_call>': ('{"a": 1}', ("bracket",)),
}


def test_slips_are_mended() -> None:
    """
    And each kind is named.
    """
    faults = []
    for text, (expected, kinds) in CASES.items():
        mender = ArgumentsMender()
        mended = mender.push(text) + mender.finish()
        if (mended.strip(), tuple(mender.repairs)) != (expected, kinds):
            faults.append((text, mended, mender.repairs))

    assert not faults


@settings(deadline=None, max_examples=60)
@given(value=JSON, indent=st.sampled_from([None, 2]), seed=st.integers(0, 1000))
def test_json_passes_unchanged(value: object, indent: int | None, seed: int) -> None:
    """
    However it is cut, and whatever follows it.
    """
    text = json.dumps(value, indent=indent, ensure_ascii=seed % 2 == 0)
    chance, mender, at = random.Random(seed), JsonMender(), 0  # noqa: S311 - no secret
    whole, mended = text + "\n</x>", ""

    while not mender.is_done and at < len(whole):
        piece = whole[at : at + chance.randint(1, 5)]
        at += mender.scan(piece, 0)
        mended += mender.mended()

    assert mended.strip() == text
    assert mender.repairs == []
    assert at <= len(text) + 1


@settings(deadline=None, max_examples=150)
@given(
    text=st.lists(st.sampled_from(PIECES), max_size=30).map("".join),
    seed=st.integers(0, 1000),
)
def test_any_text_becomes_an_object(text: str, seed: int) -> None:
    """
    The same one however the text is cut.
    """
    chance = random.Random(seed)  # noqa: S311 - no secret
    whole, split = ArgumentsMender(), ArgumentsMender()
    rest, mended = "{" + text if seed % 2 else text, ""

    expected = whole.push(rest) + whole.finish()
    while rest:
        size = chance.randint(1, 4)
        mended += split.push(rest[:size])
        rest = rest[size:]
    mended += split.finish()

    assert isinstance(json.loads(expected), dict)
    assert mended == expected
    assert split.repairs == whole.repairs


def test_each_character_is_read_once() -> None:
    """
    Of a value of any length and depth nothing is left to be read again.
    """
    for text in ("[" * 5000, '{"a": ' * 5000, '"' * 5000, "a: " * 5000, "/" * 5000):
        mender = JsonMender()
        for each in text:
            assert mender.is_done or mender.scan(each, 0) == 1
