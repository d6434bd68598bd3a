"""Reads the file that says whose an API key is; its keys never leave it."""

import argparse
from pathlib import Path

import yaml

from hookline_server.tenants import is_tenant

MOST_KEYS = 10_000


def tenant_keys(path: str) -> dict[str, str]:
    """Tenants by API key, from YAML or JSON, which YAML includes."""
    try:
        content: object = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise argparse.ArgumentTypeError(f"cannot read {path}: {error}") from error
    except yaml.YAMLError as error:
        # What YAML says of the place quotes the line, and a key stands there.
        message = f"{path} is not valid YAML{_line(error)}"
        raise argparse.ArgumentTypeError(message) from None
    if not isinstance(content, dict) or not content:
        raise argparse.ArgumentTypeError(f"{path} must hold `API key: tenant` lines")
    if len(content) > MOST_KEYS:
        raise argparse.ArgumentTypeError(f"{path} has more than {MOST_KEYS} keys")
    for number, (key, tenant) in enumerate(content.items(), 1):
        _check(f"{path}, entry {number}", key, tenant)
    return content


def _check(place: str, key: object, tenant: object) -> None:
    if not isinstance(key, str) or not isinstance(tenant, str):
        raise argparse.ArgumentTypeError(
            f"{place}: key and tenant must be strings; put quotes around numbers"
        )
    if not key or key != key.strip():
        message = f"{place}: the key is empty, or has spaces around it"
        raise argparse.ArgumentTypeError(message)
    if not is_tenant(tenant):
        # Not quoted either: who mixes the columns up has a key there.
        raise argparse.ArgumentTypeError(
            f"{place}: the tenant must be 1 to 64 letters, digits and ._:-"
        )


def _line(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    return "" if mark is None else f", line {mark.line + 1}"
