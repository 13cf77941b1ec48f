"""Figures of a rollout for TRL's log."""

from __future__ import annotations

from ada_lightning.adapters.pools import Pools
from ada_lightning.analysis.metrics.rollout import EstimatorCalibration


def figures_of(pools: Pools) -> dict[str, float]:
    """Return what the trainer logs of a complete step.

    Args:
        pools: of all prompts of the step, over all processes.

    Returns:
        ``ada/responses`` and ``ada/tokens`` drawn. ``ada/hinted``: responses with a hint among them, if any; they are
        in none of the other figures. ``ada/reward``: mean reward. ``ada/signal``: share of prompts of which something
        trains. ``ada/rank_correlation``: Spearman's, in [-1, 1], of the pass rates that were expected before the step
        with those of the first responses. It is a run's ``estimator/rank_correlation``, and is left out where either
        side does not vary.
    """
    drawn = pools.pools_drawn()
    bare = [pool for pool in drawn if not pool.hint]
    stats, responses = pools.step.stats, [response for pool in bare for response in pool.responses]
    calibration = EstimatorCalibration(sync_on_compute=False)  # every process is told of all responses
    calibration.update(bare)
    correlation = calibration.compute().get("estimator/rank_correlation")
    return {
        "ada/responses": float(stats.num_drawn),
        "ada/tokens": float(stats.drawn_tokens),
        "ada/reward": sum(response.reward for response in responses) / max(len(responses), 1),
        "ada/signal": sum(bool(pool.kept()) for pool in pools if not pool.hint) / max(len(bare), 1),
        **({"ada/hinted": float(stats.num_hinted)} if stats.num_hinted else {}),
        **({} if correlation is None else {"ada/rank_correlation": float(correlation)}),
    }
