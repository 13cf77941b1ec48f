"""A curriculum chooses by what the run remembers, and that must outlive a kill: with real trainer and checkpoints."""

from __future__ import annotations

import json
from itertools import count

import pytest
import torch

from ada_lightning.adapters.json_state import to_json
from ada_lightning.core.method import Method
from ada_lightning.core.records import SamplingSettings
from ada_lightning.data import dataset
from ada_lightning.data.datamodule import RolloutDataModule
from ada_lightning.data.dataset import DatasetSource
from ada_lightning.data.encoded_table import EncodedTable
from ada_lightning.data.encoder import PromptEncoder
from ada_lightning.data.formats import PlainFormat
from ada_lightning.methods.advantages import ExactAdvantage
from ada_lightning.methods.curriculum import (
    AutoCurriculum,
    DifficultyBand,
    Learnability,
    PosteriorSampling,
    UniformCurriculum,
)
from ada_lightning.methods.estimators import BetaHistory, EmaEstimator, ValueNetworkEstimator
from ada_lightning.methods.objectives import LogObjective
from ada_lightning.methods.published.prompt_replay import PromptReplay
from ada_lightning.methods.published.recycling import RetiredCurriculum
from ada_lightning.methods.published.spo import WeightedDraw
from ada_lightning.methods.sampling import BalanceSampler, UniformSampler
from ada_lightning.methods.selection import BalancedSelection
from ada_lightning.rollout.service import RolloutService
from ada_lightning.training.losses import ClippedPolicyLoss, ConstantReduction
from research.scripted import ScriptedEngine
from tests.unit.methods.curriculum.histories import ids, prompts
from tests.unit.scripted_run import Interrupting, NumberTokenizer, Policy, train

pytestmark = pytest.mark.filterwarnings("ignore")

NUM_PROMPTS = 24
PASS_RATES = {index: index / (NUM_PROMPTS - 1) for index in range(NUM_PROMPTS)}


class PolicyOfOneWeight(Policy):
    def training_step(self, batch, batch_idx):
        optimizer = self.optimizers()
        self.model(torch.ones(1, 1)).sum().backward()
        self._update(optimizer, torch.tensor(0.0), torch.tensor(1.0), is_empty=False)


class Steps(Interrupting):
    """Keeps each step's prompts and figures."""

    def __init__(self, *interrupts):
        super().__init__(*interrupts)
        self.chosen, self.figures = {}, []

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        step = pl_module.policy_version // trainer.datamodule.num_minibatches
        chosen = ids(trainer.datamodule.step_prompts(step))
        assert self.chosen.setdefault(step, chosen) == chosen
        super().on_train_batch_start(trainer, pl_module, batch, batch_idx)

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        self.figures.append({name: float(value) for name, value in trainer.callback_metrics.items()})
        super().on_train_batch_end(trainer, pl_module, outputs, batch, batch_idx)


def fit(
    folder, curriculum, *, estimator=None, num_minibatches=1, every_n_steps=1, interrupt_after=-1,
    interrupt_in_update=-1, resume=False, listed=None,
):  # fmt: skip
    policy = PolicyOfOneWeight(
        folder, advantage=ExactAdvantage(objective=LogObjective()),
        loss=ClippedPolicyLoss(reduction=ConstantReduction(token_scale=4)),
    )  # fmt: skip
    service = RolloutService(
        engine=lambda **options: ScriptedEngine(pass_rates=PASS_RATES), max_model_tokens=64, seed=0,
        sampling=SamplingSettings(max_new_tokens=4),
    )  # fmt: skip
    method = Method(
        estimator=estimator or BetaHistory(),
        sampler=UniformSampler()
        if isinstance(curriculum, AutoCurriculum)
        else BalanceSampler(k_pos=1, k_neg=1, samples_per_round=4, n_max=8, group_size=2),
        selection=BalancedSelection(group_size=2),
    )
    steps = Steps(interrupt_after, interrupt_in_update)
    train(
        folder, policy, method, service, steps, every_n_steps=every_n_steps, resume=resume, num_prompts=NUM_PROMPTS,
        prompts_per_step=4, num_steps=8, num_minibatches=num_minibatches, curriculum=curriculum, listed=listed,
    )  # fmt: skip
    return steps


