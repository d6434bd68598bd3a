"""The prompts of a file, whatever its format."""

from collections.abc import Iterator

from tokenizers import Tokenizer

from hookline_bench.client import Backend
from hookline_bench.datasets.custom import custom_prompts
from hookline_bench.datasets.settings import DatasetName, DatasetSettings
from hookline_bench.datasets.sharegpt import sharegpt_prompts
from hookline_bench.random_prompts import Prompt


def file_prompts(
    dataset: DatasetSettings, tokenizer: Tokenizer, backend: Backend
) -> Iterator[Prompt]:
    """Yields the prompts of a file without times, in its order.

    Raises:
        ConfigError: The file cannot be read, or an entry is wrong.
    """
    path = str(dataset.path)
    if dataset.name is DatasetName.SHAREGPT:
        return sharegpt_prompts(path, tokenizer, dataset.sharegpt_output_len)
    return custom_prompts(path, tokenizer, backend, dataset.custom_output_len)
