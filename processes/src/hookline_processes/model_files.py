"""Which files of a model's folder are read: regular ones that are really in it.

Whoever wrote the folder may have put links into it. What a linked file contains could
reach clients: as a chat template, or as texts of tokens.
"""

import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

ROOTS_VARIABLE = "HOOKLINE_MODEL_ROOTS"
"""Folders to which links may lead as well, separated as in PATH; the operator's."""

MAX_TEXT_BYTES = 64 * 2**20
LFS_POINTER = "version https://git-lfs"
"""How the file begins that Git keeps in place of one in its large-file storage."""
LFS_REASON = "is a Git LFS pointer, not the file itself: run `git lfs pull` there"
_MOST_POINTER_BYTES = 1024
_READ = frozenset(
    {
        *("config.json", "generation_config.json", "modules.json"),
        *("added_tokens.json", "special_tokens_map.json", "tokenizer_config.json"),
        *("chat_template.jinja", "chat_template.json", "vocab.json", "vocab.txt"),
        *("merges.txt", "sentencepiece.bpe.model", "spiece.model", "tokenizer.model"),
    }
)
"""Texts that libraries read whole, besides templates; others have own limits."""

_NAMING = ("tokenizer_config.json", "special_tokens_map.json")
"""Files whose entries `transformers` takes for arguments of a tokenizer."""

_NAMED = ("_file", "_files", "init_inputs", "merges", "vocab")
"""How the names of arguments end that can be paths of files to read."""

_IGNORED = frozenset({"special_tokens_map_file"})
"""Names of such arguments that checkpoints have, and nothing reads."""


def folder_refusal(folder: Path) -> str:
    """Looks at all files of a folder that may be read by us or by a library.

    Returns:
        Why it is refused: a link in it leads elsewhere, a file is none, or too large.
        Empty if it is not.
    """
    roots = _roots(folder)
    try:
        return next(
            filter(None, (_wrong(each, folder, roots) for each in _entries(folder))), ""
        )
    except OSError as error:
        return f"its files cannot be listed: {error.strerror or error}"


def tokenizer_files_refusal(folder: Path) -> str:
    """Looks at all files of a folder, and at those that the tokenizer's files name.

    Returns:
        Why the folder is refused; empty if it is not.
    """
    if reason := folder_refusal(folder):
        return reason
    for name in _NAMING:
        try:
            found = json.loads(read_model_file(folder / name))
        except FileNotFoundError:
            continue
        except (OSError, ValueError, RecursionError) as error:
            return f"its tokenizer cannot be read: {name}: {error}"
        entries = found.items() if isinstance(found, dict) else ()
        for key, value in entries:
            if not key.endswith(_NAMED) or key in _IGNORED:
                continue
            if path := next(
                (each for each in _paths(value) if _is_out(folder, each)), ""
            ):
                return f"{name}: {key} names a file outside of the folder, {path}"
            if key == "fast_tokenizer_files" and value != ["tokenizer.json"]:
                return f"{name}: {key} names other files than tokenizer.json"
    return ""


def read_model_file(path: Path, most: int = MAX_TEXT_BYTES) -> bytes:
    """Reads a file that is in its folder.

    Raises:
        OSError: It cannot be read.
        ValueError: It is a link to elsewhere, no regular file, or too large.
    """
    with open_model_file(path) as file:
        if os.fstat(file.fileno()).st_size > most:
            raise ValueError(f"{path.name} is larger than {most >> 20} MiB")
        return file.read(most)


