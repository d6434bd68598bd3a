"""The file of API keys: its two forms, and what is wrong with others."""

import hashlib
import re
from pathlib import Path

import pytest

from hookline_server.auth.key import (
    ApiKey,
    Limits,
    Permissions,
    PriorityRange,
    Scope,
    Tenant,
)
from hookline_server.auth.key_file import read_keys
from hookline_server.auth.key_table import digest_of
from hookline_server.cli import main

FULL = """
keys:
  - name: batch
    key: sk-one
    tenant: acme
    scopes: [serve, metrics]
    permissions: {priority: [-1, 5], cache_salt: false, kv_transfer_params: true,
      tenant: true}
    limits: {requests_per_minute: 60, tokens_per_minute: 5000, concurrent_requests: 4}
    weight: 2
  - name: plain
    sha256: %s
tenants:
  acme:
    weight: 0.5
    limits: {concurrent_requests: 8}
"""


def content(tmp_path: Path, text: str) -> str:
    file = tmp_path / "keys.yaml"
    file.write_text(text)
    return str(file)


def test_every_field_is_read(tmp_path: Path) -> None:
    """
    A key may be written as a digest, and what is not written has safe defaults.
    """
    digest = hashlib.sha256(b"sk-two").hexdigest()

    found = read_keys(content(tmp_path, FULL % digest))

    assert found.keys == {
        digest_of("sk-one"): ApiKey(
            name="batch",
            tenant="acme",
            scopes=frozenset({Scope.SERVE, Scope.METRICS}),
            permissions=Permissions(
                priority=PriorityRange(-1, 5),
                cache_salt=False,
                kv_transfer_params=True,
                tenant=True,
            ),
            limits=Limits(
                requests_per_minute=60, tokens_per_minute=5000, concurrent_requests=4
            ),
            weight=2,
        ),
        digest_of("sk-two"): ApiKey(
            name="plain",
            tenant=None,
            scopes=frozenset({Scope.SERVE}),
            permissions=Permissions(
                priority=None, cache_salt=True, kv_transfer_params=False
            ),
        ),
    }
    assert found.tenants == {
        "acme": Tenant(limits=Limits(concurrent_requests=8), weight=0.5)
    }


@pytest.mark.parametrize(
    "text", ["k1: acme\n'2': umbrella\n", '{"k1": "acme", "2": "umbrella"}']
)
def test_short_form_has_only_tenants(tmp_path: Path, text: str) -> None:
    """
    `API key: tenant` lines, in YAML or JSON, are keys of the API with defaults.
    """
    found = read_keys(content(tmp_path, text)).keys

    assert {key: each.tenant for key, each in found.items()} == {
        digest_of("k1"): "acme",
        digest_of("2"): "umbrella",
    }
    assert all(each.scopes == {Scope.SERVE} for each in found.values())


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("s3cret: [", "is not valid YAML, line "),
        ("s3cret", "must hold `keys:`, or `API key: tenant` lines"),
        ("", "must hold"),
        ("{}", "must hold"),
        ("- s3cret", "must hold"),
        ("keys: []", "there are no keys"),
        ("a: b\n17: s3cret", "entry 2: key and tenant must be strings"),
        ("s3cret: {a: b}", "entry 1: key and tenant must be strings"),
        ("'': acme", "entry 1: the key is empty"),
        ("'s3cret ': acme", "entry 1: the key is empty, or has spaces"),
        ("acme: s3cret/key", "entry 1: the tenant must be 1 to 64"),
        (f"s3cret: {'x' * 65}", "entry 1: the tenant must be 1 to 64"),
        ("keys: [{name: a}]", "key 1 must have either key or sha256"),
        ("keys: [{key: s3cret}]", "missing required field `name`"),
        ("keys: [{name: a, key: s3cret, s3cret: 1}]", "unknown field - at `$.keys[0]`"),
        ("keys: [{name: a, sha256: s3cret}]", "key 1: sha256 must have 64 hexadecimal"),
        ("keys: [{name: 'a b', key: s3cret}]", "key 1: the name must be 1 to 64"),
        ("keys: [{name: a, key: s3cret, scopes: [root]}]", "scopes must be some of"),
        ("keys: [{name: a, key: s3cret, scopes: []}]", "scopes must be some of"),
        (
            "keys: [{name: a, key: s3cret, permissions: {priority: [2, 1]}}]",
            "priority must be [LOWEST, HIGHEST]",
        ),
        (
            "keys: [{name: a, key: s3cret, limits: {requests_per_minute: 0}}]",
            "Expected `int` >= 1",
        ),
        ("keys: [{name: a, key: s3cret, weight: 0}]", "Expected `float` >= 0.001"),
        (
            "keys: [{name: a, key: s3cret}, {name: b, key: s3cret}]",
            "key 2 is the same as an earlier one",
        ),
        ("{keys: [{name: a, key: s3cret}], tenants: {a b: {}}}", "tenants: a name"),
    ],
)
def test_wrong_file_is_one_line_without_keys(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, complaint: str
) -> None:
    """
    A file that makes no sense ends the command with one line that holds no key.
    """
    file = content(tmp_path, text)

    status = main(["serve", "--stat-logger=none", f"--api-keys={file}"])

    error = capsys.readouterr().err
    assert status == 2
    assert error.count("\n") == 1
    assert complaint in error
    assert "s3cret" not in error


def test_example_of_the_documentation_works(tmp_path: Path) -> None:
    """
    The file in docs/server.md has four keys and a tenant with limits.
    """
    page = (Path(__file__).parents[2] / "docs" / "server.md").read_text("utf-8")
    (example,) = re.findall(r"```text\n(keys:\n.*?)```", page, re.DOTALL)

    found = read_keys(content(tmp_path, example))

    assert {key.name: key.scopes for key in found.keys.values()} == {
        "batch": {Scope.SERVE},
        "prometheus": {Scope.METRICS},
        "router": {Scope.SERVE, Scope.METRICS},
        "operator": set(Scope),
    }
    assert found.tenants["acme"].weight == 2


def test_missing_file_is_an_error() -> None:
    """
    A file that cannot be read is an error that names it.
    """
    with pytest.raises(ValueError, match="cannot read /nonexistent"):
        read_keys("/nonexistent")
