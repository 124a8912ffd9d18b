"""Consecutive items, of a text or of a file, in blocks of about the same size."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

Item = TypeVar("Item")


def num_positions(text: list[list[Any]]) -> int:
    """The tokens of a text, a list of sentences, and their boundaries; at least 2."""
    return sum(len(sentence) + 2 for sentence in text or [[]])


def in_blocks(
    items: Iterable[Item], size_of: Callable[[Item], int], limit: int
) -> Iterator[list[Item]]:
    """Lists of items, each up to the item with which their sizes reach the limit."""
    block, size = [], 0
    for item in items:
        block.append(item)
        size += size_of(item)
        if size >= limit:
            yield block
            block, size = [], 0
    if block:
        yield block
