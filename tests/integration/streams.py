"""Rows of one's own, as a configuration names them."""

from __future__ import annotations


def sums(number):
    """So many sums, one after another."""
    for index in range(number):
        yield {"question": f"{index} + {index % 7} =", "answer": index + index % 7}
