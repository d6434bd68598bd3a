"""Small random heads for test models, and their output without a cache."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch.nn import functional

from hookline_drafting import TargetModel
from hookline_eagle.checkpoint import save_head
from hookline_eagle.head import Head, HeadShape, Sides, angles_at, output_of

MakeHead = Callable[..., Head]
Plain = Callable[..., tuple[torch.Tensor, list[int]]]

ROTARY = {"rope_theta": 10000.0, "max_position_embeddings": 256}


@pytest.fixture
def make_head() -> MakeHead:
    """Heads that guess anything; weights that bfloat16 holds."""

    def make(
        *,
        third: bool = False,
        width: int = 64,
        vocabulary: int = 320,
        draft_vocabulary: int = 200,
        **others: bool,
    ) -> Head:
        generator = torch.Generator().manual_seed(5)
        head = Head(
            HeadShape(
                is_third=third,
                hidden_size=width,
                target_size=width,
                num_heads=4,
                num_kv_heads=2,
                head_dim=16,
                intermediate_size=96,
                vocab_size=vocabulary,
                draft_vocab_size=draft_vocabulary if third else vocabulary,
                epsilon=1e-6,
                **others,
            )
        )
        for values in head.parameters():
            random = torch.randn(values.shape, generator=generator)
            scale = 0.15 if values.ndim > 1 else 1.0
            values.data = (random * scale).to(torch.bfloat16).float()
        if third:  # ids that are spread over the target's, in order
            ids = torch.randperm(vocabulary, generator=generator)[:draft_vocabulary]
            ids = ids.sort().values
            head.d2t = ids - torch.arange(draft_vocabulary)
            head.t2d = torch.zeros(vocabulary, dtype=torch.bool).index_fill(
                0, ids, value=True
            )
        return head.requires_grad_(requires_grad=False)

    return make


@pytest.fixture(params=["eagle", "eagle3"])
def head_folder(
    request: pytest.FixtureRequest, tmp_path: Path, make_head: MakeHead
) -> Path:
    """A head for a model of 64 hidden numbers and 320 tokens; of both kinds."""
    third = request.param == "eagle3"
    config = {**ROTARY, "eagle_aux_hidden_state_layer_ids": [1, 2, 3]}
    save_head(
        tmp_path / "head",
        make_head(third=third),
        config if third else ROTARY,
        "a model",
    )
    return tmp_path / "head"


@pytest.fixture
def causal() -> Callable[..., torch.Tensor]:
    """Attention over a whole sequence."""
    return attend_causally


@pytest.fixture
def plain() -> Plain:
    """Drafts by recomputing the whole sequence for each token."""

    def draft(
        head: Head,
        target: TargetModel,
        table: Sides,
        text: list[int],
        states: torch.Tensor,
        *,
        count: int,
    ) -> tuple[torch.Tensor, list[int]]:
        """Features [count, width], and what is drafted.

        `states` are of all tokens but the last.
        """
        features = head.fused(states)
        following = torch.tensor(text[1:])
        found, own = [], []
        for _ in range(count):
            angles = angles_at(torch.arange(len(features)), table)
            embedded = head.embed(target.embedding, following)
            said = head(embedded, features, angles, attend_causally)[-1]
            token = int(
                head.tokens(head.logits(output_of(target), said[None]).argmax(-1))[0]
            )
            found.append(said)
            own.append(token)
            features = torch.cat((features, said[None]))
            following = torch.cat((following, torch.tensor([token])))
        return torch.stack(found), own

    return draft


def attend_causally(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor
) -> torch.Tensor:
    query, key, value = (side.transpose(0, 1)[None] for side in (query, key, value))
    found = functional.scaled_dot_product_attention(
        query, key, value, is_causal=True, enable_gqa=True
    )
    return found[0].transpose(0, 1)