@pytest.fixture
def table(tmp_path, monkeypatch):
    """Make a table of the prompts, as of a large data set, of which some are too long; each call begins anew."""
    monkeypatch.setenv("ADA_LIGHTNING_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(dataset, "LARGE", 2)
    rows = [json.dumps({"question": str(index), "answer": "1"}) for index in range(NUM_PROMPTS)]
    (tmp_path / "rows.jsonl").write_text("\n".join(rows))

    def made(too_long=()):
        stored = DatasetSource(tmp_path / "rows.jsonl", num_heldout=0, seed=0).train_prompts()
        encoder = PromptEncoder(NumberTokenizer(too_long), max_prompt_tokens=8, prompt_format=PlainFormat())
        file = tmp_path / "cache" / f"checked-{next(number)}.npy"
        return EncodedTable(stored, encoder, file=file)

    number = count()
    return made


CURRICULA = {
    "uniform": UniformCurriculum,
    "band": DifficultyBand,
    "posterior": lambda: PosteriorSampling(usefulness=Learnability()),
    "replay": lambda: PromptReplay(cooldown=1),
    "retired": RetiredCurriculum,
    "auto": lambda: AutoCurriculum(usefulness=Learnability(), cost_ratio=1.0),
}


@pytest.mark.thinned(4)
@pytest.mark.parametrize(("num_minibatches", "interrupt_after"), [(1, 5), (2, 9)], ids=["after a step", "within one"])
@pytest.mark.parametrize("name", CURRICULA)
def test_a_killed_run_goes_on_with_the_prompts_of_one_that_never_stopped(
    name, num_minibatches, interrupt_after, tmp_path
):
    """Of a step with two updates the second is made of a rollout drawn anew, of the prompts of the first."""
    options = {"num_minibatches": num_minibatches}
    whole = fit(tmp_path / "whole", CURRICULA[name](), **options).chosen
    before = fit(tmp_path / "parts", CURRICULA[name](), interrupt_after=interrupt_after, **options).chosen
    after = fit(tmp_path / "parts", CURRICULA[name](), resume=True, **options).chosen
    assert list(before) == list(range(5))
    assert list(after) == list(range(interrupt_after // num_minibatches, 8))
    assert before | after == whole
    assert all(len(set(chosen)) == 4 for chosen in whole.values())


OF_TABLES = {name: CURRICULA[name] for name in ("uniform", "band", "replay")} | {"weighted": WeightedDraw}


@pytest.mark.thinned(2)
@pytest.mark.parametrize("name", OF_TABLES)
def test_a_table_of_stored_prompts_gives_the_steps_that_a_list_gives(name, table, tmp_path):
    listed = list(table())
    of_list = fit(tmp_path / "list", OF_TABLES[name](), listed=listed).chosen
    assert fit(tmp_path / "table", OF_TABLES[name](), listed=table()).chosen == of_list


@pytest.mark.thinned(2)
@pytest.mark.parametrize("name", OF_TABLES)
def test_a_killed_run_on_stored_prompts_goes_on_like_one_that_never_stopped(name, table, tmp_path):
    """Some of its prompts cannot be used, and after the start nothing is known of them."""
    too_long = set(range(0, NUM_PROMPTS, 3))
    whole = fit(tmp_path / "whole", OF_TABLES[name](), listed=table(too_long)).chosen
    before = fit(tmp_path / "parts", OF_TABLES[name](), interrupt_after=5, listed=table(too_long)).chosen
    after = fit(tmp_path / "parts", OF_TABLES[name](), resume=True, listed=table(too_long)).chosen
    assert list(after) == [5, 6, 7]
    assert before | after == whole
    unusable = {prompt.prompt_id for index, prompt in enumerate(table()) if index in too_long}
    assert unusable.isdisjoint(id_ for chosen in whole.values() for id_ in chosen)
    assert all(len(set(chosen)) == 4 for chosen in whole.values())


@pytest.mark.parametrize(("num_minibatches", "interrupt_in"), [(1, "update"), (2, "update"), (2, "second update")])
def test_a_step_that_was_stopped_half_way_counts_once(num_minibatches, interrupt_in, tmp_path):
    """Its rollout is drawn anew, from what was believed before it: here, where a policy changes nothing, the same."""
    options = {"num_minibatches": num_minibatches, "every_n_steps": 3}
    whole, stopped, resumed = BetaHistory(), BetaHistory(), BetaHistory()
    steps = fit(tmp_path / "whole", DifficultyBand(), estimator=whole, **options)
    in_update = 4 * num_minibatches + (interrupt_in == "second update")
    before = fit(tmp_path / "parts", DifficultyBand(), estimator=stopped, interrupt_in_update=in_update, **options)
    after = fit(tmp_path / "parts", DifficultyBand(), estimator=resumed, resume=True, **options)
    assert list(before.chosen) == [0, 1, 2, 3, 4]
    assert list(after.chosen) == [4, 5, 6, 7]
    assert before.chosen | after.chosen == steps.chosen
    assert to_json(resumed.state_dict()) == to_json(whole.state_dict())


def test_a_run_does_not_go_on_with_the_counts_of_another_estimator(tmp_path):
    """One counts (positives, negatives), the other (positives, responses): a mean of 1.09 would come of it."""
    fit(tmp_path, UniformCurriculum(), estimator=BetaHistory(), interrupt_after=3)
    with pytest.raises(ValueError, match=r"estimator: .*BetaHistory remembers, and EmaEstimator cannot read it"):
        fit(tmp_path, UniformCurriculum(), estimator=EmaEstimator(), resume=True)
    assert list(fit(tmp_path, UniformCurriculum(), estimator=BetaHistory(), resume=True).chosen) == [3, 4, 5, 6, 7]


def test_figures_of_the_chosen_prompts_are_logged_as_they_were_before_the_rollout(tmp_path):
    figures = fit(tmp_path, DifficultyBand(), estimator=EmaEstimator(alpha=1.0, beta=1.0)).figures
    assert figures[0]["curriculum/share_unseen"] == 1.0
    assert figures[0]["curriculum/mean_belief"] == 0.5
    assert figures[0]["curriculum/share_in_band"] == 0.0
    assert figures[-1]["curriculum/share_unseen"] < 1.0
    assert figures[-1]["curriculum/share_in_band"] > 0.0


def test_an_estimator_that_keeps_nothing_by_prompt_goes_with_uniform_only(tmp_path, monkeypatch):
    monkeypatch.setattr(PolicyOfOneWeight, "represent", lambda self, prompts: torch.ones(len(prompts), 2))
    steps = fit(tmp_path / "uniform", UniformCurriculum(), estimator=ValueNetworkEstimator())
    assert not any(name.startswith("curriculum/") for name in steps.figures[-1])
    with pytest.raises(RuntimeError, match=r"DifficultyBand chooses by .* estimator=beta_history .*curriculum=uniform"):
        fit(tmp_path / "band", DifficultyBand(), estimator=ValueNetworkEstimator())


def test_a_step_under_way_needs_its_prompts():
    options = {"source": None, "prompts_per_step": 4, "max_prompt_tokens": 8, "num_steps": 8, "seed": 0}
    data = RolloutDataModule(**options, curriculum=DifficultyBand())
    data.train_prompts = prompts(3)
    state = {"num_updates_done": 2, "num_minibatches": 1, "epochs_per_rollout": 1}
    with pytest.raises(ValueError, match=r"step 2 .* 2 prompts that are not among .* \(p7, for one\); continue with"):
        data.load_state_dict(
            {**state, "chosen": {"step": 2, "prompt_ids": ["p1", "p7", "p2", "p9"], "next_stretch": 3}}
        )
    data.load_state_dict({**state, "chosen": {"step": 1, "prompt_ids": ["p7"], "next_stretch": 2}})  # that step is done
    data.load_state_dict({**state, "chosen": {"step": 2, "prompt_ids": ["p2", "p0", "p1", "p2"], "next_stretch": 3}})
    assert ids(data.step_prompts(2)) == ["p2", "p0", "p1", "p2"]
