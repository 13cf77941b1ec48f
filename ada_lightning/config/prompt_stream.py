"""Checks what goes with prompts that come from a stream, each once."""

from __future__ import annotations

from collections.abc import Iterator

from ada_lightning.config.view import ConfigView
from ada_lightning.core.protocols import Curriculum, FollowUp, PassRateEstimator, Trait
from ada_lightning.data.datamodule import needs_all_prompts
from ada_lightning.data.streaming import StreamingSource
from ada_lightning.methods.advantages.history import HistoryAdvantage
from ada_lightning.methods.sampling import FirstVisitSampler
from ada_lightning.methods.sampling.planned import OneShotSampler
from ada_lightning.methods.selection import SeenSelection
from ada_lightning.methods.view import ADVANTAGES, SELECTIONS


def stream_errors(run: ConfigView) -> Iterator[str]:
    """Yield one message per problem; none where the prompts do not come from a stream."""
    if not run.is_a("data.source", StreamingSource):
        return
    curriculum, hints = run.part("curriculum"), run.part("hints")
    if isinstance(curriculum, Curriculum) and curriculum.num_candidates(1) is None:
        yield needs_all_prompts(type(curriculum).__name__)
    if isinstance(hints, FollowUp) and hints.is_on:
        yield (
            f"hints: {run.name('hints')} looks at the solutions of all training prompts before the run begins, and a "
            "stream has no list of them. Use hints=none"
        )
    if (file := run.value("estimator.history_file")) is not None:
        yield (
            f"estimator.history_file = {file} knows prompts of a list, and those of a stream are new. Use "
            "estimator.history_file=null"
        )
    yield from _visit_errors(run)


def _visit_errors(run: ConfigView) -> Iterator[str]:
    """What goes by earlier visits of the same prompt finds none."""
    for key, part in (("sampler", FirstVisitSampler), *((key, SeenSelection) for key in SELECTIONS)):
        if run.is_a(key, part):
            yield (
                f"{key}: {part.__name__} tells a prompt's first visit from later ones, and a stream gives every prompt "
                f"once. Use another {key}"
            )
    estimator, curriculum = run.part("estimator"), run.part("curriculum")
    if not isinstance(estimator, PassRateEstimator) or not estimator.remembers_prompts:
        return
    if Trait.SHARES_EVIDENCE in estimator.traits:
        return
    goes_by_history = {
        "curriculum": isinstance(curriculum, Curriculum) and curriculum.needs_history,
        "sampler": run.is_a("sampler", OneShotSampler),
        **{key: run.is_a(key, HistoryAdvantage) for key in ADVANTAGES},
    }
    for key in (key for key, goes in goes_by_history.items() if goes):
        yield (
            f"{key}: {run.name(key)} goes by what is known of a prompt, but {run.name('estimator')} knows it by its "
            "own earlier visits, and a stream gives every prompt once. Use estimator=similar_prompts, which knows it "
            "by prompts like it"
        )
