"""Consecutive items, of a text or of a file, in blocks of about the same size."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")


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
