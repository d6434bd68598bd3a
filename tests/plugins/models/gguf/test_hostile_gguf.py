"""Damaged and hostile GGUF files are refused by one sentence, and cost nothing."""

import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Kind
from transformers import LlamaConfig

from hookline.config import EngineConfig, ModelConfig
from hookline.exceptions import ModelLoadError
from hookline_description.locating import located
from hookline_gguf.header import GgufError, read_header
from hookline_models.checkpoints.opening import open_weights
from hookline_testing.gguf_files import GgufFile, write_file

CONFIG: dict[str, Any] = {
    "vocab_size": 288,
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "bos_token_id": None,
    "eos_token_id": None,
}
MOST_MEMORY = 4 << 20
U32, STRING, ARRAY = 4, 8, 9


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def small(folder: Path, change: Callable[[GgufFile], None] | None = None) -> Path:
    file = GgufFile(folder, LlamaConfig(**CONFIG), Kind.F32)
    if change is not None:
        change(file)
    return file.write()


def refusal(path: Path) -> str:
    """Why a name is refused before a start."""
    with pytest.raises(ModelLoadError) as found:
        located(EngineConfig(model=ModelConfig(model=str(path))))
    assert "\n" not in str(found.value)
    return str(found.value)


def head(tensors: int = 0, keys: int = 0, version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, tensors, keys)


def text(value: bytes, length: int | None = None) -> bytes:
    return struct.pack("<Q", len(value) if length is None else length) + value


def key(value: bytes = b"a") -> bytes:
    return text(value)


def tensor(shape: tuple[int, ...] = (32,), kind: int = 0, offset: int = 0) -> bytes:
    sizes = struct.pack(f"<{len(shape)}Q", *shape)
    count = struct.pack("<I", len(shape))
    return text(b"token_embd.weight") + count + sizes + struct.pack("<IQ", kind, offset)


