"""Checks a model folder with the code that loads it, and collects what it says."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from hookline.config.engine import EngineConfig
from hookline.config.model import LoadFormat
from hookline.frontend.starting import load_tokenizer, tokenizer_folder
from hookline.model_description import find_folder
from hookline.tokenizer import Tokenizer
from hookline_description.describing import ReadDescription, read_description
from hookline_models.checking.architecture import (
    Sketched,
    examine_architecture,
    examine_cache,
    try_to_run,
)
from hookline_models.checking.report import (
    ArchitectureReport,
    CacheReport,
    ContextReport,
    EndTokenReport,
    ModelReport,
    Problem,
    Problems,
    Severity,
    StoredFiles,
)
from hookline_models.checking.tokenizer import examine_tokenizer
from hookline_models.checking.weights import find_non_finite, shares_of
from hookline_models.checkpoints.finite import NonFinite, in_words
from hookline_models.checkpoints.loading import as_load_errors
from hookline_models.checkpoints.model_part import WHOLE
from hookline_models.checkpoints.opening import LoadedFiles, open_weights
from hookline_models.checkpoints.weight_files import WeightFiles
from hookline_models.forwards.probe import NeedsNumbersError
from hookline_models.quantization import StoredTensor, method_name

T = TypeVar("T")

_OUTPUT = re.compile(r"(?:^|\.)(?:lm_head|embed_out)\.")
_ROWS_OF_TOKENS = re.compile(
    r"(?:^|\.)(?:embed_tokens|embed_in|word_embeddings|wte)\.weight$"
)
_OF_SOME_TOKENS = re.compile(r"\.experts\.")


def check_model(config: EngineConfig, *, reads_weights: bool = True) -> ModelReport:
    """Checks a model folder; whatever is wrong with it is in the report.

    Args:
        config: The options with which the model would be served.
        reads_weights: Read all numbers to find those that are not finite.

    Raises:
        ModelLoadError: There is no such folder.
    """
    return _Check(config, find_folder(config.model.model)).report(reads_weights)


class _Check:
    """One check; each part is made if what it needs could be read."""

    def __init__(self, config: EngineConfig, folder: Path) -> None:
        self._config, self._folder = config, folder
        self._name = config.model.model
        self._problems = Problems()
        self._read = self._try(partial(read_description, config.model))
        self._served = self._try(self._length)

    def _try(self, examine: Callable[[], T]) -> T | None:
        return self._problems.result_of(examine)

    def report(self, reads_weights: bool) -> ModelReport:
        """Examines the parts, and returns what was found."""
        read, config = self._read, self._config.model
        for warning in read.warnings(config.max_model_len) if read else ():
            self._problems.add(Severity.WARNING, warning)
        tokenizer = self._try(self._tokenizer)
        vocab_size = None if read is None else read.description.vocab_size
        files = self._try(partial(self._files, reads_weights))
        sketched = self._try(self._sketched) or self._try(self._sketched_alone)
        cache = self._try(partial(self._cache, sketched, files))
        described = {} if read is None else read.config
        return ModelReport(
            model=self._name,
            folder=str(self._folder),
            architecture=None if read is None else read.description.architecture,
            vocab_size=vocab_size,
            quantization=self._try(partial(method_name, config, described)) or "",
            generation={} if read is None else dict(read.sampling.sampling.values),
            context=self._context(),
            end_tokens=_end_tokens(read, tokenizer),
            tokenizer=None
            if tokenizer is None
            else examine_tokenizer(tokenizer, vocab_size, self._problems),
            files=files,
            runs=self._runs(sketched, reads_weights),
            cache=cache,
            problems=tuple(sorted(self._problems.found, key=_by_severity)),
        )

    def _tokenizer(self) -> Tokenizer:
        """Loads the tokenizer as a server does."""
        return load_tokenizer(tokenizer_folder(self._config), self._config.model)

    def _length(self) -> int | None:
        if self._read is None:
            return None
        return self._read.description.max_model_len(self._config.model.max_model_len)

    def _context(self) -> ContextReport | None:
        if self._read is None:
            return None
        context = self._read.context
        return ContextReport(
            served=self._served,
            most=context.most,
            source=context.source,
            ropes=context.ropes,
        )

    def _files(self, reads_weights: bool) -> StoredFiles:
        """Reads the headers of the files of weights, and perhaps all numbers."""
        with as_load_errors(self._name, ""), self._opened() as files:
            tensors = files.shards(WHOLE)
            found = find_non_finite(tensors) if reads_weights else []
            self._judge(found, tensors)
            if files.absent:
                self._problems.add(Severity.WARNING, files.absent_in_words())
            return StoredFiles(
                read=files.names.files,
                unused=files.names.unused,
                shares=shares_of(tensors),
                checked=reads_weights,
                non_finite=tuple(map(str, found)),
            )

    def _opened(self) -> WeightFiles | LoadedFiles:
        return open_weights(self._config.model, self._folder)

    def _judge(self, found: Sequence[NonFinite], names: Iterable[str]) -> None:
        """Adds problems: all requests need some of the weights, and few the others."""
        has_output = any(map(_OUTPUT.search, names))
        some = [
            each
            for each in found
            if _OF_SOME_TOKENS.search(each.name)
            or (has_output and _ROWS_OF_TOKENS.search(each.name))
        ]
        if every := [each for each in found if each not in some]:
            self._problems.add(
                Severity.ERROR,
                f"weights that all tokens need are infinite or NaN: {in_words(every)}",
            )
        if some:
            self._problems.add(
                Severity.WARNING,
                "weights are infinite or NaN, which ends the requests that reach them: "
                f"{in_words(some)}",
            )

    def _sketched(self) -> Sketched | None:
        """Makes the modules of the stored tensors' shapes."""
        if self._read is None:
            return None
        with (
            as_load_errors(self._name, self._read.description.architecture),
            self._opened() as files,
            files.explained(),
        ):
            return self._examined(self._config, self._read, files.shards(WHOLE))

    def _sketched_alone(self) -> Sketched | None:
        """Makes the modules of the configuration alone, where weights are missing."""
        if self._read is None:
            return None
        model = replace(self._config.model, load_format=LoadFormat.DUMMY)
        return self._examined(replace(self._config, model=model), self._read, {})

    def _examined(
        self,
        config: EngineConfig,
        read: ReadDescription,
        tensors: Mapping[str, StoredTensor],
    ) -> Sketched | None:
        length = self._served or read.description.default_max_model_len
        try:
            return examine_architecture(config, read.description, length, tensors)
        except NeedsNumbersError as error:
            self._problems.add(
                Severity.WARNING,
                f"what its layers take is known once it is loaded: {error.reason}",
            )
            return None

    def _runs(
        self, sketched: Sketched | None, reads_weights: bool
    ) -> ArchitectureReport | None:
        """Returns how the model is run; tries it if nothing is in the way."""
        tried = None
        if reads_weights and self._served and not self._problems.has_errors:
            assert self._read is not None
            tried = self._try(
                partial(try_to_run, self._config, self._read.description, self._served)
            )
        if sketched is None:
            return None
        if tried is None:
            return sketched.report
        forward, reason = tried
        return replace(sketched.report, forward=forward, reason=reason, is_tried=True)

    def _cache(
        self, sketched: Sketched | None, files: StoredFiles | None
    ) -> CacheReport | None:
        if sketched is None or files is None or self._served is None:
            return None
        return examine_cache(self._config, sketched, self._served, files.nbytes)


def _by_severity(problem: Problem) -> bool:
    return problem.severity is not Severity.ERROR


def _end_tokens(
    read: ReadDescription | None, tokenizer: Tokenizer | None
) -> tuple[EndTokenReport, ...]:
    return tuple(
        EndTokenReport(
            token_id=each.token_id,
            text="" if tokenizer is None else tokenizer.token_text(each.token_id),
            sources=each.sources,
        )
        for each in (() if read is None else read.end_tokens.tokens)
    )
