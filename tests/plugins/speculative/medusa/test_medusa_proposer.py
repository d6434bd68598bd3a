"""What the proposer `medusa` drafts, and what it refuses."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from hookline import SamplingParams
from hookline.config import EngineConfig, ModelConfig
from hookline.exceptions import ConfigError
from hookline_drafting import (
    DraftRequest,
    HiddenStates,
    ProposerContext,
    TargetModel,
)
from hookline_medusa.checkpoint import save_heads
from hookline_medusa.choices import Choices
from hookline_medusa.heads import Head, SharedOutput, likeliest, ranked
from hookline_medusa.proposer import MedusaProposer

MakeHeads = Callable[..., tuple[Head, ...]]


def target(width: int = 64, vocabulary: int = 320) -> TargetModel:
    table = torch.randn(vocabulary, width, generator=torch.Generator().manual_seed(1))
    return TargetModel(
        hidden_size=width, vocab_size=vocabulary, embedding=table, output=table
    )


def request(states: torch.Tensor, max_drafts: int) -> DraftRequest:
    return DraftRequest(
        request_id=1,
        token_ids=np.zeros(len(states) + 1, np.int32),
        max_drafts=max_drafts,
        params=SamplingParams(),
        hidden_states=HiddenStates(start=0, final=states),
    )


@pytest.mark.parametrize("own_output", [True, False])
def test_each_head_drafts_one_token_from_the_newest_state(
    own_output: bool, make_heads: MakeHeads
) -> None:
    """Of several states the last counts, and of several requests each its own."""
    heads, shown = make_heads(own_output=own_output), target()
    proposer = MedusaProposer(heads)
    proposer.prepare(shown)
    states = [torch.randn(count, 64) for count in (1, 3, 2)]
    requests = [request(states[0], 4), request(states[1], 0), request(states[2], 2)]

    found = proposer.propose(requests)

    newest = torch.stack([states[0][-1], states[2][-1]])
    expected = likeliest(heads, SharedOutput(shown.output, None), newest).T.tolist()
    assert [list(each.token_ids) for each in found] == [
        expected[0],
        [],
        expected[1][:2],
    ]
    assert all(each.probabilities is None for each in found)
    assert len({*expected[0], *expected[1]}) > 2


CHOICES = [[0, 0], [1], [0], [0, 3], [1, 0, 2], [1, 0]]
"""In the order in which nobody has to write them."""
PLACES = [(0, 0), (0, 1), (1, 0), (1, 3), (1, 0), (2, 2)]
"""Head and rank of each draft, by depth and rank."""


def test_tree_takes_the_chosen_ranks_of_each_head(make_heads: MakeHeads) -> None:
    """Its drafts are in order of depth, cut to the requested number."""
    heads, shown = make_heads(), target()
    proposer = MedusaProposer(heads, Choices.parse(CHOICES))
    proposer.prepare(shown)
    states = torch.randn(3, 64)
    wanted = [6, 2, 4]
    requests = [
        request(state[None], most) for state, most in zip(states, wanted, strict=True)
    ]

    found = proposer.propose(requests)

    best = ranked(heads, SharedOutput(shown.output, None), states, 4)
    alone = likeliest(heads, SharedOutput(shown.output, None), states)
    assert torch.equal(best[:, :, 0], alone)
    assert proposer.capabilities.draft_parents == (None, None, 0, 0, 1, 4)
    for index, (drafts, most) in enumerate(zip(found, wanted, strict=True)):
        expected = [int(best[head, index, rank]) for head, rank in PLACES[:most]]
        assert list(drafts.token_ids) == expected


def test_chains_have_no_tree(make_heads: MakeHeads) -> None:
    """So they are verified as ever."""
    assert MedusaProposer(make_heads()).capabilities.draft_parents is None


def test_prompts_that_are_not_complete_have_no_drafts(make_heads: MakeHeads) -> None:
    proposer = MedusaProposer(make_heads())
    proposer.prepare(target())

    [found] = proposer.propose([request(torch.randn(5, 64), 0)])

    assert list(found.token_ids) == []


def load(folder: Path, drafts: int = 4, **options: object) -> MedusaProposer:
    config = EngineConfig(model=ModelConfig(model=str(folder)))
    return MedusaProposer.load(
        ProposerContext(
            config=config,
            options=options,
            num_speculative_tokens=drafts,
        )
    )


def test_heads_are_found_in_a_folder_or_with_the_target(
    tmp_path: Path, make_heads: MakeHeads, heads_folder: Path
) -> None:
    """A folder of their own, the target's, or that of another model by its path."""
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    with pytest.raises(ConfigError, match="includes no heads"):
        load(model)

    save_heads(model / "medusa", make_heads(3), "a model")

    assert load(tmp_path, model=str(heads_folder))
    assert load(model, 3)


