"""Learning rate and prompts per update of every method of the field: ``python -m research.studies.field.tune``.

From the committed model, on a seed that the comparison does not use. A run ends at a budget of generated tokens, and
its level is the mean of the last three evaluations; of those that cannot be told from the highest the quickest is
taken, since tokens and seconds are both compared. A study that was killed goes on where it was. Writes
``docs/studies/cost_benefit/tuning.jsonl``.
"""

from __future__ import annotations

from research.studies.field.setting import RESULTS, field_run, prepare
from research.studies.methods import Settings
from research.studies.runs import StudyRun
from research.studies.tuning import Tuning

GRIDS = {
    "grpo_n4": ((1e-4, 4), (1e-4, 8), (1e-4, 16), (3e-5, 1), (3e-5, 2), (3e-5, 4), (3e-5, 8), (1e-5, 2)),
    "grpo_n4_4_updates": ((1e-4, 8), (1e-4, 16), (1e-4, 32), (3e-5, 1), (3e-5, 2), (3e-5, 4)),
    "grpo_n8": ((1e-4, 4), (1e-4, 8), (1e-4, 16), (3e-5, 1), (3e-5, 2), (3e-5, 4), (3e-5, 8)),
    "grpo_n16": ((1e-4, 4), (1e-4, 8), (1e-4, 16), (3e-5, 4)),
    "dapo_refill": ((1e-4, 4), (1e-4, 8), (3e-5, 2), (3e-5, 4), (3e-5, 8)),
    "speed_rl": ((1e-4, 4), (1e-4, 8), (3e-5, 2), (3e-5, 4)),
    **dict.fromkeys(
        ("ada_seq_balance", "ada_seq_balance_official"),
        ((1e-4, 2), (1e-4, 4), (1e-4, 8), (1e-4, 16), (3e-5, 1), (3e-5, 2), (3e-5, 4), (3e-5, 8)),
    ),
    "ada": ((1e-4, 4), (1e-4, 8), (1e-4, 16), (3e-5, 2), (3e-5, 4), (3e-5, 8)),
    "ada_4_updates": ((1e-4, 8), (1e-4, 16), (1e-4, 32), (3e-5, 2), (3e-5, 4)),
    "ada_n1": ((1e-4, 16), (1e-4, 32), (1e-4, 64), (3e-5, 16), (3e-5, 32)),
    "ada_n1_4_updates": ((1e-4, 16), (1e-4, 32), (1e-4, 64), (3e-5, 16)),
}
SEED = 101


def tuning_run(method: str, settings: Settings) -> StudyRun:
    """Return a run of a grid."""
    return field_run("tuning", method, settings, seed=SEED, max_tokens=240_000, points=6)


TUNING = Tuning(
    RESULTS / "tuning.jsonl",
    "python -m research.studies.field.tune",
    {method: [Settings(*each) for each in grid] for method, grid in GRIDS.items()},
    tuning_run,
    # Standard deviation of the difference between two runs' levels: sqrt(2) times the residual one, 0.011, of the 39
    # runs from the first model about the means of methods and seeds (tests/unit/research/studies/test_field.py).
    noise=0.015,
    prepare=prepare,
)

if __name__ == "__main__":
    TUNING.main(str(__doc__))
