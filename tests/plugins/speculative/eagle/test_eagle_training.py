"""A head is trained, is right more often than before, and serves."""

import json
from pathlib import Path

import pytest
import torch

from hookline import LLM, SamplingParams
from hookline.exceptions import ConfigError
from hookline_eagle.checkpoint import load_head
from hookline_eagle.options import TrainingOptions
from hookline_server.cli import main
from hookline_testing.oracle import Oracle

SMALL = ["--tokens=7680", "--row-tokens=32", "--prompt-tokens=8", "--dtype=float32"]
TEXT = "Whatever is said here is said again, and again; and it is said once more.\n"
QUICK = {"batch_tokens": 512, "learning_rate": 0.01}


def train(model: Path, out: Path, *more: str, **options: object) -> int:
    return main(
        [
            *("train-draft", "--method=eagle", f"--model={model}", f"--out={out}"),
            f"--training-config={json.dumps({**QUICK, **options})}",
            *SMALL,
            *more,
        ]
    )


@pytest.mark.exhaustive
@pytest.mark.parametrize("source", ["continued", "said"])
def test_trained_head_is_right_more_often(
    source: str, tmp_path: Path, llama: Oracle, capsys: pytest.CaptureFixture[str]
) -> None:
    """From each kind of text; what is written serves, and leaves output as it is."""
    data = tmp_path / "data.txt"
    data.write_text(TEXT * 200, "utf-8")
    more = [f"--data={data}", "--continue-data"] if source == "continued" else []

    status = train(llama.folder, tmp_path / "out", *more)
    *lines, result, usage = capsys.readouterr().out.splitlines()
    mean = float(result.split()[-1])
    chosen = json.loads(usage.split("'")[1])
    params = SamplingParams(temperature=0.0, max_tokens=24)
    prompts = [[token] for token in range(100, 108)]
    with LLM(str(llama.folder), speculative_config=chosen) as llm:
        outputs = llm.generate(prompts, params)
    done = [output.outputs[0] for output in outputs]
    assert status == 0
    assert "losses of the drafts" in "".join(lines)
    assert mean > 1.3
    assert [each.token_ids for each in done] == [
        llama.greedy(prompt, 24) for prompt in prompts
    ]
    assert sum(each.accepted_tokens for each in done) > 0


@pytest.mark.exhaustive
def test_training_continues_from_another_head(tmp_path: Path, llama: Oracle) -> None:
    """Hardly learning, it stays what it was; of another shape, it is refused."""
    status = train(llama.folder, tmp_path / "a", epochs=1)
    again = train(
        llama.folder,
        tmp_path / "b",
        start=str(tmp_path / "a"),
        epochs=1,
        learning_rate=1e-9,
    )
    refused = train(
        llama.folder, tmp_path / "c", start=str(tmp_path / "a"), intermediate_size=8
    )

    assert (status, again, refused) == (0, 0, 2)
    first, second = (load_head(tmp_path / name).head.state_dict() for name in "ab")
    torch.testing.assert_close(first, second)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"epoch": 1}, "the method eagle has no option 'epoch'"),
        ({"start": 3}, "start must name a folder"),
        ({"epochs": 0}, "epochs must be at least 1"),
        ({"intermediate_size": True}, "intermediate_size must be a whole number"),
        ({"learning_rate": "a"}, "learning_rate must be a number"),
        ({"learning_rate": 2}, "learning_rate must be between 0 and 1"),
        ({"noise": -1}, "noise must be 0 or more"),
        ({"feature_weight": float("nan")}, "feature_weight must be 0 or more"),
    ],
)
def test_wrong_options_of_training_are_one_clear_error(
    given: dict[str, object], reason: str
) -> None:
    """Each names the option `training-config` and what is wrong."""
    with pytest.raises(ConfigError, match=reason) as caught:
        TrainingOptions.from_mapping(given)

    assert caught.value.option == "training-config"
