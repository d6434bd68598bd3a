"""What the proposer `eagle` drafts, and what it refuses."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from hookline import SamplingParams
from hookline.config import CacheConfig, EngineConfig, ModelConfig, SchedulerConfig
from hookline.engine.worker.extension import CacheShape
from hookline.exceptions import ConfigError
from hookline_drafting import (
    DraftRequest,
    HiddenStates,
    ProposerContext,
    SpeculativeConfig,
    TargetModel,
)
from hookline_drafting.draft_cache import Span
from hookline_drafting.paged_draft_cache import DraftMemory, PagedDraftCache
from hookline_eagle.checkpoint import load_head, save_head
from hookline_eagle.head import Head, output_of
from hookline_eagle.proposer import EagleProposer
from hookline_eagle.rotary import angle_table
from hookline_kernels import CPU

MakeHead = Callable[..., Head]
Plain = Callable[..., tuple[torch.Tensor, list[int]]]

ROTARY = {"rope_theta": 10000.0, "max_position_embeddings": 256}
THIRD = {**ROTARY, "eagle_aux_hidden_state_layer_ids": [1, 2, 3]}


def target(width: int = 64, vocabulary: int = 320, layers: int = 3) -> TargetModel:
    table = torch.randn(vocabulary, width, generator=torch.Generator().manual_seed(1))
    return TargetModel(
        hidden_size=width,
        vocab_size=vocabulary,
        embedding=table,
        output=table,
        num_layers=layers,
    )


def ready(proposer: EagleProposer, drafts: int = 4) -> EagleProposer:
    config = EngineConfig(
        cache=CacheConfig(block_size=4),
        scheduler=SchedulerConfig(max_num_seqs=8),
    )
    speculative = SpeculativeConfig(method="eagle", num_speculative_tokens=drafts)
    proposer.prepare(target())
    memory = DraftMemory.of(proposer, speculative, config)
    assert memory is not None
    shape = CacheShape(
        num_blocks=12,
        max_model_len=40,
        dtype=torch.float32,
        cache_dtype=torch.float32,
        platform=CPU,
    )
    proposer.bind(memory.cache(shape))
    return proposer


def request(
    text: list[int], max_drafts: int = 4, temperature: float = 0.0
) -> DraftRequest:
    """Of a text whose tokens but the last have states; in blocks 3, 4 …"""
    generator = torch.Generator().manual_seed(7)
    states = torch.randn(len(text) - 1, 4 * 64, generator=generator)
    return DraftRequest(
        request_id=1,
        token_ids=np.array(text, np.int32),
        max_drafts=max_drafts,
        params=SamplingParams(temperature=temperature),
        hidden_states=HiddenStates(
            start=0, final=states[:, :64], features=states[:, 64:]
        ),
        block_ids=np.arange(3, 3 + -(-(len(text) - 1) // 4), dtype=np.int32),
    )


TEXT = [5, 9, 300, 44, 17, 8, 9]


def test_slow_setup_is_done_at_the_start(
    tmp_path: Path, make_head: MakeHead, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both kinds of pass, a prompt's and a single token's, before the first request."""
    passes: list[list[int]] = []
    begin = PagedDraftCache.begin

    def begin_and_tell(cache: PagedDraftCache, spans: Sequence[Span]) -> torch.Tensor:
        passes.append([span.count for span in spans])
        return begin(cache, spans)

    monkeypatch.setattr(PagedDraftCache, "begin", begin_and_tell)
    save_head(tmp_path / "a", make_head(third=True), THIRD, "")

    ready(EagleProposer(load_head(tmp_path / "a")), drafts=1)

    assert passes == [[2], [1]]


@pytest.mark.parametrize("third", [False, True])
@pytest.mark.parametrize("max_drafts", [1, 3, 4])
def test_greedy_drafts_are_the_likeliest_one_after_another(
    third: bool, max_drafts: int, tmp_path: Path, make_head: MakeHead, plain: Plain
) -> None:
    """Drafts are the requested number of tokens, as computed on whole sequences."""
    save_head(tmp_path / "a", make_head(third=third), THIRD, "")
    proposer = ready(EagleProposer(load_head(tmp_path / "a")))
    asked = request(TEXT, max_drafts)
    assert asked.hidden_states is not None
    told = asked.hidden_states.features if third else asked.hidden_states.final

    [found] = proposer.propose([asked])

    table = angle_table(ROTARY, 16, 40, torch.empty(0))
    head = load_head(tmp_path / "a").head
    _, expected = plain(head, target(), table, TEXT, told, count=max_drafts)
    assert list(found.token_ids) == expected
    assert found.probabilities is None


def test_prompts_that_are_not_complete_have_no_drafts(
    tmp_path: Path, make_head: MakeHead
) -> None:
    """They are read, and drafted for when they are complete."""
    save_head(tmp_path / "a", make_head(), ROTARY, "")
    whole = ready(EagleProposer(load_head(tmp_path / "a")))
    parts = ready(EagleProposer(load_head(tmp_path / "a")))
    asked = request(TEXT)
    assert asked.hidden_states is not None
    states = asked.hidden_states.final

    def part(first: int, last: int, drafts: int) -> DraftRequest:
        shown = HiddenStates(start=first, final=states[first:last])
        return replace(asked, max_drafts=drafts, hidden_states=shown)

    [nothing] = parts.propose([part(0, 4, 0)])
    [found] = parts.propose([part(4, 6, 4)])

    assert list(nothing.token_ids) == []
    assert found == whole.propose([asked])[0]


