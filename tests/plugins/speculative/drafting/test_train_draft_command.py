"""`hookline train-draft` from end to end, with the method medusa."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from hookline import LLM, SamplingParams
from hookline_server.cli import main
from hookline_testing.essential import essential
from hookline_testing.oracle import Oracle
from hookline_testing.plugin_site import PluginSite

SMALL = ["--tokens=7680", "--row-tokens=32", "--prompt-tokens=8", "--dtype=float32"]
TEXT = "Whatever is said here is said again, and again; and it is said once more.\n"
QUICK: Mapping[str, object] = {"batch_tokens": 512, "learning_rate": 0.01}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data.txt"
    path.write_text(TEXT * 200, "utf-8")
    return path


def train(model: Path, out: Path, *more: str, **options: object) -> int:
    return main(
        [
            *("train-draft", "--method=medusa", f"--model={model}", f"--out={out}"),
            f"--training-config={json.dumps({**QUICK, **options})}",
            *SMALL,
            *more,
        ]
    )


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "source", essential(["text", "continued", "said"], "continued")
)
def test_trained_heads_are_right_more_often(
    source: str,
    tmp_path: Path,
    llama: Oracle,
    data: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """From each kind of text; what is written serves, and leaves output as it is."""
    more = {
        "text": [f"--data={data}"],
        "continued": [f"--data={data}", "--continue-data"],
        "said": [],
    }[source]

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
    assert "step 1 of" in "".join(lines) or "losses of the heads" in "".join(lines)
    assert mean > 1.3
    assert [each.token_ids for each in done] == [
        llama.greedy(prompt, 24) for prompt in prompts
    ]
    assert sum(each.draft_tokens for each in done) > 0
    if source != "text":
        assert sum(each.accepted_tokens for each in done) > 0


@pytest.mark.slow
def test_heads_can_share_the_models_output_layer(
    tmp_path: Path, llama: Oracle, data: Path
) -> None:
    """The checkpoint is small then, and still serves."""
    few = [f"--data={data}", "--tokens=1280"]
    status = train(llama.folder, tmp_path / "out", *few, own_output=False, num_layers=2)

    size = (tmp_path / "out" / "medusa_lm_head.safetensors").stat().st_size
    chosen = {
        "method": "medusa",
        "num_speculative_tokens": 2,
        "model": str(tmp_path / "out"),
    }
    with LLM(str(llama.folder), speculative_config=chosen) as llm:
        [output] = llm.generate([[5]], SamplingParams(temperature=0.0, max_tokens=24))
    assert status == 0
    assert size < 4 * 2 * (64 * 64 + 64) * 2 + 4096
    assert output.outputs[0].token_ids == llama.greedy([5], 24)
    assert output.outputs[0].draft_tokens > 0


WRONG: dict[str, tuple[list[str], str]] = {
    "no method": (["--method=nothing"], "method"),
    "not trainable": (["--method=plain"], "method: 'plain' cannot be trained"),
    "another option": (
        ['--training-config={"epoch": 1}'],
        "training-config: the method medusa has no option 'epoch'",
    ),
    "no JSON": (["--training-config={"], "is not JSON"),
    "no data": (["--data=/there/is/none"], "data: /there/is/none cannot be read"),
    "nothing to continue": (["--continue-data"], "continue-data: requires data"),
    "short rows": (["--row-tokens=9"], "row-tokens: must exceed prompt-tokens"),
    "few tokens": (["--tokens=9"], "tokens: must be at least 20 times row-tokens"),
    "a full folder": (["--out=FULL"], "is not empty"),
}


@pytest.mark.parametrize("name", WRONG)
def test_invalid_options_are_one_line(
    name: str, tmp_path: Path, llama: Oracle, capsys: pytest.CaptureFixture[str]
) -> None:
    """It names the option, before anything is trained, with status 2."""
    given, reason = WRONG[name]
    full = tmp_path / "full"
    full.mkdir()
    (full / "file").touch()
    site = tmp_path / "site"
    site.mkdir()
    source = (
        "from hookline import hookimpl\n@hookimpl\ndef create_proposer(context): ..."
    )

    with PluginSite(site) as plugins:
        plugins.install("plain", source, group="hookline.proposers")
        argv = [each.replace("FULL", str(full)) for each in given]
        status = train(llama.folder, tmp_path / "out", *argv)

    last = capsys.readouterr().err.splitlines()[-1]
    assert status == 2
    assert last.startswith("hookline: error: ")
    assert reason in last
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("flag", ["method", "out"])
def test_required_options_are_named(
    flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    other = {"method": "--out=x", "out": "--method=medusa"}[flag]

    assert main(["train-draft", other]) == 2
    assert f"{flag}: is required" in capsys.readouterr().err
