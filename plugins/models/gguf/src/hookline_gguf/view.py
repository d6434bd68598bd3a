"""Folders that describe GGUF files as `transformers` wants models described.

They have `config.json`, the tokenizer and the templates, and a note that names the
files. They are kept in the user's cache as long as the files are as they were.
"""

import json
import os
import shutil
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

from hookline.exceptions import ModelLoadError
from hookline.model_description import read_object
from hookline_gguf.header import GgufError
from hookline_host.cache_folders import KeptCache, keep_cache

NOTE: Final = "gguf.json"
_CACHE = "gguf"
_NEW = ".new-"
_MOST_SECONDS = 3600.0
"""Older ones were left by processes that were killed."""
_VERSION = "1"
"""Of what a folder contains; another one is written anew."""


def described(name: str, path: Path, *, has_tokenizer: bool = False) -> Path:
    """Returns the folder that describes the model of a file; writes it if need be.

    Args:
        name: The model's name, for errors.
        path: The file, or one of its parts.
        has_tokenizer: The tokenizer comes from elsewhere, so that the file needs none.

    Raises:
        ModelLoadError: The file is damaged or not supported, or nothing can be written.
    """
    from hookline_gguf.parts import model_paths  # noqa: PLC0415 - it imports numpy

    kept = keep_cache(_CACHE)
    try:
        paths = [each.resolve(strict=True) for each in model_paths(path)]
        stamps = [_stamp(each) for each in paths]
        cache = _writable(kept)
        _remove_stale(cache)
        marks = json.dumps([_VERSION, has_tokenizer, stamps])
        target = cache / sha256(marks.encode()).hexdigest()[:32]
        if not (target / NOTE).is_file():
            _write(target, _files(paths, has_tokenizer), stamps)
    except GgufError as error:
        raise ModelLoadError(name, str(error)) from error
    except OSError as error:
        raise ModelLoadError(name, f"cannot be described: {error}") from error
    return target


def noted_files(name: str, folder: Path) -> list[Path]:
    """Returns the GGUF files that a folder describes.

    Raises:
        ModelLoadError: They have changed since, or the note is damaged.
    """
    stamps = read_object(name, folder / NOTE).get("files")
    if not isinstance(stamps, list) or not stamps or not all(map(_is_fresh, stamps)):
        raise ModelLoadError(
            name, "its GGUF files have changed since the start, or are gone: restart"
        )
    return [Path(each[0]) for each in stamps]


def _writable(kept: KeptCache) -> Path:
    if kept.folder is None or not kept.is_writable:
        raise GgufError(f"its description can be kept nowhere: {kept}")
    return kept.folder


def _files(paths: Sequence[Path], has_tokenizer: bool) -> dict[str, str]:
    """Returns the texts of a description, by name."""
    from hookline_gguf.configuration import config_of, generation_of  # noqa: PLC0415
    from hookline_gguf.parts import read_model  # noqa: PLC0415
    from hookline_gguf.tokenizer import tokenizer_files  # noqa: PLC0415

    model = read_model(paths)
    config = config_of(model)
    rows = config["vocab_size"]
    assert isinstance(rows, int)
    found = {} if has_tokenizer else tokenizer_files(model, rows)
    found["config.json"] = json.dumps(config, indent=1)
    if generation := generation_of(model):
        found["generation_config.json"] = json.dumps(generation, indent=1)
    return found


def _write(target: Path, files: dict[str, str], stamps: list[list[object]]) -> None:
    """Writes a folder that others see when it is whole."""
    temporary = Path(tempfile.mkdtemp(prefix=_NEW, dir=target.parent))
    try:
        for name, text in {**files, NOTE: json.dumps({"files": stamps})}.items():
            path = temporary / name
            path.parent.mkdir(mode=0o700, exist_ok=True)
            path.write_text(text, "utf-8")
        try:
            temporary.rename(target)
        except OSError:  # another process was faster
            if not (target / NOTE).is_file():
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _remove_stale(cache: Path) -> None:
    """Removes folders whose files are gone or have changed: nothing can use them."""
    for each in cache.iterdir():
        try:
            stamps = json.loads((each / NOTE).read_text("utf-8"))["files"]
            is_stale = not all(map(_is_fresh, stamps))
        except (OSError, ValueError, LookupError, TypeError):
            is_stale = not _is_being_written(each)
        if is_stale:
            shutil.rmtree(each, ignore_errors=True)


def _is_being_written(folder: Path) -> bool:
    """Whether a process that still runs may be writing a folder."""
    with suppress(OSError):
        age = time.time() - folder.stat().st_mtime
        return folder.name.startswith(_NEW) and age < _MOST_SECONDS
    return True


def _stamp(path: Path) -> list[object]:
    status = os.stat(path)  # noqa: PTH116 - one call for both
    return [str(path), status.st_size, status.st_mtime_ns]


def _is_fresh(stamp: object) -> bool:
    with suppress(OSError, ValueError, TypeError, LookupError):
        return isinstance(stamp, list) and _stamp(Path(stamp[0])) == stamp
    return False
