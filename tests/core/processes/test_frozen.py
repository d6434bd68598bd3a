"""Plain data that cannot be changed."""

from collections.abc import MutableMapping
from typing import cast

import msgspec
import pytest

from hookline.frozen import MOST_LEVELS, frozen_json, frozen_map, plain


def test_frozen_json_has_tuples_and_views_at_every_level() -> None:
    """
    Lists become tuples and objects unchangeable mappings, however deep.
    """
    frozen = frozen_json({"a": [1, {"b": [2]}]})

    assert frozen["a"] == (1, {"b": (2,)})
    inner = cast("tuple[int, MutableMapping[str, object]]", frozen["a"])[1]
    with pytest.raises(TypeError, match="does not support item assignment"):
        inner["b"] = 3


def test_frozen_json_is_a_copy() -> None:
    """
    Later changes of the source do not show.
    """
    source: dict[str, object] = {"a": [1]}
    frozen = frozen_json(source)

    source["b"] = 2

    assert frozen == {"a": (1,)}


def test_json_that_is_too_deep_is_refused() -> None:
    """
    Depth is bounded, because recursion is.
    """
    value: object = []
    for _ in range(MOST_LEVELS):
        value = [value]

    with pytest.raises(ValueError, match="levels of lists"):
        frozen_json({"a": value})


def test_frozen_maps_are_encoded_as_maps() -> None:
    """
    msgspec encodes them with the hook, and still refuses what it does not know.
    """
    encoder = msgspec.msgpack.Encoder(enc_hook=plain)

    assert msgspec.msgpack.decode(encoder.encode(frozen_map({"a": 1}))) == {"a": 1}
    with pytest.raises(NotImplementedError):
        encoder.encode(object())
