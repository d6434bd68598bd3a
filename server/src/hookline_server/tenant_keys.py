"""Reads the file that maps API keys to tenants; errors never quote its keys."""

from pathlib import Path

import yaml

from hookline_server.tenant_names import is_tenant

MOST_KEYS = 10_000


def tenant_keys(path: str) -> dict[str, str]:
    """Returns tenants by API key, from a YAML or JSON file.

    Raises:
        ValueError: The file cannot be read, or has another form.
    """
    try:
        content: object = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"cannot read {path}: {error}") from error
    except yaml.YAMLError as error:
        # YAML's own message quotes the line, which holds a key.
        message = f"{path} is not valid YAML{_line(error)}"
        raise ValueError(message) from None
    if not isinstance(content, dict) or not content:
        raise ValueError(f"{path} must hold `API key: tenant` lines")
    if len(content) > MOST_KEYS:
        raise ValueError(f"{path} has more than {MOST_KEYS} keys")
    for number, (key, tenant) in enumerate(content.items(), 1):
        _check(f"{path}, entry {number}", key, tenant)
    return content


def _check(place: str, key: object, tenant: object) -> None:
    if not isinstance(key, str) or not isinstance(tenant, str):
        message = f"{place}: key and tenant must be strings; put quotes around numbers"
        raise ValueError(message)  # noqa: TRY004
    if not key or key != key.strip():
        message = f"{place}: the key is empty, or has spaces around it"
        raise ValueError(message)
    if not is_tenant(tenant):
        # Not quoted: if the columns are swapped, this is a key.
        raise ValueError(
            f"{place}: the tenant must be 1 to 64 letters, digits and ._:-"
        )


def _line(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    return "" if mark is None else f", line {mark.line + 1}"
