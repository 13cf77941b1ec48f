"""What a checkpoint holds of a part goes to a part of the same class and to no other."""

from __future__ import annotations

import itertools

import pytest

from ada_lightning.core.named_state import load_named_state, named_state
from ada_lightning.methods.curriculum import GresoCurriculum
from ada_lightning.methods.estimators import BetaHistory, EmaEstimator, ValueNetworkEstimator, WindowEstimator
from ada_lightning.methods.sampling import BalanceSampler, CobaSampler, PruningSampler, UniformSampler
from ada_lightning.methods.selection import BanditSelection, LargestAdvantageBatchSelection
from tests.builders import make_pool

POOLS = [make_pool([1.0, 1.0, 1.0, 0.0], key=1), make_pool([0.0, 0.0], key=2)]


def having_learned(make, learn):
    part = make()
    getattr(part, learn)(POOLS)
    return part


ESTIMATORS = {"beta": BetaHistory, "ema": EmaEstimator, "window": WindowEstimator}
SAMPLERS = {
    "uniform": lambda: UniformSampler(group_size=4),
    "balance": lambda: BalanceSampler(k_pos=1, k_neg=1, samples_per_round=2, n_max=8, group_size=2),
    "coba": lambda: CobaSampler(responses_per_prompt=4, n_min=2, n_max=8, group_size=8),
    "pruning": lambda: PruningSampler(sampler=UniformSampler(group_size=4), rate=0.5),
}


@pytest.mark.parametrize(("old", "new"), itertools.permutations(ESTIMATORS, 2))
def test_counts_of_one_estimator_are_not_read_by_another(old, new):
    saved = named_state(having_learned(ESTIMATORS[old], "update"))
    with pytest.raises(ValueError, match=f"{ESTIMATORS[old].__name__} remembers.*continue with estimator as the run"):
        load_named_state(ESTIMATORS[new](), saved, setting="estimator")


@pytest.mark.parametrize("new", SAMPLERS)
@pytest.mark.parametrize("old", ["coba", "pruning"])
def test_what_a_sampler_remembers_is_not_read_by_another(old, new):
    saved = named_state(having_learned(SAMPLERS[old], "learn"))
    if old == new:
        load_named_state(SAMPLERS[new](), saved, setting="sampler")
        return
    with pytest.raises(ValueError, match="continue with sampler as the run was started"):
        load_named_state(SAMPLERS[new](), saved, setting="sampler")


@pytest.mark.parametrize("new", SAMPLERS)
@pytest.mark.parametrize("old", ["uniform", "balance"])
def test_samplers_that_remember_nothing_may_be_exchanged_for_any(old, new):
    sampler = SAMPLERS[new]()
    load_named_state(sampler, named_state(having_learned(SAMPLERS[old], "learn")), setting="sampler")
    assert sampler.state_dict() == SAMPLERS[new]().state_dict()


def test_the_sampler_within_a_sampler_has_its_name_too():
    coba = PruningSampler(sampler=SAMPLERS["coba"](), rate=0.5)
    coba.learn(POOLS)
    with pytest.raises(ValueError, match=r"CobaSampler remembers.*continue with sampler\.sampler as"):
        SAMPLERS["pruning"]().load_state_dict(coba.state_dict())


def test_a_selection_has_its_name():
    saved = named_state(BanditSelection(group_size=2))
    with pytest.raises(ValueError, match="BanditSelection remembers"):
        load_named_state(LargestAdvantageBatchSelection(rate=0.5, normalize_std=True), saved, setting="selection")


@pytest.mark.parametrize(
    "make", [*ESTIMATORS.values(), ValueNetworkEstimator, *SAMPLERS.values(), lambda: BanditSelection(group_size=2),
             GresoCurriculum],
)  # fmt: skip
def test_a_state_without_a_name_is_one_of_an_older_checkpoint(make):
    part = make()
    if hasattr(part, "update") and not isinstance(part, ValueNetworkEstimator):
        part.update(POOLS)
    restored = make()
    load_named_state(restored, part.state_dict(), setting="part")
    assert str(restored.state_dict()) == str(part.state_dict())