HUGE = 2**62
CASES = {
    "empty": (b"", "does not begin with GGUF"),
    "magic": (b"<!DOCTYPE html>" * 9, "does not begin with GGUF"),
    "magic alone": (b"GGUF", "is cut off"),
    "version": (head(version=9), "has version 9"),
    "version 1": (head(version=1), "has version 1"),
    "big endian": (head(version=3 << 24), "is big-endian"),
    "tensors": (head(tensors=HUGE), f"claims to have {HUGE} tensors"),
    "keys": (head(keys=HUGE), f"claims to have {HUGE} keys"),
    "key": (head(keys=1) + text(b"a", HUGE), f"a text has {HUGE} bytes"),
    "same keys": (head(keys=2) + (key() + struct.pack("<II", U32, 1)) * 2, "twice"),
    "type": (head(keys=1) + key() + struct.pack("<I", 77), "unknown type 77"),
    "text": (head(keys=1) + key() + struct.pack("<IQ", STRING, HUGE), "a text has"),
    "array": (
        head(keys=1) + key() + struct.pack("<IIQ", ARRAY, U32, HUGE),
        f"an array has {HUGE} elements",
    ),
    "array of arrays": (
        head(keys=1) + key() + struct.pack("<IIQ", ARRAY, ARRAY, 1),
        "an array of the unknown type 9",
    ),
    "arrays": (
        head(keys=2)
        + b"".join(
            key(name) + struct.pack("<IIQ", ARRAY, 0, 2**21 + 1) + bytes(2**21 + 1)
            for name in (b"a", b"b")
        ),
        f"an array has {2**21 + 1} elements",
    ),
    "alignment": (
        head(keys=1) + key(b"general.alignment") + struct.pack("<II", U32, 0),
        "an alignment of 0",
    ),
    "dimensions": (head(tensors=1) + tensor((1,) * 5), "of 5 dimensions"),
    "no numbers": (head(tensors=1) + tensor((0,)), "of [0] numbers"),
    "too large": (head(tensors=1) + tensor((2**40, 2**40)), "numbers"),
    "wraps": (head(tensors=1) + tensor((2**63, 2)), "numbers"),
    "format": (head(tensors=1) + tensor(kind=1234), "unknown format 1234"),
    "blocks": (head(tensors=1) + tensor((33,), kind=8), "no blocks of 32 Q8_0"),
    "end": (head(tensors=1) + tensor(), "ends at byte"),
    "far end": (head(tensors=1) + tensor(offset=2**63), "ends at byte"),
    "unaligned": (head(tensors=1) + tensor(offset=1) + bytes(999), "ends at byte"),
    "same tensors": (head(tensors=2) + tensor() * 2 + bytes(999), "twice"),
    "no metadata": (head(), "no general.architecture"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_damaged_file_is_refused(name: str, tmp_path: Path) -> None:
    """The sentence says what is wrong, and counts of the file are not believed."""
    content, reason = CASES[name]
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    refusal(path)  # imports what it needs

    tracemalloc.start()
    try:
        found = refusal(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert reason in found
    assert peak < MOST_MEMORY + 8 * len(content)
    assert not list((tmp_path / "cache").rglob("config.json"))


def test_every_cut_of_a_file_is_refused(tmp_path: Path) -> None:
    """Wherever a download ended, the header says so or its tensors do."""
    whole = small(tmp_path).read_bytes()
    path = tmp_path / "cut.gguf"

    for length in (*range(4, 200, 7), *range(200, len(whole) - 1, 997)):
        path.write_bytes(whole[:length])
        with pytest.raises(GgufError):
            read_header(path)


def without(name: str) -> Callable[[GgufFile], None]:
    def change(file: GgufFile) -> None:
        for values in file.writer.kv_data:
            values.pop(name, None)

    return change


def changed(name: str, value: object, kind: gguf.GGUFValueType) -> Callable[..., None]:
    def change(file: GgufFile) -> None:
        without(name)(file)
        file.writer.add_key_value(name, value, kind)

    return change


TEXT, NUMBER = gguf.GGUFValueType.STRING, gguf.GGUFValueType.UINT32


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (changed("general.architecture", "hal9000", TEXT), "architecture is 'hal9000'"),
        (changed("llama.expert_count", 8, NUMBER), "it has experts"),
        (changed("llama.block_count", "two", TEXT), "llama.block_count is no int"),
        (changed("llama.attention.head_count", 0, NUMBER), "no heads"),
        (changed("llama.attention.value_length", 8, NUMBER), "another length"),
        (changed("llama.rope.dimension_count", 8, NUMBER), "rotates 8 of 16"),
        (changed("llama.rope.scaling.type", "new", TEXT), "the scaling 'new'"),
        (without("llama.context_length"), "no llama.context_length"),
        (without("tokenizer.ggml.tokens"), "no tokenizer: name one by --tokenizer"),
        (changed("tokenizer.ggml.model", "bert", TEXT), "of the kind 'bert'"),
        (changed("tokenizer.ggml.pre", "new", TEXT), "by the rule 'new'"),
        (changed("tokenizer.ggml.eos_token_id", 9999, NUMBER), "is 9999"),
        (changed("tokenizer.chat_template.../x", "", TEXT), "template named"),
        (changed("split.count", 3, NUMBER), "is one of 3 parts"),
    ],
)
def test_metadata_that_cannot_be_served_is_refused(
    change: Callable[[GgufFile], None], reason: str, tmp_path: Path
) -> None:
    """What is unknown, missing or of another type is named."""
    assert reason in refusal(small(tmp_path, change))


@pytest.mark.parametrize(
    ("name", "kind", "reason"),
    [
        ("blk.0.ssm_a.weight", Kind.F32, "'blk.0.ssm_a.weight' is none of a llama"),
        ("blk.0.attn_q_norm.weight", Kind.TQ1_0, "in the format TQ1_0"),
    ],
)
def test_tensors_that_are_not_known_are_refused(
    name: str, kind: Kind, reason: str, tmp_path: Path
) -> None:
    """They are when the model is loaded, by their name or their format."""
    file = GgufFile(tmp_path, LlamaConfig(**CONFIG), Kind.F32)
    data = np.zeros((1, 54 if kind is Kind.TQ1_0 else 4), np.uint8)
    file.writer.add_tensor(
        name, data if kind is Kind.TQ1_0 else data.view(np.float32), raw_dtype=kind
    )
    config = located(EngineConfig(model=ModelConfig(model=str(file.write())))).model

    with (
        open_weights(config, Path(config.model)) as opened,
        pytest.raises(ModelLoadError, match=reason),
    ):
        opened.shards(None)  # type: ignore[arg-type]


def test_a_file_that_changes_after_the_start_is_refused(tmp_path: Path) -> None:
    """Its description is of another file; the next start removes that."""
    path = small(tmp_path)
    config = located(EngineConfig(model=ModelConfig(model=str(path)))).model
    path.write_bytes(path.read_bytes() + bytes(32))

    with pytest.raises(ModelLoadError, match="have changed since the start"):
        open_weights(config, Path(config.model))
    located(EngineConfig(model=ModelConfig(model=str(path))))

    assert not Path(config.model).exists()


def test_a_name_that_means_no_file_is_refused(tmp_path: Path) -> None:
    """A file that is not there, several in a folder, and one that is no file."""
    (tmp_path / "both").mkdir()
    for name in "ab":
        (tmp_path / "both" / f"{name}.gguf").write_bytes(b"")

    assert "there is no such GGUF file" in refusal(tmp_path / "none.gguf")
    assert "has several GGUF files" in refusal(tmp_path / "both")


def test_parts_of_a_model_belong_together(tmp_path: Path) -> None:
    """All parts are read, wherever one begins; a missing one is named."""
    path = small(tmp_path)
    whole = read_header(path)
    names = sorted(whole.tensors)
    parts = [tmp_path / f"m-0000{number}-of-00002.gguf" for number in (1, 2)]
    file = GgufFile(tmp_path, LlamaConfig(**CONFIG), Kind.F32)
    for part, path_ in enumerate(parts):
        writer = file.writer if part == 0 else gguf.GGUFWriter(None, "llama")
        writer.add_uint16("split.no", part)
        writer.add_uint16("split.count", 2)
        writer.add_int32("split.tensors.count", len(names))
        for name in names[part::2]:
            place = whole.tensors[name]
            content = np.memmap(path, np.uint8, "r", place.start, place.nbytes)
            writer.add_tensor(name, content.view(np.float32).reshape(place.shape))
        write_file(writer, path_)

    second = located(EngineConfig(model=ModelConfig(model=str(parts[1])))).model
    with open_weights(second, Path(second.model)) as opened:
        assert opened.names.files == tuple(each.name for each in parts)
    parts[0].unlink()

    assert "m-00001-of-00002.gguf" in refusal(parts[1])
