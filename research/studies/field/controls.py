"""Is it the choice, and does it outlast a falling rate? ``python -m research.studies.field.controls``.

Three controls of ``python -m research.studies.field.fresh``, on its problems and with its settings, five seeds each:

- ``decay``: the learning rate falls linearly to 0 over the budget, for everyone, and the average of the weights is
  evaluated too. A constant rate leaves a floor of noise at the end of a run, which methods with less noise stand above.
- ``blind``: what a prompt's words tell is that of another prompt, so that all parts work and nothing is known. A gain
  that is left comes from something else than choosing well.
- ``few_updates``: 256 responses per update at a low rate. Where the number of updates limits a run and not the noise of
  each, less noise should gain little: a factor near 1.

Writes ``docs/studies/cost_benefit/controls.jsonl``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType

from research.studies.contest import Contest, main
from research.studies.curves import TOKENS
from research.studies.field.fresh import MAX_TOKENS, PROBLEMS, prepare_fresh
from research.studies.field.setting import FLOAT32, NUM_SEEDS, RESULTS, field_run, second_seeds
from research.studies.field.tune import TUNING
from research.studies.methods import Settings
from research.studies.runs import ROOT, StudyRun

GRPO, CHOSEN = "grpo_n4_4_updates", "grpo_chosen_4_updates"
THINNED = "ada_similar_thinned_4_updates"
DECAY = dict.fromkeys((GRPO, CHOSEN, THINNED), ("optimizer/schedule=linear", "callbacks.weight_average.decay=0.95"))
BLIND = {CHOSEN: ("estimator.embedding._target_=research.studies.field.shuffled_words.ShuffledWords",)}
FEW_UPDATES = Settings(lr=1e-4, prompts=64)


def control_runs(
    name: str, methods: Sequence[str], more: Mapping[str, Sequence[str]], settings: Settings | None, num_seeds: int
) -> dict[str, list[StudyRun]]:
    """Return the runs of a control, by method."""
    problems = f"data.source.path={PROBLEMS.relative_to(ROOT)}"
    return {
        method: [
            field_run(
                f"controls/{name}",
                method,
                settings or TUNING.tuned(method),
                seed=seed,
                max_tokens=MAX_TOKENS,
                points=6,
                more=(problems, FLOAT32, *more.get(method, ())),
                prefix=f"{name}-",
            )
            for seed in second_seeds(num_seeds)
        ]
        for method in methods
    }


def contest(
    name: str,
    methods: Sequence[str],
    more: Mapping[str, Sequence[str]] = MappingProxyType({}),
    settings: Settings | None = None,
    base: str = GRPO,
) -> Contest:
    """Return a control; its file is that of all."""
    runs = partial(control_runs, name, methods, more, settings)
    return Contest(name, RESULTS / "controls.jsonl", runs, NUM_SEEDS, comparator={TOKENS: base, "trained_tokens": base})


CONTESTS = [
    contest("decay", tuple(DECAY), DECAY),
    contest("blind", (GRPO, CHOSEN), BLIND),
    contest("few_updates", ("grpo_n4", "grpo_chosen"), settings=FEW_UPDATES, base="grpo_n4"),
]

if __name__ == "__main__":
    main(str(__doc__), CONTESTS, prepare=prepare_fresh)
