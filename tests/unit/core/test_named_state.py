"""What a checkpoint holds of a part goes to a part of the same class and to no other."""

from __future__ import annotations

import itertools

import pytest

from ada_lightning.core.named_state import load_named_state, named_state
from ada_lightning.core.protocols import PassRateEstimator, Sampler
from ada_lightning.methods.estimators import BetaHistory, EmaEstimator, ValueNetworkEstimator, WindowEstimator
from ada_lightning.methods.published.coba import CobaSampler
from ada_lightning.methods.published.cppo import LargestAdvantageBatchSelection
from ada_lightning.methods.published.greso import GresoCurriculum
from ada_lightning.methods.published.pruning import PruningSampler
from ada_lightning.methods.published.rollout_bandits import BanditSelection
from ada_lightning.methods.sampling import BalanceSampler, UniformSampler
from tests.builders import make_pool

POOLS = [make_pool([1.0, 1.0, 1.0, 0.0], key=1), make_pool([0.0, 0.0], key=2)]


ESTIMATORS = {"beta": BetaHistory, "ema": EmaEstimator, "window": WindowEstimator}
SAMPLERS = {
    "uniform": lambda: UniformSampler(group_size=4),
    "balance": lambda: BalanceSampler(k_pos=1, k_neg=1, samples_per_round=2, n_max=8, group_size=2),
    "coba": lambda: CobaSampler(responses_per_prompt=4, n_min=2, n_max=8, group_size=8),
    "pruning": lambda: PruningSampler(group_size=4, rate=0.5),
}
SELECTIONS = {
    "bandit": lambda: BanditSelection(group_size=2),
    "largest": lambda: LargestAdvantageBatchSelection(rate=0.5, normalize_std=True),
}
REFUSED = [
    *(("estimator", *kinds) for kinds in itertools.permutations(ESTIMATORS.values(), 2)),
    *(("sampler", SAMPLERS[old], make) for old in ("coba", "pruning") for new, make in SAMPLERS.items() if old != new),
    ("selection", SELECTIONS["bandit"], SELECTIONS["largest"]),
]


def having_learned(make):
    part = make()
    if isinstance(part, PassRateEstimator):
        part.update(POOLS)
    elif isinstance(part, Sampler):
        part.learn(POOLS)
    return part


@pytest.mark.parametrize(("setting", "old", "new"), REFUSED)
def test_what_one_part_remembers_is_not_read_by_another(setting, old, new):
    saved = named_state(having_learned(old))
    match = f"{setting}: .* {saved['_class']} remembers, and .*continue with {setting} as the run was started"
    with pytest.raises(ValueError, match=match):
        load_named_state(new(), saved, setting=setting)


@pytest.mark.parametrize("new", SAMPLERS)
@pytest.mark.parametrize("old", ["uniform", "balance"])
def test_samplers_that_remember_nothing_may_be_exchanged_for_any(old, new):
    sampler = SAMPLERS[new]()
    load_named_state(sampler, named_state(having_learned(SAMPLERS[old])), setting="sampler")
    assert sampler.state_dict() == SAMPLERS[new]().state_dict()


@pytest.mark.parametrize(
    "make", [*ESTIMATORS.values(), ValueNetworkEstimator, *SAMPLERS.values(), SELECTIONS["bandit"], GresoCurriculum]
)
def test_a_part_reads_its_own_state(make):
    part = make() if make is ValueNetworkEstimator else having_learned(make)
    restored = make()
    load_named_state(restored, named_state(part), setting="part")
    assert str(restored.state_dict()) == str(part.state_dict())


@pytest.mark.parametrize("make", [ValueNetworkEstimator, SAMPLERS["coba"], SELECTIONS["bandit"], BetaHistory])
def test_a_part_that_was_not_there_before_begins_as_in_a_new_run(make):
    part = make()
    load_named_state(part, {}, setting="part")
    assert str(part.state_dict()) == str(make().state_dict())
