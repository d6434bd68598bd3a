"""What grammars need of an engine: its vocabulary, its backends and their limits."""

from dataclasses import dataclass
from pathlib import Path

from hookline.config import EngineConfig
from hookline_description.describing import describe
from hookline_grammars.compiling_process import CompileLimits
from hookline_grammars.config import StructuredOutputsConfig
from hookline_grammars.loading import chosen_backends


@dataclass(frozen=True, slots=True, kw_only=True)
class GrammarSettings:
    """What grammars need of an engine.

    Attributes:
        backends: Names of the backends' entry points; the first that accepts a grammar
            compiles and matches it.
        options: Their options.
        tokenizer: Folder of the model's tokenizer.
        vocab_size: The model's number of token ids.
        eos_token_ids: The model's end-of-text tokens.
        limits: Limits of the compiling process.
    """

    backends: tuple[str, ...]
    options: dict[str, object]
    tokenizer: Path
    vocab_size: int
    eos_token_ids: tuple[int, ...]
    limits: CompileLimits

    @classmethod
    def of(cls, config: EngineConfig) -> "GrammarSettings | None":
        """Returns the settings of an engine whose executor has logits.

        Returns:
            None if structured outputs are off or no backend is installed.

        Raises:
            ConfigError: The named backend is not installed.
            ModelLoadError: The model's description is missing or damaged.
        """
        own = StructuredOutputsConfig.from_mapping(config.structured_outputs)
        names = chosen_backends(own.backend)
        if not names:
            return None
        description = describe(config.model)
        tokenizer = config.model.tokenizer
        return cls(
            backends=names,
            options=own.backend_options,
            tokenizer=Path(tokenizer) if tokenizer else description.folder,
            vocab_size=description.vocab_size,
            eos_token_ids=description.eos_token_ids,
            limits=CompileLimits(
                cpu_seconds=own.compile_seconds, memory_bytes=own.compile_memory
            ),
        )
