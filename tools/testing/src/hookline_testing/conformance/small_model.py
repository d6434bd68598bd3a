"""A model of two small layers, with random weights."""

from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel


def small_model() -> PreTrainedModel:
    """Returns the model."""
    config = LlamaConfig(
        vocab_size=32,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=32,
    )
    return LlamaForCausalLM(config)
