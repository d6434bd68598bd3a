"""The GGUF files of a repository: one model in several quantizations, perhaps split."""

import re
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from hookline.exceptions import ModelLoadError
from hookline.plugins.kinds import MODEL_SOURCE
from hookline_hub.names import HubName
from hookline_registry import installed

SUFFIX = ".gguf"
_PLUGIN = "gguf"
_SPLIT = re.compile(r"(?P<stem>.+)-\d{5}-of-(?P<count>\d{5})")
_QUANT = re.compile(
    r"(?:.*?[-._/])?((?:UD-)?(?:I?Q\d\w*|TQ\d_\d|MXFP4\w*|BF16|F16|F32))", re.IGNORECASE
)
_OTHERS = ("mmproj", "imatrix")
"""Files beside a model's: its image encoder, and what its quantization minded."""


def quants(paths: Iterable[str]) -> dict[str, list[str]]:
    """Returns the GGUF files of each quantization, in the order of their parts.

    Args:
        paths: Paths in a repository.

    Returns:
        Lists by names such as `Q4_K_M`; by the files' own, where they name none, or
        where several name the same.
    """
    stems: dict[str, list[str]] = {}
    for path in sorted(paths):
        found = PurePosixPath(path)
        if found.suffix == SUFFIX and not found.name.startswith(_OTHERS):
            stem = path.removesuffix(SUFFIX)
            split = _SPLIT.fullmatch(stem)
            stems.setdefault(split["stem"] if split else stem, []).append(path)
    labels = {stem: _label(stem) for stem in stems}
    taken = [*labels.values()]
    return {
        labels[stem] if taken.count(labels[stem]) == 1 else stem: files
        for stem, files in stems.items()
    }


def chosen(name: HubName, paths: Iterable[str]) -> list[str]:
    """Returns the files of the quantization that a name asks for, or of the only one.

    Args:
        name: The model.
        paths: Paths of the repository.

    Raises:
        ModelLoadError: It has none of that name, or several and the name says none.
    """
    found = quants(paths)
    available = ", ".join(found) or "none"
    if name.quant is None and len(found) > 1:
        raise ModelLoadError(
            str(name),
            f"has several GGUF files: name one, such as {name.repo}:{next(iter(found))}"
            f" (available: {available})",
        )
    if (label := _meant(name.quant, found)) is None:
        raise ModelLoadError(
            str(name), f"has no GGUF file {name.quant} (available: {available})"
        )
    return found[label]


def held(name: HubName, snapshot: Path) -> Path | None:
    """Returns the first file of a quantization if a snapshot has all of its parts."""
    files = present(snapshot)
    try:
        first, *others = chosen(name, files)
    except ModelLoadError:
        return None
    split = _SPLIT.fullmatch(first.removesuffix(SUFFIX))
    count = int(split["count"]) if split else 1
    return snapshot / first if len(others) + 1 == count else None


def present(snapshot: Path) -> list[str]:
    """Returns the paths of the GGUF files that are in a snapshot."""
    return [
        each.relative_to(snapshot).as_posix()
        for each in snapshot.rglob(f"*{SUFFIX}")
        if each.is_file()
    ]


def require_plugin(name: HubName) -> None:
    """Raises `ModelLoadError` if nothing here reads GGUF files."""
    if not any(each.name == _PLUGIN for each in installed(MODEL_SOURCE.group)):
        raise ModelLoadError(
            str(name), "has GGUF files, which need hookline-gguf: pip install it"
        )


def _label(stem: str) -> str:
    last = PurePosixPath(stem).name
    return match[1].upper() if (match := _QUANT.fullmatch(last)) else last


def _meant(quant: str | None, found: Iterable[str]) -> str | None:
    """Returns the name that is meant, of one or several; None if it is none of them."""
    if quant is None:
        return next(iter(found), None)
    wanted, labels = quant.casefold(), list(found)
    if exact := [each for each in labels if each.casefold() == wanted]:
        return exact[0]
    ends = (f"-{wanted}", f"/{wanted}")
    nearly = [each for each in labels if each.casefold().endswith(ends)]
    return nearly[0] if len(nearly) == 1 else None
