"""Valid and invalid configurations of speculation."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hookline import LLM
from hookline.config import (
    EngineConfig,
    ExecutorConfig,
    SchedulerConfig,
)
from hookline.config.extensions import SPECULATIVE_OPTION as OPTION
from hookline.config.readers import read_object
from hookline.exceptions import ConfigError
from hookline.payloads import ExtensionContext
from hookline.plugin_loading.extensions import load_extensions
from hookline_drafting import ProposerCapabilities, SpeculativeConfig
from hookline_drafting.control import DraftControl
from hookline_drafting.loading import load_proposer, settle_drafts
from hookline_testing.plugin_site import PluginSite

CONTEXT = ExtensionContext(config=EngineConfig())
GOOD = {"method": "ngram", "num_speculative_tokens": 4}

WRONG: dict[str, tuple[str, str]] = {
    "not JSON": ("{method: ngram}", "is not JSON"),
    "no object": ('["ngram"]', "is not a JSON object"),
    "no method": ('{"num_speculative_tokens": 4}', "method is missing"),
    "method is a number": ('{"method": 1, "num_speculative_tokens": 4}', "method"),
    "k is 0": ('{"method": "ngram", "num_speculative_tokens": 0}', "at least 1"),
    "k is negative": ('{"method": "ngram", "num_speculative_tokens": -3}', "at least"),
    "k is a text": ('{"method": "ngram", "num_speculative_tokens": "4"}', "whole"),
    "k is true": ('{"method": "ngram", "num_speculative_tokens": true}', "whole"),
    "k is no whole number": ('{"method": "a", "num_speculative_tokens": 1.5}', "whole"),
    "k is too large": ('{"method": "a", "num_speculative_tokens": 129}', "at most 128"),
    "k is another word": (
        '{"method": "a", "num_speculative_tokens": "automatic"}',
        'whole number or "auto"',
    ),
    "most is a word": (
        (
            '{"method": "a", "num_speculative_tokens": "auto",'
            ' "max_speculative_tokens": "auto"}'
        ),
        "max_speculative_tokens must be a whole number",
    ),
    "most is 0": (
        (
            '{"method": "a", "num_speculative_tokens": "auto",'
            ' "max_speculative_tokens": 0}'
        ),
        "at least 1",
    ),
    "most is too large": (
        (
            '{"method": "a", "num_speculative_tokens": "auto",'
            ' "max_speculative_tokens": 129}'
        ),
        "at most 128",
    ),
    "most without auto": (
        '{"method": "a", "num_speculative_tokens": 3, "max_speculative_tokens": 8}',
        'requires num_speculative_tokens "auto"',
    ),
    "no time": (
        '{"method": "a", "num_speculative_tokens": 1, "timeout_seconds": 0}',
        "above 0",
    ),
    "time is a text": (
        '{"method": "a", "num_speculative_tokens": 1, "timeout_seconds": "1"}',
        "number",
    ),
}

PLUGINS = {
    "broken": "import there_is_no_such_module",
    "declines": (
        "from hookline import hookimpl\n"
        "@hookimpl\ndef create_proposer(context):\n    return None\n"
    ),
    "halfway": (
        "from hookline import hookimpl\n"
        "from hookline_drafting import ProposerCapabilities\nclass A:\n"
        "    capabilities = ProposerCapabilities()\n"
        "    def propose(self, requests): return []\n"
        "@hookimpl\ndef create_proposer(context):\n    return A()\n"
    ),
    "raising": (
        "from hookline import hookimpl\n"
        "@hookimpl\ndef create_proposer(context):\n    raise ValueError('oh')\n"
    ),
    "refusing": (
        "from hookline import hookimpl\n"
        "from hookline.exceptions import ConfigError\n"
        "@hookimpl\ndef create_proposer(context):\n"
        "    raise ConfigError('speculative-config', f'not {dict(context.options)}')\n"
    ),
    "curious": (
        "from hookline import hookimpl\n"
        "from hookline_drafting import ProposerCapabilities\nclass A:\n"
        "    capabilities = ProposerCapabilities(needs_hidden_states=True)\n"
        "    def propose(self, requests): return []\n"
        "    def release(self, request_ids): pass\n"
        "@hookimpl\ndef create_proposer(context):\n    return A()\n"
    ),
}
PLUGINS["undeclared"] = PLUGINS["curious"].replace("    capabilities", "    other")
PLUGINS["loose"] = PLUGINS["curious"].replace("ProposerCapabilities(", "dict(")
PLUGINS["classy"] = PLUGINS["curious"].replace("A()\n", "A\n")
PLUGINS["layered"] = PLUGINS["curious"].replace(
    "needs_hidden_states=True", "kv_layers=(1,)"
)
PLUGINS["blind"] = PLUGINS["curious"].replace(
    "needs_hidden_states=True", "feature_layers=(1,)"
)
REASONS = {
    "broken": "there_is_no_such_module",
    "declines": "provides no proposer",
    "halfway": "has no release",
    "raising": "oh",
    "refusing": "not {'more': 1}",
    "curious": "has no prepare",
    "loose": "its capabilities are {'needs_hidden_states': True}, not Proposer",
    "classy": "create_proposer returned the class A, not an instance of it",
    "layered": "has no bind, prepare",
    "blind": "has feature_layers, but not needs_hidden_states",
    "unknown": "installed: blind, broken, classy, curious",
}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[PluginSite]:
    with PluginSite(tmp_path) as site:
        for name, source in PLUGINS.items():
            site.install(name, source, group="hookline.proposers")
        yield site


@pytest.mark.parametrize("name", WRONG)
def test_wrong_text_is_one_clear_error(name: str) -> None:
    """It names the option, and what is wrong with it."""
    text, reason = WRONG[name]

    with pytest.raises(ConfigError, match=reason) as caught:
        SpeculativeConfig.from_mapping(read_object(OPTION, text))

    assert caught.value.option == "speculative-config"


def test_other_keys_are_the_methods_own() -> None:
    """What every method has is read; the rest goes to the plugin."""
    config = SpeculativeConfig.from_mapping(
        {**GOOD, "timeout_seconds": 1, "prompt_lookup_max": 3, "match": "first"}
    )

    assert (config.method, config.num_speculative_tokens) == ("ngram", 4)
    assert config.timeout_seconds == 1
    assert config.options == {"prompt_lookup_max": 3, "match": "first"}


@pytest.mark.parametrize(
    ("given", "most"), [({}, 8), ({"max_speculative_tokens": 3}, 3)]
)
def test_number_can_be_left_to_the_engine(given: dict[str, int], most: int) -> None:
    """With `auto` there is a control, up to eight drafts or the configured maximum."""
    text = json.dumps({"method": "a", "num_speculative_tokens": "auto", **given})

    config = SpeculativeConfig.from_mapping(read_object(OPTION, text))

    assert config.is_adaptive
    assert config.most_speculative_tokens == most
    assert DraftControl.of(config) is not None
    assert DraftControl.of(SpeculativeConfig.from_mapping(GOOD)) is None


def test_number_of_drafts_is_required_without_a_tree(site: PluginSite) -> None:
    """A proposer of chains needs the number of drafts."""
    source = PLUGINS["curious"].replace("=True", "=False")
    site.install("chains", source, group="hookline.proposers")
    speculative = SpeculativeConfig.from_mapping({"method": "chains"})

    with pytest.raises(ConfigError, match="num_speculative_tokens is missing"):
        settle_drafts(speculative, load_proposer(CONTEXT, speculative))


def test_overlap_is_refused() -> None:
    """Steps cannot be planned before drafts are known."""
    config = EngineConfig(
        speculative=GOOD, scheduler=SchedulerConfig(async_scheduling=True)
    )

    with pytest.raises(ConfigError, match="async-scheduling"):
        load_extensions(config)


@pytest.mark.usefixtures("site")
@pytest.mark.parametrize("name", REASONS)
def test_proposer_that_cannot_be_had_is_one_clear_error(name: str) -> None:
    """Unknown, broken and unfit plugins end the start, before a model is loaded."""
    speculative = SpeculativeConfig(
        method=name, num_speculative_tokens=2, options={"more": 1}
    )

    with pytest.raises(ConfigError) as caught:
        load_proposer(CONTEXT, speculative)

    assert caught.value.option == "speculative-config"
    assert REASONS[name] in caught.value.detail


def test_a_proposer_may_still_declare_nothing(site: PluginSite) -> None:
    """For one more release its attributes tell what it needs, with a warning."""
    source = PLUGINS["undeclared"].replace(
        "    def propose", "    draft_parents = (None, 0)\n    def propose"
    )
    site.install("former", source, group="hookline.proposers")
    speculative = SpeculativeConfig(method="former", num_speculative_tokens=2)

    with pytest.warns(DeprecationWarning, match="'former' declares no `capabilities`"):
        proposer = load_proposer(CONTEXT, speculative)

    assert proposer.capabilities == ProposerCapabilities(draft_parents=(None, 0))


def test_only_the_named_plugin_is_imported(site: PluginSite) -> None:
    """Another proposer that would fail to import does no harm."""
    site.install(
        "fine",
        PLUGINS["curious"].replace("=True", "=False"),
        group="hookline.proposers",
    )
    speculative = SpeculativeConfig(method="fine", num_speculative_tokens=2)

    assert load_proposer(CONTEXT, speculative) is not None


def test_llm_takes_a_mapping() -> None:
    """`LLM(speculative_config=…)` takes the keys of `--speculative-config`."""
    with pytest.raises(ConfigError, match="no plugin 'nothing'"):
        LLM(executor="simulated", speculative_config={**GOOD, "method": "nothing"})


@pytest.mark.slow
@pytest.mark.parametrize("name", ["uniproc", "simulated"])
def test_engine_process_reports_the_error(name: str) -> None:
    """A configuration error in another process is the same error here."""
    config = EngineConfig(
        executor=ExecutorConfig(name=name),
        speculative={"method": "nothing", "num_speculative_tokens": 2},
    )

    with pytest.raises(ConfigError, match="no plugin 'nothing'"):
        LLM.from_config(replace(config, in_process=False))
