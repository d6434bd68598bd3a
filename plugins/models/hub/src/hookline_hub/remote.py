"""What a hub says of a model: its commit, and the sizes and checksums of its files."""

import logging
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

import httpx2
from huggingface_hub import HfApi, ModelInfo, constants
from huggingface_hub.errors import HfHubHTTPError

from hookline.exceptions import ModelLoadError
from hookline_hub.cache import CONFIG
from hookline_hub.gguf_files import chosen, quants, require_plugin
from hookline_hub.names import HubName, is_commit
from hookline_hub.needed import WEIGHTS, needed, plain

logger = logging.getLogger(__name__)
T = TypeVar("T")
Pause = Callable[[float], object]

# It logs the URL of each request, and that of a redirect may be signed.
logging.getLogger("httpx2").setLevel(logging.WARNING)

_SECONDS = 20.0
_TRIES = 5
_MOST_NAMES = 6
_LONGEST_WAIT_SECONDS = 300.0
_FOR_NOW = (408, 429, 500, 502, 503, 504)
_DIGEST = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file of a model.

    Attributes:
        path: Its path in the repository.
        size: Its bytes.
        digest: SHA-256 of a large file; of others the SHA-1 that Git has.
    """

    path: str
    size: int
    digest: str


@dataclass(frozen=True, slots=True)
class Listing:
    """The needed files of a model at a commit.

    Attributes:
        commit: The commit.
        files: The files.
        main: The one that means the model: the first GGUF file; else empty.
    """

    commit: str
    files: tuple[RemoteFile, ...]
    main: str = ""


def read_listing(
    name: HubName, endpoint: str, pause: Pause, *, weights: bool
) -> Listing:
    """Asks the hub for a model's commit and its needed files.

    Args:
        name: The model.
        endpoint: The hub's URL.
        pause: Waits for some seconds.
        weights: Whether weights are needed as well.

    Raises:
        ModelLoadError: It lacks what a model needs, or the answer makes no sense.
        HfHubHTTPError: The hub refuses.
        httpx2.HTTPError: It cannot be reached.
    """
    api = HfApi(endpoint=endpoint, library_name="hookline")
    try:
        info = patiently(
            lambda: api.model_info(
                name.repo, revision=name.revision, files_metadata=True, timeout=_SECONDS
            ),
            pause,
        )
        return _listing(name, info, weights=weights)
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, HfHubHTTPError):
            raise
        reason = f"{endpoint} does not answer as a hub does: {error}"
        raise ModelLoadError(str(name), reason) from error


def patiently(ask: Callable[[], T], pause: Pause) -> T:
    """Asks again while the hub says that it cannot answer for now.

    Args:
        ask: Asks once.
        pause: Waits for some seconds.
    """
    for number in range(1, _TRIES):
        try:
            return ask()
        except HfHubHTTPError as error:
            status = error.response.status_code
            wait = _wait(error.response, number)
            if status not in _FOR_NOW or wait > _LONGEST_WAIT_SECONDS:
                raise
            logger.warning(
                "the hub answered with status %d: %g s until the next try", status, wait
            )
        pause(wait)
    return ask()


def endpoint_url() -> str:
    """Returns the hub's URL: that of HF_ENDPOINT, if it is set."""
    return constants.ENDPOINT


def _wait(response: httpx2.Response, number: int) -> float:
    asked = response.headers.get("Retry-After", "").strip()
    return float(asked) if asked.isdigit() else 2.0 ** (number - 1)


def _listing(name: HubName, info: ModelInfo, *, weights: bool) -> Listing:
    siblings = {each.rfilename: each for each in info.siblings or ()}
    wanted, main = needed(siblings, weights=weights), ""
    if name.quant is not None or _is_gguf(wanted, siblings):
        require_plugin(name)
        wanted = chosen(name, plain(siblings))
        main = wanted[0]
    elif CONFIG not in wanted:
        raise ModelLoadError(str(name), f"has no {CONFIG} at the hub: {_has(siblings)}")
    elif weights and not _has_weights(wanted):
        raise ModelLoadError(
            str(name), f"has no weights as safetensors at the hub: {_has(siblings)}"
        )
    commit = info.sha or ""
    if not is_commit(commit):
        raise ValueError(f"the commit is {commit!r}")
    files = []
    for path in wanted:
        large = siblings[path].lfs
        size = siblings[path].size if large is None else large.size
        digest = siblings[path].blob_id if large is None else large.sha256
        if size is None or digest is None or not _DIGEST.fullmatch(digest):
            raise ValueError(f"{path} has no size or no checksum")
        files.append(RemoteFile(path, size, digest))
    return Listing(commit, tuple(files), main)


def _is_gguf(wanted: Iterable[str], paths: Iterable[str]) -> bool:
    """Whether a repository has GGUF files, and no weights that are preferred."""
    found = plain(paths)
    return not _has_weights([*wanted, *found]) and bool(quants(found))


def _has_weights(paths: Iterable[str]) -> bool:
    return any(each.endswith(WEIGHTS) for each in paths)


def _has(paths: Iterable[str]) -> str:
    """Says what a repository has instead."""
    names = sorted(each for each in paths if not each.startswith("."))
    rest = ", …" if len(names) > _MOST_NAMES else ""
    return f"it has {', '.join(names[:_MOST_NAMES]) or 'nothing'}{rest}"