WRONG: dict[str, tuple[dict[str, object], int, str]] = {
    "another option": ({"heads_of": "x"}, 4, "no option 'heads_of'; it has model"),
    "no name": ({"model": 3}, 4, "must name a folder"),
    "missing": ({"model": "/there/is/none"}, 4, "'/there/is/none': not a folder"),
    "a tree deeper than heads": (
        {"model": "HEADS", "medusa_choices": [[0] * depth for depth in range(1, 6)]},
        5,
        r"path \[0, 0, 0, 0, 0\], and there are 4 heads",
    ),
    "no list of paths": ({"medusa_choices": "[[0]]"}, 4, "must be a list of paths"),
    "no paths": ({"medusa_choices": []}, 4, "must be a list of paths"),
    "no path": ({"medusa_choices": [0]}, 4, "the path 0, which is not a list of ranks"),
    "empty path": ({"medusa_choices": [[]]}, 4, "which is not a list of ranks"),
    "rank below 0": ({"medusa_choices": [[-1]]}, 4, "rank -1, which is not a whole"),
    "rank is true": ({"medusa_choices": [[True]]}, 4, "the rank True, which is not"),
    "rank is a text": ({"medusa_choices": [["0"]]}, 4, "the rank '0', which is not"),
    "a path twice": (
        {"medusa_choices": [[0], [1], [0]]},
        4,
        r"has the path \[0\] twice",
    ),
    "no tree": (
        {"medusa_choices": [[0], [1, 0]]},
        4,
        r"has the path \[1, 0\], but not \[1\]",
    ),
    "a tree too large": (
        {"medusa_choices": [[rank] for rank in range(65)]},
        4,
        "has 65 paths, more than 64",
    ),
    "too many drafts": ({"model": "HEADS"}, 5, "is 5, and .* has 4 heads"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_options_are_one_clear_error(
    name: str, tmp_path: Path, heads_folder: Path
) -> None:
    """Each names the option `speculative-config` and what is wrong."""
    given, drafts, reason = WRONG[name]
    options = {
        key: str(heads_folder) if value == "HEADS" else value
        for key, value in given.items()
    }

    with pytest.raises(ConfigError, match=reason) as caught:
        load(tmp_path, drafts, **options)

    assert caught.value.option == "speculative-config"


def test_ranks_beyond_the_vocabulary_are_refused(make_heads: MakeHeads) -> None:
    """Once it is known."""
    proposer = MedusaProposer(make_heads(), Choices.parse([[0], [320]]))

    with pytest.raises(ConfigError, match="has the rank 320, and there are 320 tokens"):
        proposer.prepare(target())


@pytest.mark.parametrize(("width", "vocabulary"), [(32, 320), (64, 300)])
def test_heads_for_another_model_are_refused(
    width: int, vocabulary: int, make_heads: MakeHeads
) -> None:
    """By their shapes, before anything is computed."""
    proposer = MedusaProposer(make_heads())

    with pytest.raises(ConfigError, match="made for another model"):
        proposer.prepare(target(width, vocabulary))
