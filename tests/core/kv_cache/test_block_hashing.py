"""Chained block hashes: equal for equal prefixes, different for all else."""

from itertools import combinations

import pytest

from hookline.config import HashAlgorithm
from hookline.engine.kv_cache.hashing import BlockHasher

ALGORITHMS = pytest.mark.parametrize("algorithm", list(HashAlgorithm))


def chain(
    token_ids: list[int],
    algorithm: HashAlgorithm = HashAlgorithm.SHA256,
    *,
    block_size: int = 2,
    lora: str | None = None,
    cache_salt: str | None = None,
) -> list[bytes]:
    hashes: list[bytes] = []
    hasher = BlockHasher(block_size, algorithm)
    hasher.extend(hashes, token_ids, adapter=lora, cache_salt=cache_salt)
    return hashes


@ALGORITHMS
def test_only_full_blocks_are_hashed(algorithm: HashAlgorithm) -> None:
    """Each full block has one hash of 32 bytes; a part of one has none."""
    lengths = [len(chain(list(range(count)), algorithm)) for count in range(6)]

    assert lengths == [0, 0, 1, 1, 2, 2]
    assert {len(block_hash) for block_hash in chain([1, 2, 3, 4], algorithm)} == {32}


@ALGORITHMS
def test_hashes_grow_as_tokens_come(algorithm: HashAlgorithm) -> None:
    """Extending token by token gives the same hashes as all at once."""
    hasher = BlockHasher(2, algorithm)
    hashes: list[bytes] = []

    for count in range(8):
        hasher.extend(hashes, list(range(count)), adapter="a", cache_salt="b")

    assert hashes == chain(list(range(7)), algorithm, lora="a", cache_salt="b")


@ALGORITHMS
def test_same_tokens_after_another_parent_differ(algorithm: HashAlgorithm) -> None:
    """A hash stands for the whole prefix, not for its own block alone."""
    left = chain([1, 2, 3, 4], algorithm)
    right = chain([9, 9, 3, 4], algorithm)

    assert left[1] != right[1]
    assert len({*left, *chain([3, 4], algorithm)}) == 3


@ALGORITHMS
def test_extra_keys_keep_requests_apart(algorithm: HashAlgorithm) -> None:
    """LoRA and cache salt, alone, together or swapped, never share a hash."""
    keys: list[tuple[str | None, str | None]] = [
        (None, None),
        ("", None),
        (None, ""),
        ("", ""),
        ("a", None),
        (None, "a"),
        ("a", "b"),
        ("b", "a"),
        ("ab", ""),
        ("", "ab"),
    ]

    chains = [
        chain([1, 2, 3, 4], algorithm, lora=lora, cache_salt=salt)
        for lora, salt in keys
    ]

    for left, right in combinations(chains, 2):
        assert not set(left) & set(right)


@ALGORITHMS
def test_tokens_cannot_move_between_blocks(algorithm: HashAlgorithm) -> None:
    """Lists that read the same when written one after the other differ in hash."""
    prompts = [[1, 23], [12, 3], [123, 0], [1, 2], [2, 1], [0, 0], [0, 256], [1, 0]]

    hashes = {chain(prompt, algorithm)[0] for prompt in prompts}

    assert len(hashes) == len(prompts)


@ALGORITHMS
def test_block_sizes_do_not_mix(algorithm: HashAlgorithm) -> None:
    """The same tokens cut into other blocks give other hashes."""
    small = chain([1, 2, 3], algorithm, block_size=1)
    large = chain([1, 2, 3], algorithm, block_size=3)
    pair = chain([1, 2], algorithm, block_size=2)

    assert len({*small, *large, *pair}) == 5


@ALGORITHMS
def test_negative_and_large_ids_are_hashed_whole(algorithm: HashAlgorithm) -> None:
    """Ids that agree in their low bytes only have different hashes."""
    ids = [1, 1 + 2**8, 1 + 2**16, 1 + 2**32, -1]

    assert len({chain([token], algorithm, block_size=1)[0] for token in ids}) == 5


def test_algorithms_differ() -> None:
    """The two algorithms give different hashes for the same tokens."""
    hashes = {chain([1, 2], algorithm)[0] for algorithm in HashAlgorithm}

    assert len(hashes) == len(HashAlgorithm)
