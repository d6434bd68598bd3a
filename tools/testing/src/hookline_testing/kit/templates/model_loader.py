"""Model loader `sample`: reads weights from a `weights.npz` beside `config.json`."""

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from hookline import hookimpl
from hookline_models.model_loader import LoaderContext

if TYPE_CHECKING:  # torch and numpy are imported when a model is loaded
    from numpy.lib.npyio import NpzFile

    from hookline_models.checkpoints.cut import Stored

FILE = "weights.npz"


class SampleLoader:
    """Reads the arrays of a file, which has them under the names of `transformers`."""

    files = (FILE,)

    def __init__(self, path: Path) -> None:
        """Opens nothing yet."""
        self._path = path
        self._file: NpzFile | None = None

    def __enter__(self) -> Self:
        """Opens the file; nothing in it is ever run."""
        import numpy as np  # noqa: PLC0415

        self._file = np.load(self._path, allow_pickle=False)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Closes the file."""
        if self._file is not None:
            self._file.close()

    def tensors(self) -> "Mapping[str, Stored]":
        """Returns all tensors by their names."""
        import torch  # noqa: PLC0415

        from hookline_models.checkpoints.cut import InMemory  # noqa: PLC0415

        assert self._file is not None
        return {
            name: InMemory(torch.from_numpy(array))
            for name, array in self._file.items()
        }


@hookimpl
def create_model_loader(context: LoaderContext) -> SampleLoader | None:
    """Called for each load; returns None for folders in other formats."""
    path = context.folder / FILE
    return SampleLoader(path) if path.is_file() else None
