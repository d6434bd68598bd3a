"""Reading a model's safetensors files, whole or one rank's part of each tensor."""

import io
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

from hookline import LLM, ConfigError, ModelLoadError
from hookline.config import EngineConfig, ModelConfig, ParallelConfig
from hookline_description.describing import describe
from hookline_models.checkpoints.loading import load_model
from hookline_models.checkpoints.weight_files import WeightFiles
from hookline_models.family import find_family
from hookline_ranks.sharding.plan import ShardingPlan
from hookline_ranks.sharding.split import Split
from hookline_testing.essential import essential
from hookline_testing.oracle import FAMILIES, make_oracle

TENSORS = {
    "h.0.rows.weight": torch.arange(24.0).view(6, 4),
    "h.0.columns.weight": torch.arange(24.0).view(6, 4) + 100,
    "h.0.cube": torch.arange(24).view(2, 3, 4),
    "h.0.scale": torch.tensor(3.5),
    "h.0.norm.weight": torch.arange(5.0),
}
DIMS = {"h.0.rows.weight": 0, "h.0.columns.weight": 1, "h.0.cube": 2}
SPLITS = {"rows": Split(dim=-2), "columns": Split(dim=-1), "cube": Split(dim=-1)}


@pytest.fixture
def files(tmp_path: Path) -> Path:
    save_file(TENSORS, tmp_path / "model.safetensors")
    return tmp_path


def read(folder: Path, plan: ShardingPlan) -> dict[str, torch.Tensor]:
    with WeightFiles(folder) as opened:
        return {name: shard[...] for name, shard in opened.shards(plan).items()}


def test_parts_of_two_ranks_make_the_whole(files: Path) -> None:
    """Divided tensors concatenate along their dimension; the others are on both."""
    first, second = (
        read(files, ShardingPlan(rank=rank, size=2, splits=SPLITS)) for rank in (0, 1)
    )

    for name, whole in TENSORS.items():
        if name in DIMS:
            assert first[name].shape[DIMS[name]] == whole.shape[DIMS[name]] // 2
            joined = torch.cat([first[name], second[name]], DIMS[name])
        else:
            assert torch.equal(first[name], second[name])
            joined = first[name]
        assert torch.equal(joined, whole)


def test_one_rank_reads_everything(files: Path) -> None:
    """Whatever dimension it would be divided along."""
    found = read(files, ShardingPlan(splits=SPLITS))

    assert found.keys() == TENSORS.keys()
    assert all(torch.equal(found[name], TENSORS[name]) for name in TENSORS)


def test_tensor_that_cannot_be_divided_is_named(files: Path) -> None:
    """Five entries among two ranks."""
    plan = ShardingPlan(size=2, splits={"norm": Split(dim=-1)})

    with pytest.raises(ValueError, match=r"norm\.weight: 2 ranks cannot divide 5"):
        read(files, plan)


@pytest.mark.parametrize(
    ("index", "reason"),
    [
        ("{", "Expecting"),
        ("[]", "no weight_map"),
        ('{"weight_map": {"rows": "../model.safetensors"}}', "not in the folder"),
    ],
)
def test_damaged_index_is_refused(tmp_path: Path, index: str, reason: str) -> None:
    """Nothing outside of the folder is read."""
    (tmp_path / "model.safetensors.index.json").write_text(index)

    with pytest.raises(ValueError, match=reason):
        WeightFiles(tmp_path)


@pytest.mark.parametrize("family", FAMILIES)
def test_loaded_weights_are_those_that_transformers_loads(
    tmp_path: Path, family: str
) -> None:
    """Renamed, converted and tied alike, in many files; buffers, too."""
    oracle = make_oracle(family, tmp_path)
    (tmp_path / "model.safetensors").unlink()
    oracle.model.save_pretrained(tmp_path, max_shard_size="100KB")
    expected = AutoModelForCausalLM.from_pretrained(tmp_path)
    if (replacing := find_family("a model", expected.config.model_type)) is not None:
        replacing.replace_attention(expected)
    config = ModelConfig(model=str(tmp_path))

    found = load_model(config, describe(config), 256)

    for named in ("state_dict", "named_buffers"):
        ours, theirs = (dict(getattr(each, named)()) for each in (found, expected))
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    tied = [
        model.get_output_embeddings().weight is model.get_input_embeddings().weight
        for model in (found, expected)
    ]
    assert tied[0] == tied[1]


OWN_CODE = """
from pathlib import Path
Path(__file__).with_name("executed").touch()
from transformers import PreTrainedConfig

class Config(PreTrainedConfig):
    model_type = "own"
"""


@pytest.mark.parametrize("answers", essential(["", "y\n" * 5], "y\n" * 5))
def test_code_of_the_folder_is_never_run(
    configured: Callable[..., Path],
    answers: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Nor is anybody asked whether to run it."""
    folder = configured(
        model_type="own", auto_map={"AutoConfig": "configuration_own.Config"}
    )
    (folder / "configuration_own.py").write_text(OWN_CODE)
    monkeypatch.setattr("sys.stdin", io.StringIO(answers))

    with pytest.raises(ModelLoadError) as found:
        LLM(str(folder), load_format="dummy")

    assert found.value.reason.startswith("its model type 'own' is only known to code")
    assert "[y/N]" not in "".join(capsys.readouterr())
    assert not (folder / "executed").exists()


def test_known_architecture_needs_no_code_of_the_folder(
    configured: Callable[..., Path],
) -> None:
    """The implementation of `transformers` is used, whatever `auto_map` names."""
    folder = configured(
        auto_map={
            "AutoConfig": "configuration_own.Config",
            "AutoModelForCausalLM": "modeling_own.Model",
        }
    )
    (folder / "configuration_own.py").write_text(OWN_CODE)
    config = ModelConfig(model=str(folder))

    model = load_model(config, describe(config), 256)

    assert type(model).__module__.startswith("transformers.models.llama")
    assert not (folder / "executed").exists()


@pytest.mark.parametrize("executor", ["uniproc", "uni", "simulated"])
def test_an_executor_of_one_rank_refuses_several(executor: str) -> None:
    """The error names the option, and an executor that has several."""
    with pytest.raises(ConfigError, match=r"tensor-parallel-size: 2 is not .* mp has"):
        EngineConfig.from_options(tensor_parallel_size=2, executor=executor)


@pytest.mark.parametrize(("size", "executor"), [(1, "uniproc"), (2, "mp")])
def test_the_executor_suits_the_number_of_ranks(size: int, executor: str) -> None:
    """Unless it is named."""
    config = EngineConfig.from_options(tensor_parallel_size=size)

    assert config.executor_name == executor
    assert config.num_concurrent == size


def test_executors_have_the_name_that_vllm_gives_them() -> None:
    """None leaves the choice to the number of ranks."""
    named = EngineConfig.from_options(distributed_executor_backend="mp")
    left_open = EngineConfig.from_options(distributed_executor_backend=None)

    assert named.executor_name == "mp"
    assert left_open == EngineConfig.from_options()


def test_ranks_are_counted_stage_by_stage() -> None:
    """The first rank of the last stage samples."""
    parallel = ParallelConfig(tensor_parallel_size=3, pipeline_parallel_size=2, rank=4)

    assert (parallel.stage, parallel.tensor_rank, parallel.output_rank) == (1, 1, 3)


def test_rank_must_exist() -> None:
    """With one rank it is 0."""
    with pytest.raises(ConfigError, match="rank: must be 0 to 0, not 1"):
        ParallelConfig(rank=1)
