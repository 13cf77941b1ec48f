"""Pilot-Commit: a pilot for every candidate, the rest of the budget for those with spread rewards (arXiv:2605.26606).

Claim: group methods learn most where rewards vary, so a pilot that measures it pays. Assumption: the pilot's pass rate
is close to what a full group would find. Degenerate case: pilots that are all skipped or deferred leave a step without
an update; the pilots are paid for all the same.
"""

from __future__ import annotations

from ada_lightning.core.stopping.pilot import PilotRule
from ada_lightning.methods.sampling.pilot import PilotSampler


class PilotCommitSampler(PilotSampler):
    """``num_pilot`` responses; ``num_commit`` more where their pass rate lies in ``[min_rate, max_rate]``.

    Below, the prompt is too hard for now and *deferred*: it comes back when its turn comes, as in the authors' code,
    where it simply waits for the next epoch. Above, it is *skipped*. Neither trains (``selection=resolved``). Whether
    mastered prompts come back is a matter of the curriculum, which sees the pilots through the estimator: their code
    evicts prompts whose pilot was all right, ``curriculum=difficulty_band`` with ``low=0`` lets them come last.

    The candidates are the step's prompts: the authors draw three times as many as they train on, until enough passed,
    and keep what passed too much for up to four later steps. Here a step trains on what passed, on-policy.

    Args:
        num_pilot: responses that decide.
        num_commit: further responses of a prompt that passes.
        min_rate: lowest pass rate of the pilot that passes.
        max_rate: highest.
        group_size: most responses kept for the update; both together where all of them train.

    Raises:
        ValueError: a size out of range, or a band that no pilot can hit; all in one message.

    Source:
        Kim et al., arXiv:2605.26606; authors' code ``recipe/pc/pc_ray_trainer.py`` (``filter_batch``, whose thresholds
        are inclusive) and ``train_scripts/pc_qwen3-4b_p16c48.sh`` at 8ca7605.

    Example:
        >>> sampler = PilotCommitSampler(num_pilot=4, num_commit=12, min_rate=0.125, max_rate=0.75, group_size=16)
        >>> sampler.rule.totals
        (4, 16, 16, 16, 4)
    """

    def __init__(self, *, num_pilot: int, num_commit: int, min_rate: float, max_rate: float, group_size: int) -> None:
        sizes = {"num_pilot": num_pilot, "num_commit": num_commit}
        errors = [f"{name} must be at least 1; got {value}" for name, value in sizes.items() if value < 1]
        if not 0 <= min_rate <= max_rate <= 1:
            errors.append(
                f"min_rate and max_rate must be 0 <= min_rate <= max_rate <= 1; got {min_rate} and {max_rate}"
            )
        rule = PilotRule((0,))
        if not errors:
            passes = [min_rate <= positives / num_pilot <= max_rate for positives in range(num_pilot + 1)]
            rule = PilotRule(tuple(num_pilot + num_commit * passed for passed in passes), is_screen=True)
            if not any(passes):
                errors.append(
                    f"no pilot of {num_pilot} has a pass rate in [{min_rate}, {max_rate}]; widen the band or use a "
                    "larger num_pilot"
                )
        super().__init__(rule, n_max=num_pilot + num_commit, group_size=group_size, errors=errors)
