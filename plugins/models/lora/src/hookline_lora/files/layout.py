"""Opens an adapter's folder."""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

from hookline_lora.config import LoraConfig
from hookline_lora.exceptions import AdapterError
from hookline_lora.files import configuration
from hookline_lora.files.configuration import PeftConfig, read_config
from hookline_lora.files.header import Place, read_header
from hookline_lora.files.matching import Matching, StoredProduct, Targets
from hookline_processes.model_files import (
    LFS_REASON,
    is_lfs_pointer,
    open_model_file,
)

FILE: Final = "adapter_model.safetensors"
_PICKLES = ("adapter_model.bin", "adapter_model.pt", "adapter_model.pth")


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """An adapter's file that fits its configuration and the base model.

    Attributes:
        file: The open file of weights.
        config: The configuration.
        products: Sorted by module.
        whole: Places of weights that replace the base's, [out, in], by module.
    """

    file: BinaryIO
    config: PeftConfig
    products: tuple[StoredProduct, ...]
    whole: Mapping[str, Place]

    def places(self) -> Iterator[tuple[str, Place]]:
        """Yields what is read, in this order, with a name for errors."""
        for each in self.products:
            yield f"A of {each.module}", each.down
            yield f"B of {each.module}", each.up
        for module, place in self.whole.items():
            yield f"the weight of {module}", place

    def changed(self) -> tuple[str, ...]:
        """Returns the last parts of the names of what it changes, sorted."""
        modules = [*(each.module for each in self.products), *self.whole]
        return tuple(sorted({each.rpartition(".")[2] for each in modules}))

    def started_digest(self) -> "hashlib._Hash":
        """Returns a digest of all that matters beside the numbers.

        Those follow as they are stored, in the order of `places`.
        """
        described: list[Any] = [
            [each.module, each.scale.hex(), *_described(each.down, each.up)]
            for each in self.products
        ]
        described += [[name, *_described(self.whole[name])] for name in self.whole]
        return hashlib.sha256(json.dumps(described).encode())


@contextmanager
def opened(path: Path, targets: Targets, config: LoraConfig) -> Iterator[Layout]:
    """Opens an adapter's folder, and checks everything but the numbers.

    Raises:
        AdapterError: It is missing, damaged, not supported, or of another base model;
            or reading it in the context fails.
    """
    at = configuration.FILE
    try:
        peft = read_config(path)
        at = FILE
        with open_model_file(path / FILE) as file:
            _refuse_pointer(path)
            places = read_header(file, os.fstat(file.fileno()).st_size)
            products, whole = Matching(places, targets, config, peft).matched()
            yield Layout(file=file, config=peft, products=products, whole=whole)
    except OSError as error:
        raise AdapterError(str(path), _unread(path, at, error)) from error
    except ValueError as error:
        raise AdapterError(str(path), f"{at}: {error}") from error


def _refuse_pointer(path: Path) -> None:
    if is_lfs_pointer(path / FILE):
        raise ValueError(f"it {LFS_REASON}")


def _unread(path: Path, file: str, error: OSError) -> str:
    pickles = [each for each in _PICKLES if (path / each).exists()]
    if file == FILE and pickles:
        return (
            f"its weights are in {pickles[0]}, a pickle, which is not read: save it "
            "with safe_serialization"
        )
    return f"{file} cannot be read: {error.strerror or error}"


def _described(*places: Place) -> list[Any]:
    return [[each.dtype, each.shape] for each in places]
