"""SPEED-RL: screen every prompt with a few responses, go on only where they differ (arXiv:2506.09016, withdrawn at v3).

Claim: a gradient estimate's signal-to-noise ratio is at most 4 N p (1-p), so prompts near 0 and 1 are not worth their
responses. Assumption: rewards are binary, and N responses are the same number for all that go on. Degenerate case: a
prompt whose screening responses agree trains nothing in this step, even one with a pass rate of 1/2.
"""

from __future__ import annotations

from ada_lightning.core.stopping.pilot import PilotRule
from ada_lightning.methods.sampling.pilot import PilotSampler


class SpeedSampler(PilotSampler):
    """``num_screen`` responses, and ``num_continue`` more for a prompt with a right and a wrong one among them.

    The authors put the screening of the next batch and the continuation of this one into one call of the engine,
    because their calls wait for the slowest response. Here both share one session of the engine anyway: a prompt goes
    on when its own screening is graded. So nothing waits in a buffer for a later step, and every response is
    on-policy. A step has the prompts that passed, not always the same number of them.

    Args:
        num_screen: responses that decide.
        num_continue: further responses where they differ.
        group_size: most responses kept for the update; both together where all of them train.

    Raises:
        ValueError: a size out of range; all in one message.

    Source:
        Zhang et al., arXiv:2506.09016; authors' code ``verl/trainer/ppo/data_controller.py``.

    Example:
        >>> SpeedSampler(num_screen=4, num_continue=20, group_size=24).rule.totals
        (4, 24, 24, 24, 4)
    """

    def __init__(self, *, num_screen: int, num_continue: int, group_size: int) -> None:
        errors = []
        if num_screen < 2:
            errors.append(f"num_screen must be at least 2: a single response never differs; got {num_screen}")
        if num_continue < 1:
            errors.append(f"num_continue must be at least 1; got {num_continue}")
        rule = PilotRule((0,))
        if not errors:
            total = num_screen + num_continue
            rule = PilotRule((num_screen, *[total] * (num_screen - 1), num_screen), is_screen=True)
        super().__init__(rule, n_max=num_screen + num_continue, group_size=group_size, errors=errors)