def test_missing_positions_are_tolerated(tmp_path: Path, make_head: MakeHead) -> None:
    """Behind a prefix that it knows nothing of, a head drafts all the same."""
    save_head(tmp_path / "a", make_head(), ROTARY, "")
    proposer = ready(EagleProposer(load_head(tmp_path / "a")))
    asked = request(TEXT)
    assert asked.hidden_states is not None
    late = HiddenStates(start=4, final=asked.hidden_states.final[4:])

    [found] = proposer.propose([replace(asked, hidden_states=late)])

    assert len(found.token_ids) == 4


@pytest.mark.exhaustive
@pytest.mark.parametrize("third", [False, True])
def test_drawn_drafts_follow_their_probabilities(
    third: bool, tmp_path: Path, make_head: MakeHead, plain: Plain
) -> None:
    """A draft's row is the head's distribution at the request's temperature."""
    save_head(tmp_path / "a", make_head(third=third), THIRD, "")
    proposer = ready(EagleProposer(load_head(tmp_path / "a"), draws=True))
    asked = request(TEXT, 2, temperature=3.0)
    greedy = request(TEXT, 2)
    draws = 3000

    counts: Counter[int] = Counter()
    for _ in range(draws):
        first, second = proposer.propose([asked, greedy])
        assert second.probabilities is None
        rows = np.asarray(first.probabilities)
        counts[int(first.token_ids[0])] += 1

    assert rows.shape == (2, 320)
    np.testing.assert_allclose(rows.sum(-1), 1, atol=1e-5)
    assert asked.hidden_states is not None
    told = asked.hidden_states.features if third else asked.hidden_states.final
    head = load_head(tmp_path / "a").head
    table = angle_table(ROTARY, 16, 40, torch.empty(0))
    features, _ = plain(head, target(), table, TEXT, told, count=1)
    shares = (head.logits(output_of(target()), features) / 3.0).softmax(-1)[0]
    ids = head.tokens(torch.arange(len(shares)))
    np.testing.assert_allclose(rows[0][ids], shares, atol=1e-5)
    expected = rows[0] * draws
    common = np.flatnonzero(expected >= 8)
    assert len(common) > 5
    seen = np.array([counts[token] for token in common.tolist()])
    rest = draws - expected[common].sum()
    chi_square = ((seen - expected[common]) ** 2 / expected[common]).sum()
    chi_square += (draws - seen.sum() - rest) ** 2 / max(rest, 1)
    half = torch.tensor(len(common) / 2, dtype=torch.float64)
    p = float(torch.special.gammaincc(half, torch.tensor(chi_square / 2)))
    assert p > 1e-4
    if third:
        known = head.get_buffer("t2d").numpy()
        assert not rows[:, ~known].any()


def load(folder: Path, **options: object) -> EagleProposer:
    config = EngineConfig(model=ModelConfig(model=str(folder)))
    return EagleProposer.load(
        ProposerContext(
            config=config,
            options=options,
            num_speculative_tokens=4,
        )
    )


def test_head_is_found_in_a_folder_or_with_the_target(
    tmp_path: Path, make_head: MakeHead
) -> None:
    """The head is in its own folder or in the target's."""
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    with pytest.raises(ConfigError, match="includes no head"):
        load(model)

    save_head(model / "eagle", make_head(), ROTARY, "a model")

    assert load(model)
    assert load(tmp_path, model=str(model / "eagle"))


WRONG: dict[str, tuple[dict[str, object], str]] = {
    "another option": (
        {"head": "x"},
        "no option 'head'; it has model, draft_sample_method",
    ),
    "no name": ({"model": 3}, "must name a folder"),
    "missing": ({"model": "/there/is/none"}, "'/there/is/none': not a folder"),
    "method": ({"draft_sample_method": "both"}, "must be greedy or probabilistic"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_options_are_one_clear_error(name: str, tmp_path: Path) -> None:
    """Each names the option `speculative-config` and what is wrong."""
    given, reason = WRONG[name]

    with pytest.raises(ConfigError, match=reason) as caught:
        load(tmp_path, **given)

    assert caught.value.option == "speculative-config"


@pytest.mark.parametrize(
    ("third", "width", "vocabulary", "layers"),
    [(False, 32, 320, 3), (False, 64, 300, 3), (True, 64, 320, 2), (True, 32, 320, 3)],
)
def test_heads_for_another_model_are_refused(  # noqa: PLR0917 - of each, its number
    third: bool,
    width: int,
    vocabulary: int,
    layers: int,
    tmp_path: Path,
    make_head: MakeHead,
) -> None:
    """By their shapes and layers, before anything is computed."""
    save_head(tmp_path / "a", make_head(third=third), THIRD, "")
    proposer = EagleProposer(load_head(tmp_path / "a"))

    with pytest.raises(ConfigError, match="made for another model"):
        proposer.prepare(target(width, vocabulary, layers))
