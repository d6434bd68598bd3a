"""Checks the URLs of instances."""

from collections.abc import Sequence

from hookline.exceptions import ConfigError
from hookline_processes.addresses import AddressError, read_url


def check_urls(option: str, urls: Sequence[str]) -> None:
    """Raises `ConfigError` for what is no URL of an instance, or is named twice."""
    for url in urls:
        try:
            parts = read_url(url)
        except AddressError as error:
            raise ConfigError(option, str(error)) from error
        if parts.query or parts.fragment or parts.username:
            raise ConfigError(option, "must be URLs with nothing but a host and a port")
    if len({url.rstrip("/") for url in urls}) != len(urls):
        raise ConfigError(option, "names an instance twice")
