"""Finds a model folder's files of weights, and says what is wrong with them."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hookline_processes.model_files import (
    LFS_REASON,
    is_lfs_pointer,
    read_model_file,
)

SINGLE_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
_USUAL = "model"
_SHARD = re.compile(r"(?P<stem>.+)-(?P<number>\d+)-of-(?P<count>\d+)\.safetensors")
_ORIGINAL = "consolidated"
"""Files with these names repeat the weights, with the names of Mistral's own format."""
_ORIGINAL_TENSOR = "tok_embeddings.weight"
_ADAPTER = "adapter_model"
_GGUF = ".gguf"
_OTHER_FORMATS = {
    *(".bin", ".ckpt", _GGUF, ".h5", ".msgpack", ".npz", ".onnx", ".pt", ".pth"),
}
_UNFINISHED = {".aria2", ".crdownload", ".download", ".incomplete", ".part", ".partial"}
_MOST_NAMES = 3
_MOST_HEADER = 100 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightNames:
    """Names of the files that have a model's weights.

    Attributes:
        files: Those to read, in order.
        homes: The file of each tensor, as the index tells; empty without one.
        unused: Other safetensors files.
    """

    files: tuple[str, ...]
    homes: Mapping[str, str] = field(default_factory=dict)
    unused: tuple[str, ...] = ()


def find_weights(folder: Path) -> WeightNames:
    """Finds the files: the usual one, those of an index, shards, or whatever there is.

    Raises:
        OSError: There is no file of weights, or one of several is missing.
        ValueError: The index is damaged, or files contradict one another.
    """
    present = sorted(each.name for each in folder.glob("*.safetensors"))
    homes: Mapping[str, str] = {}
    if (folder / SINGLE_FILE).is_file():
        files = [SINGLE_FILE]
    elif (folder / INDEX_FILE).is_file():
        homes = _read_index(folder / INDEX_FILE)
        files = sorted(set(homes.values()))
        _refuse_missing(
            [name for name in files if not (folder / name).exists()],
            f"of the {len(files)} files that {INDEX_FILE} names",
        )
    else:
        files = _without_index(folder, present)
    for name in files:
        if is_lfs_pointer(folder / name):
            raise ValueError(f"{name} {LFS_REASON}")
    unused = tuple(name for name in present if name not in files)
    return WeightNames(files=tuple(files), homes=homes, unused=unused)


def refuse_original_names(file: str, tensors: Iterable[str]) -> None:
    """Raises `ValueError` for tensors that `transformers` knows by other names."""
    if _ORIGINAL_TENSOR in tensors:
        raise ValueError(
            f"{file} has the tensors of Mistral's own format, such as "
            f"{_ORIGINAL_TENSOR}; weights are read by the names that transformers has "
            "for them"
        )


def damage_of(path: Path) -> str:
    """Says what is wrong with a file whose header cannot be read, after its name."""
    size = path.stat().st_size
    if size == 0:
        return "is empty"
    with path.open("rb") as file:
        head = file.read(8)
        if head.lstrip()[:1] == b"<":
            return "is a page of the web, not a file of weights"
        length = int.from_bytes(head, "little")
        if size < 8 or length > min(size - 8, _MOST_HEADER):
            return (
                f"is cut off, or is no safetensors file: its {size} bytes end in its "
                "header"
            )
        header = file.read(length)
    needed = 8 + length + _end_of_data(header)
    return f"is cut off: it has {size} of {needed} bytes" if needed > size else ""


def _end_of_data(header: bytes) -> int:
    """Returns how many bytes a header says that follow it; 0 if it is damaged."""
    try:
        entries = json.loads(header)
        ends = [
            each["data_offsets"][1]
            for name, each in entries.items()
            if name != "__metadata__"
        ]
        return max(int(end) for end in ends)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return 0


