"""An untrained tokenizer with 256 tokens, one per byte."""

from pathlib import Path

from tokenizers import Tokenizer as FastTokenizer
from tokenizers import decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from hookline_processes.tokenizer_texts import byte_level_alphabet

CHAT_TEMPLATE = (
    "{% for message in messages %}<{{ message['role'] }}>{{ message['content'] }}"
    "{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
)


def save_byte_tokenizer(folder: Path) -> None:
    """Writes a tokenizer whose 256 tokens are the bytes, and a chat template."""
    inner = FastTokenizer(models.BPE(vocab=byte_level_alphabet(), merges=[]))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner)
    tokenizer.chat_template = CHAT_TEMPLATE
    tokenizer.save_pretrained(folder)