@contextmanager
def open_model_file(path: Path) -> Iterator[BinaryIO]:
    """Opens a file that is in its folder.

    What was opened is looked at, so that nobody can replace it in between.

    Raises:
        OSError: It cannot be opened.
        ValueError: It is a link to elsewhere, or no regular file.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK  # a pipe is not waited for
    with open(os.open(path, flags), "rb") as file:  # noqa: PTH123 - a descriptor
        real = Path(f"/proc/self/fd/{file.fileno()}").readlink()
        if not _is_inside(real, _roots(path.parent)):
            raise ValueError(_leads_out(path.name, real))
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError(f"{path.name} is no regular file")
        yield file


def real_model_file(folder: Path, name: str) -> Path:
    """Returns the path without links of a file that is in a folder.

    Raises:
        ValueError: It is a link to elsewhere, or no regular file.
    """
    real = Path(os.path.realpath(folder / name))
    if not _is_inside(real, _roots(folder)):
        raise ValueError(_leads_out(name, real))
    if real.exists() and not real.is_file():
        raise ValueError(f"{name} is no regular file")
    return real


def is_lfs_pointer(path: Path) -> bool:
    """Whether a file is a pointer of Git LFS; a file that cannot be read is none."""
    try:
        if path.stat().st_size > _MOST_POINTER_BYTES:
            return False
        return path.read_bytes().startswith(LFS_POINTER.encode())
    except OSError:
        return False


def _roots(folder: Path) -> list[str]:
    """Returns where a folder's files may really be.

    The cache of the Hugging Face hub keeps the files of a snapshot beside it.
    """
    real = Path(os.path.realpath(folder))
    given = os.environ.get(ROOTS_VARIABLE, "").split(os.pathsep)
    named = [os.path.realpath(each) for each in given if Path(each).is_absolute()]
    roots = [str(real), *named]
    snapshots = (each.parent for each in (real, real.parent))  # also of a folder in it
    blobs = [
        str(each.parent / "blobs") for each in snapshots if each.name == "snapshots"
    ]
    return [*roots, *blobs]


def _paths(value: object) -> list[str]:
    """Returns what `transformers` may take for paths of files in an entry."""
    values = value if isinstance(value, list) else [value]
    return [each for each in values if isinstance(each, str) and "\0" not in each]


def _is_out(folder: Path, name: str) -> bool:
    """Whether what an entry names is a file elsewhere: seen from here or the folder."""
    roots = _roots(folder)
    paths = (Path(name), folder / name)
    return any(each.is_file() and not _is_inside(each, roots) for each in paths)


def _is_inside(path: "str | Path", roots: list[str]) -> bool:
    real = os.path.realpath(path)
    return any(os.path.commonpath([real, each]) == each for each in roots)


def _entries(folder: Path) -> Iterator["os.DirEntry[str]"]:
    """Yields what is in the folder, and in folders in it.

    Nobody reads what is hidden, nor what is further below.
    """
    for entry in _visible(folder):
        yield entry
        if entry.is_dir():
            with suppress(OSError):  # such as a lost+found
                yield from _visible(Path(entry.path))


def _visible(folder: Path) -> list["os.DirEntry[str]"]:
    with os.scandir(folder) as entries:
        return [each for each in entries if not each.name.startswith(".")]


def _wrong(entry: "os.DirEntry[str]", folder: Path, roots: list[str]) -> str:
    name = os.path.relpath(entry.path, folder)
    if entry.is_symlink() and not _is_inside(entry.path, roots):
        return _leads_out(name, os.path.realpath(entry.path))
    try:
        status = entry.stat()
    except OSError:  # a link to nothing, which nobody can read
        return ""
    kind = status.st_mode
    if stat.S_ISFIFO(kind) or stat.S_ISCHR(kind) or stat.S_ISBLK(kind):
        return f"{name} is a pipe or a device, not a file"
    is_read = name in _READ or name.endswith(".jinja")
    if is_read and status.st_size > MAX_TEXT_BYTES:
        return f"{name} is larger than {MAX_TEXT_BYTES >> 20} MiB"
    return ""


def _leads_out(name: str, real: "str | Path") -> str:
    return (
        f"{name} is a link that leads out of the folder, to {real}; "
        f"{ROOTS_VARIABLE} can name folders to which links may lead"
    )
