"""Whatever an adapter's files have, there is one kind of error, and little memory."""

import json
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hookline_lora.config import LoraConfig
from hookline_lora.exceptions import AdapterError
from hookline_lora.files.description import AdapterFacts, describe_adapter
from hookline_lora.files.header import read_header
from hookline_lora.files.numbers import pieces
from hookline_lora.files.weights import read_adapter
from hookline_testing.adapters import Shapes, decoder_shapes, make_adapter

MOST_MEMORY = 6 << 20
FUZZED = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
Header = dict[str, Any]


class Files(Protocol):
    """The fixture; see `conftest.py`."""

    folder: Path
    config: Path
    weights: Path
    shapes: Shapes

    def describe_otherwise(self, change: Callable[[Header], object]) -> None: ...


def describe(files: Files) -> AdapterFacts:
    return describe_adapter(files.folder, targets=files.shapes, config=LoraConfig())


def refusal(files: Files) -> str:
    tracemalloc.start()
    try:
        with pytest.raises(AdapterError) as found:
            describe(files)
        assert tracemalloc.get_traced_memory()[1] < MOST_MEMORY
    finally:
        tracemalloc.stop()
    return found.value.reason


def first_of(header: Header) -> Header:
    found: Header = next(
        each for name, each in header.items() if name != "__metadata__"
    )
    return found


LIES: dict[str, tuple[Callable[[Header], object], str]] = {
    "huge shape": (lambda it: first_of(it).update(shape=[2**40, 2**40]), "needs"),
    "larger": (lambda it: first_of(it).update(shape=[2**64, 1]), "has the shape"),
    "negative": (lambda it: first_of(it).update(shape=[-4, -64]), "has the shape"),
    "boolean": (lambda it: first_of(it).update(shape=[True, 256]), "has the shape"),
    "number": (lambda it: first_of(it).update(shape=4), "has the shape"),
    "scalar": (lambda it: first_of(it).update(shape=[]), "has the shape"),
    "cube": (lambda it: first_of(it).update(shape=[1, 4, 64]), "has the shape"),
    "type": (lambda it: first_of(it).update(dtype="I64"), "type I64"),
    "no type": (lambda it: first_of(it).update(dtype=[]), "type []"),
    "another type": (lambda it: first_of(it).update(dtype="BF16"), "bytes; its shape"),
    "no offsets": (lambda it: first_of(it).pop("data_offsets"), "is not described"),
    "more": (lambda it: first_of(it).update(x=1), "is not described"),
    "far": (lambda it: first_of(it).update(data_offsets=[0, 2**50]), "the offsets"),
    "backwards": (lambda it: first_of(it)["data_offsets"].reverse(), "bytes; its"),
    "shifted": (
        lambda it: first_of(it).update(
            data_offsets=[each + 4 for each in first_of(it)["data_offsets"]]
        ),
        "follows a gap",
    ),
    "overlap": (lambda it: it.update(x=dict(first_of(it))), "overlaps"),
    "gap": (lambda it: it.pop(min(it.keys() - {"__metadata__"})), "a gap"),
    "text": (lambda it: it.update(x="y"), "x is not described"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_header_that_lies_is_refused(files: Files, lie: str) -> None:
    """Before anything is allocated by it."""
    change, reason = LIES[lie]
    files.describe_otherwise(change)

    assert reason in refusal(files)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "its 0 bytes end in its header"),
        (b"\x10\0\0", "its 3 bytes end"),
        ((2**63).to_bytes(8, "little"), "its 8 bytes end"),
        ((17 << 20).to_bytes(8, "little") + b" " * (17 << 20), "at most 16 MiB"),
        (b"\x02\0\0\0\0\0\0\0[]", "its header is no object"),
        (b"\x02\0\0\0\0\0\0\0{}", "is missing"),
        (b"\x03\0\0\0\0\0\0\0{}}", "Extra data"),
        (b"\x02\0\0\0\0\0\0\0\xff\xff", "codec can't decode"),
        ((200_000).to_bytes(8, "little") + b"[" * 200_000, "nested too deeply"),
        ((20).to_bytes(8, "little") + b'{"a": {}, "a": {} } ', "a key twice"),
        ((6000).to_bytes(8, "little") + b'{"a":' + b"9" * 5994 + b"}", "digits"),
        (b"<!DOCTYPE html>" * 40, "end in its header"),
    ],
)
def test_what_is_no_file_of_weights_is_refused(
    files: Files, data: bytes, reason: str
) -> None:
    """Its length is compared with the header's, and with what headers have."""
    files.weights.write_bytes(data)

    with pytest.raises(AdapterError, match=reason):
        describe(files)


def test_bytes_behind_the_last_tensor_are_refused(files: Files) -> None:
    """A file is as large as its tensors, and those as large as the base's layers."""
    with files.weights.open("ab") as file:
        file.write(b"x")

    assert "and its header describes" in refusal(files)


