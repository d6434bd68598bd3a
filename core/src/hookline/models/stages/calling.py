"""Calls a model of `transformers`, or the part of it that one pipeline stage has."""

import torch
from transformers import PreTrainedModel

from hookline.models.forward_batch import IntermediateTensors
from hookline.models.stages.staged_model import StageEnd, part_of


def call_model(
    model: PreTrainedModel,
    token_ids: torch.Tensor,
    positions: torch.Tensor,
    *,
    intermediate: IntermediateTensors | None = None,
    logits_indices: torch.Tensor | None = None,
) -> torch.Tensor:
    """Runs the modules over T tokens.

    Args:
        model: The model, whose attention has its slot.
        token_ids: [T].
        positions: [T].
        intermediate: What the stage before has computed; None for the first.
        logits_indices: [W] of the tokens whose logits are computed; None for all.

    Returns:
        Logits [W, vocabulary]; hidden states [T, hidden] behind the last layer of a
        stage that is not the last.

    Raises:
        ValueError: The model is whole, and its modules begin with tokens only.
    """
    part = part_of(model)
    if intermediate is not None:
        if part is None:
            raise ValueError("only a stage can begin from intermediate tensors")
        part.hidden_states = intermediate.hidden_states
    kept = {} if logits_indices is None else {"logits_to_keep": logits_indices}
    try:
        logits = model(
            input_ids=token_ids[None],
            position_ids=positions[None],
            use_cache=False,
            **kept,
        ).logits[0]
    except StageEnd as end:
        return end.hidden_states
    assert isinstance(logits, torch.Tensor)
    return logits
