"""Files of a model folder that lie about sizes, or that are not in the folder."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hookline import LLM, ModelLoadError
from hookline.config import EngineConfig, LoadFormat, ModelConfig
from hookline.model_description import read_object
from hookline_description.sizes import check_sizes
from hookline_models.checkpoints.weight_files import WeightFiles

Change = Callable[..., Path]
Header = dict[str, Any]


def first_of(header: Header) -> dict[str, Any]:
    """The first tensor's description."""
    return next(each for name, each in header.items() if name != "__metadata__")


def lie_about_shape(header: Header) -> None:
    first_of(header)["shape"] = [2**40, 2**40]


def lie_about_dtype(header: Header) -> None:
    first_of(header)["dtype"] = "F64"


def point_behind_the_end(header: Header) -> None:
    first_of(header)["data_offsets"] = [0, 2**50]


def point_backwards(header: Header) -> None:
    first_of(header)["data_offsets"].reverse()


def overlap(header: Header) -> None:
    names = [name for name in header if name != "__metadata__"]
    header[names[1]] = dict(header[names[0]])


LIES = [
    lie_about_shape,
    lie_about_dtype,
    point_behind_the_end,
    point_backwards,
    overlap,
]


def load(folder: Path, **more: Any) -> None:
    model = ModelConfig(model=str(folder), **more)
    LLM.from_config(EngineConfig(model=model)).close()


@pytest.mark.parametrize("lie", LIES, ids=lambda each: each.__name__)
def test_a_header_that_lies_is_refused(
    folder: Path, lie: Callable[[Header], None]
) -> None:
    """Nothing is read or allocated by it."""
    path = folder / "model.safetensors"
    data = path.read_bytes()
    end = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:end])
    lie(header)
    written = json.dumps(header).encode()
    path.write_bytes(len(written).to_bytes(8, "little") + written + data[end:])

    with pytest.raises(ModelLoadError, match="SafetensorError"):
        load(folder)


@pytest.mark.parametrize("length", [2**63, 2**32, 99_999_999])
def test_a_header_longer_than_the_file_is_refused(folder: Path, length: int) -> None:
    """Its length is compared with the file's before it is believed."""
    path = folder / "model.safetensors"
    path.write_bytes(length.to_bytes(8, "little") + path.read_bytes()[8:])

    with pytest.raises(ModelLoadError, match="SafetensorError"):
        load(folder)


def test_weights_outside_of_the_folder_are_refused(
    folder: Path, tmp_path: Path
) -> None:
    """A link may lead to another file of the folder, and nowhere else."""
    outside = (folder / "model.safetensors").rename(tmp_path / "outside")
    (folder / "model.safetensors").symlink_to(outside)

    with pytest.raises(
        ModelLoadError, match=r"model\.safetensors is a link that leads out"
    ):
        load(folder)


def test_snapshots_of_the_hub_are_links(folder: Path, tmp_path: Path) -> None:
    """Its cache has the files of a model beside the snapshot's folder."""
    snapshot, blobs = tmp_path / "hub" / "snapshots" / "a", tmp_path / "hub" / "blobs"
    blobs.mkdir(parents=True)
    snapshot.parent.mkdir()
    weights = (folder / "model.safetensors").rename(blobs / "1234")
    folder.rename(snapshot)
    (snapshot / "model.safetensors").symlink_to(weights)

    load(snapshot)
    WeightFiles(snapshot)


@pytest.mark.parametrize("name", ["../model.safetensors", "/etc/passwd", "a/b"])
def test_an_index_names_files_of_its_folder(folder: Path, name: str) -> None:
    """A path to elsewhere is refused before it is opened."""
    (folder / "model.safetensors").unlink()
    index = {"weight_map": {"lm_head.weight": name}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))

    with pytest.raises(ModelLoadError, match="which is not in the folder"):
        load(folder)


@pytest.mark.parametrize(
    ("size", "reason"),
    [
        ({"hidden_size": 10**9}, "hidden_size is 1000000000; it must be 0 to"),
        ({"num_hidden_layers": -1}, "num_hidden_layers is -1"),
        ({"hidden_size": True}, "hidden_size is True, not an integer"),
        ({"hidden_size": "64"}, "hidden_size is '64', not an integer"),
        (
            {"hidden_size": 2**18, "vocab_size": 2**24, "num_hidden_layers": 2**12}
            | {"intermediate_size": 2**22},
            r"more than 5e\+15 parameters",
        ),
    ],
)
def test_absurd_sizes_are_named(size: dict[str, object], reason: str) -> None:
    """Whatever would be allocated by them."""
    with pytest.raises(ModelLoadError, match=reason):
        check_sizes("m", size)


def test_sizes_of_real_models_pass() -> None:
    """Those of the largest ones, and those that differ by layer."""
    check_sizes(
        "m",
        {
            "hidden_size": 18_432,
            "intermediate_size": [65_536, 131_072],
            "vocab_size": 262_144,
            "num_hidden_layers": 126,
            "max_position_embeddings": 10_485_760,
            "head_dim": None,
        },
    )


def test_random_weights_larger_than_the_memory_are_refused(configured: Change) -> None:
    """Nothing is allocated for them, so that no other process has to end."""
    folder = configured(hidden_size=2**18, intermediate_size=2**20)

    with pytest.raises(ModelLoadError, match="this process may take"):
        load(folder, load_format=LoadFormat.DUMMY)


@pytest.mark.parametrize("text", ['{"a": NaN}', '{"a": -Infinity}', '{"a": 1e999}'])
def test_numbers_must_be_finite(tmp_path: Path, text: str) -> None:
    """JSON has no others, though Python reads them."""
    path = tmp_path / "config.json"
    path.write_text(text)

    with pytest.raises(ModelLoadError, match=r"config\.json cannot be read"):
        read_object("m", path)


def test_deep_nesting_is_refused(tmp_path: Path) -> None:
    """It is one error, and no traceback."""
    path = tmp_path / "config.json"
    path.write_text('{"a": ' + "[" * 100_000 + "]" * 100_000 + "}")

    with pytest.raises(ModelLoadError, match="nested too deeply"):
        read_object("m", path)