def test_a_large_file_is_refused_by_its_shapes(files: Files) -> None:
    """Without reading what it has; most of this one is a hole."""
    size = 2**39
    files.describe_otherwise(
        lambda it: it.update(
            x={
                "dtype": "F32",
                "shape": [size // 4],
                "data_offsets": [end := _end(it), end + size],
            }
        )
    )
    os.truncate(files.weights, files.weights.stat().st_size + size)

    assert "x is no tensor of PEFT" in refusal(files)


def _end(header: Header) -> int:
    places = [each for name, each in header.items() if name != "__metadata__"]
    return max(int(each["data_offsets"][1]) for each in places)


def test_memory_does_not_follow_the_size(tmp_path: Path) -> None:
    """A whole head of 32 MiB is described in pieces."""
    shapes = decoder_shapes(layers=1, hidden=64, vocab=1 << 17)
    make_adapter(tmp_path, shapes, targets=["q_proj"], modules_to_save=["lm_head"])

    tracemalloc.start()
    try:
        facts = describe_adapter(tmp_path, targets=shapes, config=LoraConfig())
        assert tracemalloc.get_traced_memory()[1] < MOST_MEMORY
    finally:
        tracemalloc.stop()

    assert facts.num_bytes > 32 << 20


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "Expecting value"),
        ("[]", "it is no object"),
        ("[" * 100_000, "nested too deeply"),
        ('{"r": NaN}', "NaN is not a number"),
        ('{"r": ' + "9" * 5000 + "}", "digits"),
        (" " * (1 << 20) + "{}", "larger than 1 MiB"),
    ],
)
def test_a_damaged_configuration_is_refused(
    files: Files, text: str, reason: str
) -> None:
    """Also one that is larger than any."""
    files.config.write_text(text)

    assert reason in refusal(files)


@pytest.mark.parametrize("name", ["config", "weights"])
def test_links_out_of_the_folder_are_refused(
    files: Files, tmp_path: Path, name: str
) -> None:
    """What they lead to is nobody's business."""
    path: Path = getattr(files, name)
    path.rename(tmp_path / "outside")
    path.symlink_to(tmp_path / "outside")

    assert "is a link that leads out of the folder" in refusal(files)


@pytest.mark.parametrize("name", ["config", "weights"])
def test_pipes_are_not_waited_for(files: Files, name: str) -> None:
    """Nor are folders read."""
    path: Path = getattr(files, name)
    path.unlink()
    os.mkfifo(path)
    assert "is no regular file" in refusal(files)
    path.unlink()
    path.mkdir()
    assert "directory" in refusal(files)


EXPRESSION = st.text(alphabet="ab.*+?()[]|{}1,\\d^$-", max_size=24)
VALUE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | EXPRESSION
    | st.sampled_from(["q_proj", "lm_head", "LORA", "none", "all-linear"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(EXPRESSION | st.just("q_proj"), inner, max_size=3)
    ),
    max_leaves=5,
)
KEYS = st.sampled_from(
    [
        *("peft_type", "r", "lora_alpha", "target_modules", "exclude_modules", "bias"),
        *("rank_pattern", "alpha_pattern", "modules_to_save", "layers_to_transform"),
        *("layers_pattern", "use_rslora", "use_dora", "init_lora_weights", "new_key"),
        *("base_model_name_or_path", "task_type"),
    ]
)


@FUZZED
@given(changes=st.dictionaries(KEYS, VALUE, max_size=4))
def test_any_configuration_is_served_or_refused(
    files: Files, changes: dict[str, Any]
) -> None:
    """By the one kind of error."""
    found = json.loads(
        make_adapter(files.folder, files.shapes)
        .joinpath("adapter_config.json")
        .read_text()
    )
    files.config.write_text(json.dumps({**found, **changes}))

    check(files)


@FUZZED
@given(data=st.data())
def test_any_damage_is_refused_or_another_adapter(
    files: Files, data: st.DataObject
) -> None:
    """Files that are cut, or have other bytes somewhere."""
    make_adapter(files.folder, files.shapes, targets=["q_proj"], dtype=torch.bfloat16)
    path: Path = data.draw(st.sampled_from([files.config, files.weights]))
    content = bytearray(path.read_bytes())
    place = st.integers(0, min(len(content) - 1, 1200)) | st.integers(
        0, len(content) - 1
    )
    for _ in range(data.draw(st.integers(0, 3))):
        content[data.draw(place)] = data.draw(st.integers(0, 255))
    length = data.draw(st.just(len(content)) | place)
    path.write_bytes(content[:length])

    after = check(files)

    if path == files.weights and length < len(content):
        assert after is None
    elif after is not None and path == files.config:
        assert after.targets == ("q_proj",)


def test_a_file_that_becomes_shorter_is_refused(files: Files) -> None:
    """While it is read: nothing is mapped, so nobody gets a signal."""
    size = files.weights.stat().st_size
    with files.weights.open("rb") as file:
        places = read_header(file, size)
        last = max(places.values(), key=lambda place: place.start)
        os.truncate(files.weights, size - 4)

        with pytest.raises(ValueError, match="has become shorter"):
            list(pieces(file, last))


def check(files: Files) -> AdapterFacts | None:
    """Describes and reads an adapter; nothing but its error may come of it."""
    try:
        facts = describe(files)
    except AdapterError:
        return None
    read_adapter(
        files.folder,
        digest=facts.digest,
        targets=files.shapes,
        config=LoraConfig(),
        dtype=torch.float32,
    )
    return facts
