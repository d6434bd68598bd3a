"""The extension of docs/extensions.md, beside steps of the demo model."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hookline import LLM, ConfigError, EngineConfig, SamplingParams
from hookline_testing.plugin_site import PluginSite

PROMPT = "def add(a, b):"


@pytest.fixture
def site(
    files_of: Callable[[str], dict[str, str]], tmp_path: Path
) -> Any:  # an iterator
    files = files_of("extensions.md")
    assert set(files) == {"pyproject.toml", "hookline_watch.py"}
    with PluginSite(tmp_path) as site:
        site.install("watch", files["hookline_watch.py"], group="hookline.extensions")
        yield site


def llm(token_id: int, **options: object) -> LLM:
    given = {"extension_config": {"watch": {"token_id": token_id}}, **options}
    return LLM.from_config(
        EngineConfig.from_options(model="demo", max_model_len=128, **given)
    )


@pytest.mark.usefixtures("site")
@pytest.mark.parametrize(
    "options",
    [{}, pytest.param({"in_process": False}, marks=pytest.mark.slow)],
    ids=str,
)
def test_it_counts_a_token_in_steps_and_in_all(
    site: PluginSite, options: dict[str, object], tmp_path: Path
) -> None:
    """Its sections reach loggers, also from an engine in a process of its own."""
    site.install_recorder()
    params = SamplingParams(temperature=0.0, max_tokens=24, ignore_eos=True)
    with llm(0) as first:
        [plain] = first.generate(PROMPT, params, use_tqdm=False)
    token_ids = plain.outputs[0].token_ids
    wanted = max(token_ids, key=token_ids.count)

    if "in_process" in options:
        patch = pytest.MonkeyPatch()
        patch.setenv("PYTHONPATH", str(tmp_path))
    with llm(wanted, stat_logger=["recorder"], **options) as second:
        second.generate(PROMPT, params, use_tqdm=False)
    if "in_process" in options:
        patch.undo()

    sampled = site.module("watch").SAMPLED
    steps = [step for name, step in site.calls() if name == "step_finished"]
    by_step = [sampled.read(step.record.sections) for step in steps]  # type: ignore[attr-defined]
    totals = [sampled.read(step.scheduler.sections) for step in steps]  # type: ignore[attr-defined]
    assert sum(each.times for each in by_step if each) == token_ids.count(wanted)
    assert totals[-1].times == token_ids.count(wanted)


def test_an_extension_that_is_not_installed_is_named() -> None:
    """So are those that are."""
    with pytest.raises(ConfigError, match=r"(?s)extension-config.*wotch"):
        LLM.from_config(
            EngineConfig.from_options(extension_config={"wotch": {}}, model="demo")
        )