def _read_index(path: Path) -> dict[str, str]:
    """Returns the file of each tensor."""
    if is_lfs_pointer(path):
        raise ValueError(f"{INDEX_FILE} {LFS_REASON}")
    index = json.loads(read_model_file(path))
    found = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(found, dict) or not found:
        raise ValueError(f"{INDEX_FILE} has no weight_map")
    for name in sorted({str(file) for file in found.values()}):
        if Path(name).name != name:
            raise ValueError(f"{INDEX_FILE} names {name!r}, which is not in the folder")
    return {str(tensor): str(file) for tensor, file in found.items()}


def _without_index(folder: Path, present: Sequence[str]) -> list[str]:
    """Returns the files of a folder that has none of the usual two."""
    names = [name for name in present if not name.startswith(_ADAPTER)]
    if not names:
        raise FileNotFoundError(_nothing(folder, present))
    parts = [found for name in names if (found := _SHARD.fullmatch(name)) is not None]
    if not parts:
        whole = [name for name in names if not name.startswith(_ORIGINAL)]
        return whole or names
    chosen = _one_set(parts)
    count, width = int(chosen[0]["count"]), len(chosen[0]["number"])
    there = {int(part["number"]) for part in chosen}
    first = min(1, *there)  # a few are counted from 0
    absent = [
        f"{chosen[0]['stem']}-{number:0{width}}-of-{chosen[0]['count']}.safetensors"
        for number in range(first, first + count)
        if number not in there
    ]
    _refuse_missing(absent, f"of {count} shards, which no {INDEX_FILE} lists,")
    return [part[0] for part in chosen]


def _one_set(parts: Sequence[re.Match[str]]) -> list[re.Match[str]]:
    """Returns the shards of one set: the usual one, or the only one that may be meant.

    Raises:
        ValueError: There are several.
    """
    sets: dict[tuple[str, str], list[re.Match[str]]] = {}
    for part in parts:
        sets.setdefault((part["stem"], part["count"]), []).append(part)
    names = list(sets)
    for better in (
        [name for name in names if name[0] == _USUAL],
        [name for name in names if not name[0].startswith(_ORIGINAL)],
    ):
        if better:
            names = better
            break
    if len(names) > 1:
        listed = " and ".join(f"{stem}-…-of-{count}" for stem, count in names)
        raise ValueError(
            f"it has several sets of shards, {listed}, and no {INDEX_FILE} that tells "
            "which one to read"
        )
    return sets[names[0]]


def _refuse_missing(absent: Sequence[str], whole: str) -> None:
    if absent:
        raise FileNotFoundError(
            f"{len(absent)} {whole} {'is' if len(absent) == 1 else 'are'} missing: "
            f"{_listed(absent)}"
        )


def _nothing(folder: Path, present: Sequence[str]) -> str:
    """Says what a folder without weights has in their place, and what is wanted."""
    wanted = (
        f"weights are read from safetensors files ({SINGLE_FILE}, or shards with "
        f"{INDEX_FILE})"
    )
    if present:
        return (
            f"it has only an adapter ({present[0]}), and not its base model; {wanted}"
        )
    names = sorted(each.name for each in folder.iterdir() if each.is_file())
    unfinished = [name for name in names if Path(name).suffix in _UNFINISHED]
    if unfinished:
        return f"a download has not finished ({_listed(unfinished)}); {wanted}"
    others = [name for name in names if Path(name).suffix in _OTHER_FORMATS]
    if others:
        how = "load it with its own library, and save it with save_pretrained"
        if all(name.endswith(_GGUF) for name in others):
            how = f"name the {_GGUF} file itself, which hookline-gguf reads"
        return f"it has no safetensors file, but {_listed(others)}; {wanted}: {how}"
    below = sorted(each.parent.name for each in folder.glob("*/*.safetensors"))
    if below:
        return f"it has no safetensors file, only its folder {below[0]}; {wanted}"
    return f"it has no safetensors file; {wanted}"


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
