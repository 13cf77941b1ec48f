"""What a log of any format may lack."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ada_lightning.audit.groups import Gathered
from ada_lightning.audit.history import Visit
from ada_lightning.audit.intervals import MIN_PROMPTS
from ada_lightning.audit.records import Hole, Order, Sampling

FEW_RESPONSES = 8
FEW_PROMPTS = 200


def general_holes(gathered: Gathered, returning: Sequence[Visit], num_signal: int, order: Order) -> list[Hole]:
    """Return the holes of a log that its format does not imply."""
    groups = gathered.groups
    tests: list[tuple[Callable[[], bool], Hole]] = [
        (
            lambda: num_signal < MIN_PROMPTS,
            Hole(
                f"only {num_signal} prompts with a signal",
                f"with fewer than {MIN_PROMPTS} there are figures and no intervals",
                f"{FEW_PROMPTS} prompts in each of 3 steps or more",
            ),
        ),
        (
            lambda: gathered.knows_prompts and not returning,
            Hole(
                "prompts that come back",
                "no prompt was seen twice: nothing is said of drift or of what history foretells",
                "log a second epoch, or more steps of fewer prompts",
            ),
        ),
        (
            lambda: not gathered.tells_gradient,
            Hole(
                "several responses a prompt",
                "what gave no gradient cannot be told, and of pass rates only the mean is known",
                f"{FEW_RESPONSES} responses a prompt while recording",
            ),
        ),
        (
            lambda: max(group.positives + group.negatives for group in groups) < FEW_RESPONSES,
            Hole(
                f"groups of {FEW_RESPONSES} or more",
                "rules that draw more are extrapolated, and hard prompts look impossible",
                f"{FEW_RESPONSES} responses a prompt while recording, 16 if many prompts are hard",
            ),
        ),
        (
            lambda: order is Order.FINISH,
            Hole(
                "the order of launch",
                "responses stand in the order of finishing: where a step was cut by count, short ones are too many",
                "log every response that was started, or count in the order of launch",
            ),
        ),
        (
            lambda: gathered.sampling is Sampling.ADAPTIVE,
            Hole(
                "uniform sampling",
                "a rule that stopped by what it saw leaves responses that are not exchangeable: other rules are "
                "tried on the first block alone, or not at all, and pass rates by raw counts are biased",
                "the same number of responses for every prompt while recording",
            ),
        ),
    ]
    return [hole for test, hole in tests if test()]
