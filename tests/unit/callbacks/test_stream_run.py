"""Whole runs on a stream of prompts: real trainer, data and checkpoints, scripted responses.

The chance of a right answer is a function of the weights that the engine was given, so a wrong version shows.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter

import pytest

from ada_lightning.core.method import Method
from ada_lightning.core.records import SamplingSettings
from ada_lightning.data.streaming import StreamingSource
from ada_lightning.methods.advantages import GroupNormalizedAdvantage
from ada_lightning.methods.curriculum import AutoCurriculum, ExpectedUsefulness, Learnability, UniformCurriculum
from ada_lightning.methods.estimators import BetaHistory, SimilarPrompts, WordEmbedding
from ada_lightning.methods.refill import DynamicSampling, NoRefill
from ada_lightning.methods.sampling import UniformSampler
from ada_lightning.methods.selection import AllSelection
from ada_lightning.rollout.service import RolloutService
from ada_lightning.training.losses import ClippedPolicyLoss, TokenMeanReduction
from tests.unit.callbacks.test_staleness_run import NUM_PROMPTS, Engine, MovingPolicy, Watch
from tests.unit.scripted_run import train

pytestmark = pytest.mark.filterwarnings("ignore")
PER_STEP, NUM_STEPS = 3, 6


class AlwaysNew(Engine):
    """As hard as one of the first prompts, however far the stream is."""

    def submit(self, request_id, prompt_ids, settings, seed):
        super().submit(request_id, [prompt_ids[0] % NUM_PROMPTS], settings, seed)


def rows_of_numbers(number=None):
    for index in itertools.count() if number is None else range(number):
        yield {"question": str(index), "answer": "1"}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows_of_numbers(200))))
    return path


def fit(
    folder, *, rows=None, path=None, k=0, curriculum=None, estimator=None, refill=None, num_minibatches=1, resume=False,
    num_steps=NUM_STEPS, **watching,
):  # fmt: skip
    policy = MovingPolicy(
        folder, lr=0.3, advantage=GroupNormalizedAdvantage(), loss=ClippedPolicyLoss(reduction=TokenMeanReduction()),
        checkpoint_path=folder / "checkpoints/last" if resume else None,
    )  # fmt: skip
    policy.pause = lambda: None
    service = RolloutService(
        engine=lambda **options: AlwaysNew(lambda prompt, is_positive: 1, lambda: None, max_num_seqs=6),
        max_model_tokens=64, seed=0, sampling=SamplingSettings(max_new_tokens=4), max_staleness=k,
    )  # fmt: skip
    method = Method(
        estimator=estimator or BetaHistory(), sampler=UniformSampler(group_size=2), selection=AllSelection(),
        refill=refill or NoRefill(),
    )  # fmt: skip
    watch = Watch(**watching)
    watch.trainer = train(
        folder, policy, method, service, watch, resume=resume, prompts_per_step=PER_STEP, num_steps=num_steps,
        num_minibatches=num_minibatches, curriculum=curriculum or UniformCurriculum(),
        source=StreamingSource(path, rows=rows, num_heldout=2, num_first=9, seed=0),
    )  # fmt: skip
    watch.policy = policy
    return watch


def by_similar(curriculum, **options):
    return lambda: {
        "curriculum": curriculum(usefulness=Learnability(), **options),
        "estimator": SimilarPrompts(embedding=WordEmbedding()),
    }


def prompts_of(run):
    return {step: [group.pool.prompt.prompt_id for group in result.groups] for step, result in run.results.items()}


METHODS = {
    "uniform": (0, 1, dict),
    "uniform, two updates": (0, 2, dict),
    "chosen, two updates": (0, 2, by_similar(ExpectedUsefulness)),
    "chosen, older policy": (2, 1, by_similar(ExpectedUsefulness)),
    "chosen, older policy, two updates": (1, 2, by_similar(ExpectedUsefulness)),
    "trial": (0, 1, by_similar(AutoCurriculum, cost_ratio=1.0)),
    "filled up": (0, 1, lambda: {"refill": DynamicSampling(max_ratio=3)}),
}


@pytest.mark.thinned(3)
@pytest.mark.parametrize("name", METHODS)
def test_a_killed_run_goes_on_like_one_that_never_stopped_bit_by_bit(name, tmp_path):
    """With a generator, whose rows are counted; killed after a step or between its two updates."""
    k, num_minibatches, method = METHODS[name]
    options = {"k": k, "num_minibatches": num_minibatches}
    whole = fit(tmp_path / "whole", rows=rows_of_numbers(), **options, **method())
    stopped = 3 if num_minibatches == 1 else 5
    before = fit(tmp_path / "parts", rows=rows_of_numbers(), interrupt_after=stopped, **options, **method())
    after = fit(tmp_path / "parts", rows=rows_of_numbers(), resume=True, **options, **method())
    assert list(after.results) == list(range(stopped // num_minibatches, NUM_STEPS))
    if (k, num_minibatches) == (0, 2):  # the rest of a step is drawn from the policy that there is then
        assert prompts_of(before) | prompts_of(after) == prompts_of(whole)
    else:
        assert before.outcome() | after.outcome() == whole.outcome()
        assert after.policy.weight_of.items() <= whole.policy.weight_of.items()
        assert max(after.policy.weight_of) == NUM_STEPS * num_minibatches
    visits = Counter(prompt_id for prompt_ids in prompts_of(whole).values() for prompt_id in prompt_ids)
    assert set(visits.values()) == {1}
    assert len(visits) >= PER_STEP * NUM_STEPS


def test_a_killed_run_on_a_file_that_datasets_reads_goes_on_at_the_next_row(file, tmp_path):
    method = by_similar(ExpectedUsefulness)
    whole = fit(tmp_path / "whole", path=file, **method())
    before = fit(tmp_path / "parts", path=file, interrupt_after=4, **method())
    after = fit(tmp_path / "parts", path=file, resume=True, **method())
    assert before.outcome() | after.outcome() == whole.outcome()
    ends = [run.trainer.datamodule for run in (after, whole)]
    assert ends[0].source.rows.num_taken == ends[1].source.rows.num_taken
    assert ends[0].report.as_dict() == ends[1].report.as_dict()


@pytest.mark.parametrize(("k", "num_minibatches"), [(0, 1), (0, 2), (2, 1)])
def test_a_run_ends_in_order_where_its_stream_does_and_its_resume_has_nothing_to_do(
    k, num_minibatches, tmp_path, capfd
):
    options = {"k": k, "num_minibatches": num_minibatches, "num_steps": 100}
    run = fit(tmp_path, rows=rows_of_numbers(16), **options)
    end = (
        "the stream rows_of_numbers has ended: its 16 rows had 14 usable prompts, enough for 4 steps. 2 are left over, "
        "and a step takes data.prompts_per_step = 3\n"
    )
    assert list(run.results) == [0, 1, 2, 3]
    assert capfd.readouterr().out.count(end) == 1
    assert (tmp_path / f"checkpoints/step_{4 * num_minibatches:06d}").is_dir()
    again = fit(tmp_path, rows=rows_of_numbers(16), resume=True, **options)
    assert again.results == {}
    assert capfd.readouterr().out.count(end) == 1
    longer = fit(tmp_path, rows=rows_of_numbers(19), resume=True, **options)
    assert list(longer.results) == [4]
