"""The weight that gives a kept response the share its class had in the pool."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from operator import attrgetter

from ada_lightning.core.records import KeptResponse, Response, ResponsePool


def by_label(pool: ResponsePool) -> tuple[list[Response], list[Response]]:
    """Return the positives that may train and the negatives, each in launch order."""
    responses = pool.trainable()
    return [each for each in responses if each.is_positive], [each for each in responses if not each.is_positive]


def with_selection_weights(
    pool: ResponsePool,
    kept: Sequence[Response],
    class_of: Callable[[Response], Hashable] = attrgetter("is_positive"),
) -> tuple[KeptResponse, ...]:
    """Attach ``N_s / m_s`` to each kept response of class s.

    Sums over the kept responses with these weights have the pool's shares of the classes, whatever was kept, as long as
    something was kept of every class. All responses of the pool count, also those that may not train.
    """
    if len(kept) == len(pool.responses) + len(pool.short):
        return tuple([KeptResponse(response, 1.0) for response in kept])
    num_sampled = Counter(map(class_of, [*pool.responses, *pool.short]))
    classes = [class_of(response) for response in kept]
    weight_of = {each: num_sampled[each] / number for each, number in Counter(classes).items()}
    return tuple(KeptResponse(response, weight_of[each]) for response, each in zip(kept, classes, strict=True))
