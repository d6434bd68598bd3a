"""One sentence for each way in which a hub or a disk may fail."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

import httpx2
from huggingface_hub import get_token
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from hookline.exceptions import ModelLoadError
from hookline_hub.names import HubName

_FORBIDDEN = (401, 403)
_TOO_MANY = 429


@contextmanager
def one_sentence(name: HubName, endpoint: str, folder: object) -> Iterator[None]:
    """Raises what fails in the block as a `ModelLoadError`.

    Args:
        name: The model.
        endpoint: The hub's URL.
        folder: The cache.
    """
    try:
        yield
    except (HfHubHTTPError, OfflineModeIsEnabled, httpx2.HTTPError) as error:
        raise ModelLoadError(str(name), _of_hub(error, name, endpoint)) from error
    except OSError as error:
        raise ModelLoadError(str(name), _of_disk(error, folder)) from error


def size_text(size: int) -> str:
    """Returns a size as people read it."""
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= factor:
            return f"{size / factor:.1f} {unit}"
    return f"{size} bytes"


def _of_hub(error: Exception, name: HubName, endpoint: str) -> str:
    has_token = get_token() is not None
    match error:
        case GatedRepoError():
            return (
                f"is gated at {endpoint}: "
                + ("the account of this token has no access yet; " if has_token else "")
                + f"accept its terms at {endpoint}/{name.repo}"
                + ("" if has_token else ", and set HF_TOKEN")
            )
        case RevisionNotFoundError():
            return f"{endpoint} has no revision {name.revision!r} of {name.repo}"
        case RepositoryNotFoundError():
            seen = "this HF_TOKEN may see" if has_token else "is public (no HF_TOKEN)"
            return (
                f"is no folder with config.json here, nor an installed model, and "
                f"{endpoint} has no model of that name that {seen}"
            )
        case HfHubHTTPError():
            return _of_answer(error.response, endpoint, has_token=has_token)
        case OfflineModeIsEnabled():
            return "is not whole in the cache, and HF_HUB_OFFLINE is set"
        case _:
            reason = str(error) or type(error).__name__
            return f"{endpoint} cannot be reached ({reason}), and the cache lacks it"


def _of_answer(response: httpx2.Response, endpoint: str, *, has_token: bool) -> str:
    status = response.status_code
    if status in _FORBIDDEN and has_token:
        return f"{endpoint} refuses this HF_TOKEN (status {status})"
    if status in _FORBIDDEN:
        return f"{endpoint} wants a token (status {status}): set HF_TOKEN"
    if status == _TOO_MANY:
        wait = response.headers.get("Retry-After", "")
        later = f"in {wait} s" if wait.isdigit() else "later"
        return f"{endpoint} has had too many requests from here: try again {later}"
    return f"{response.request.url.host} answered with status {status}: try again later"


def _of_disk(error: OSError, folder: object) -> str:
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            return f"the disk of {folder} is full; what was downloaded is kept"
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return f"{folder} cannot be written: --download-dir names another folder"
        case _:
            return f"cannot be kept in {folder}: {error}"
