"""The reader of this project's own configuration: against a run's first lines, and every path of the real parts."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from hydra.utils import instantiate
from omegaconf import OmegaConf

from ada_lightning.analysis.statement import describe_update
from ada_lightning.cli.objective import composed_settings
from ada_lightning.config.assembly import make_parts
from ada_lightning.config.composition import composed
from ada_lightning.config.generated import CONFIG_DIR
from ada_lightning.core.records import Belief, Prompt, Response, ResponseGroup, ResponsePool
from ada_lightning.methods.catalog import experiments
from ada_lightning.objective import as_text, objective_card
from ada_lightning.objective.command import card_of, main
from ada_lightning.objective.settings import SettingError
from ada_lightning.objective.weights import PASS_RATES

pytestmark = pytest.mark.xdist_group(__name__)  # cards are made once
ROOT = Path(__file__).resolve().parents[3]
SUMMED = (
    ("ada_seq_balance", "sampler.n_max=12"),
    ("ada_seq_balance", "sampler.n_max=12", "objective=linear"),
    ("ada_seq_balance", "sampler.n_max=12", "objective=pass_at_k"),
    ("ada_seq_pos", "sampler.n_max=12"),
    ("grpo",),
    ("rloo",),
    ("dapo",),
    ("dr_grpo",),
    ("max_rl",),
)


@cache
def card(*arguments):
    return objective_card(composed_settings([f"+experiment={arguments[0]}", *arguments[1:]]), trainer="ada")


@pytest.mark.thinned(16)
@pytest.mark.parametrize("name", [name for name in experiments(CONFIG_DIR) if not name.startswith("paper/")])
def test_it_says_what_a_run_says_first(name):
    cfg = composed([f"+experiment={name}"])
    found = card(name)
    if found.update.undetermined:
        pytest.skip(found.update.undetermined)
    lines = describe_update(
        advantage=instantiate(cfg.advantage),
        sampler=instantiate(cfg.sampler),
        selection=instantiate(cfg.selection),
        loss=instantiate(cfg.loss),
        num_minibatches=cfg.data.num_minibatches,
        epochs_per_rollout=cfg.data.epochs_per_rollout,
        max_grad_norm=cfg.policy.max_grad_norm,
        truncated=cfg.rollout.truncated,
        curriculum=instantiate(cfg.curriculum),
        token_masks=list(make_parts(cfg.token_masks).values()),
        refill=instantiate(cfg.refill),
        max_staleness=cfg.rollout.max_staleness,
    )
    assert found.update.statement[1:] == lines[0].removeprefix("update: ")[1:] + "."


@pytest.mark.long
def test_most_experiments_are_determined():
    names = [name for name in experiments(CONFIG_DIR) if not name.startswith("paper/")]
    open_ = {name for name in names if card(name).update.undetermined}
    assert {"ada", "ada_seq_balance", "grpo", "dapo", "rloo", "max_rl", "spo"} & open_ == set()
    assert len(open_) < len(names) / 2, open_


@pytest.mark.parametrize("arguments", SUMMED, ids=" ".join)
def test_weights_are_sums_over_every_path_of_the_real_parts(arguments):
    """Walk each outcome of each response as the sampler asks for them; keep and weigh what is there with the parts."""
    cfg = composed([f"+experiment={arguments[0]}", *arguments[1:]])
    OmegaConf.resolve(cfg.sampler)
    sampler, selection, advantage = (instantiate(cfg[name]) for name in ("sampler", "selection", "advantage"))
    found = dict.fromkeys(PASS_RATES, 0.0)
    drawn = dict.fromkeys(PASS_RATES, 0.0)
    waiting = [(0, 0)]  # right and wrong counts of a pool between two blocks, with the number of ways to get there
    ways = {(0, 0): 1.0}
    while waiting:
        right, wrong = waiting.pop(0)
        count = ways.pop((right, wrong))
        pool = _pool(sampler, right, wrong)
        wanted = sampler.num_to_draw(pool)
        if wanted > 0:
            for more in range(wanted + 1):
                place = right + more, wrong + wanted - more
                if place not in ways:
                    waiting.append(place)
                ways[place] = ways.get(place, 0.0) + count * math.comb(wanted, more)
            waiting.sort(key=sum)
            continue
        pool.rule = sampler.end(pool).rule
        group = ResponseGroup(pool, selection.select(pool))
        (values,) = advantage.assign([group])
        pairs = list(zip(group.kept, values, strict=True))
        of_right = math.fsum(value for kept, value in pairs if kept.response.is_positive)
        of_wrong = math.fsum(value for kept, value in pairs if not kept.response.is_positive)
        for rate in PASS_RATES:
            chance = count * rate**right * (1 - rate) ** wrong
            found[rate] += chance * (of_right / rate - of_wrong / (1 - rate))
            drawn[rate] += chance * (right + wrong)
    summed = card(*arguments)
    sums = summed.update.sums  # without the groups that a refill draws in place of others
    assert [sums.at(sums.responses, rate) for rate in PASS_RATES] == pytest.approx([drawn[r] for r in PASS_RATES])
    assert summed.weights == pytest.approx([found[rate] / found[0.5] for rate in PASS_RATES], rel=1e-6)
    assert summed.weight_at_half == pytest.approx(found[0.5] / drawn[0.5], rel=1e-6)


def _pool(sampler, right, wrong):
    pool = ResponsePool(Prompt("p", (), prompt_ids=(0,)), slot=0, belief=Belief(10, 10, 20, 10, is_seen=True))
    sampler.plan([pool])
    for index, is_right in enumerate(itertools.chain([True] * right, [False] * wrong)):
        pool.add(Response("p", index, 0, (0,), (0.0,), "", False, float(is_right), is_right, 0))
    return pool


def test_its_remedy_is_one_setting():
    assert card("ada_seq_balance").remedies[0].changes == {"objective": "linear"}
    assert card("ada_seq_balance", "objective=linear").is_mean
    assert card("grpo").remedies[0].changes == {"advantage": "rloo"}
    assert card("rloo").is_mean


@pytest.mark.parametrize("name", ["auto", "grpo_chosen"])
def test_chosen_prompts_are_told_and_leave_no_mean_pass_rate(name):
    card = objective_card(composed_settings([f"+experiment={name}", "advantage=rloo"]), name="x")
    assert "as often as in uniform order" in card.update.preference
    assert card.update.preference in " ".join(as_text(card).split())
    assert not card.is_mean
    assert card.remedies[0].changes == {"curriculum": "uniform"}
    plain = objective_card(composed_settings([f"+experiment={name}", "advantage=rloo", "curriculum=uniform"]), name="x")
    assert plain.is_mean
    assert not plain.update.preference


def test_a_run_folders_file_is_read_and_nothing_of_it_is_made_that_is_not_of_this_package(tmp_path):
    path = tmp_path / "config.yaml"
    whole = composed(["+experiment=ada_seq_balance", "run_name=x"])
    text = OmegaConf.to_yaml(OmegaConf.masked_copy(whole, [key for key in whole if key != "hydra"]), resolve=True)
    path.write_text(text)
    found = card_of(path, {})
    assert (found.trainer.name, found.unknown_keys) == ("ada", ())
    assert found.weights == card("ada_seq_balance").weights
    assert card_of(path, {"objective": "linear"}).is_mean
    path.write_text(text.replace("ada_lightning.methods.sampling.BalanceSampler", "subprocess.Popen"))
    assert "sampler: made of what needs torch or of a class of one's own" in card_of(path, {}).update.undetermined
    path.write_text(
        text.replace("ada_lightning.methods.sampling.BalanceSampler", "ada_lightning.methods.catalog.os.system")
    )
    assert card_of(path, {}).update.undetermined
    with pytest.raises(SettingError, match="there is no advantage=mine"):
        card_of(path, {"advantage": "mine"})


def test_the_command_takes_arguments_of_a_run(tmp_path, capsys):
    output = str(tmp_path / "a.html")
    main(["+experiment=ada_seq_balance", "objective=linear", "--output", output], compose=composed_settings)
    assert "Increases the mean over prompts of f(p) = p (p: pass rate), exactly." in capsys.readouterr().out
    with pytest.raises(SystemExit, match=r"unknown key sampler\.mine"):
        main(["+experiment=ada_seq_balance", "sampler.mine=1", "--output", output], compose=composed_settings)


def test_it_needs_no_torch(tmp_path):
    code = (
        "import sys; from ada_lightning.cli import objective; "
        f"sys.argv = ['x', '+experiment=ada_seq_balance', '--output', {str(tmp_path / 'a.html')!r}]; objective.main(); "
        "print('torch' in sys.modules)"
    )
    for _ in range(2):  # the first may have to list the options anew
        run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert run.stdout.splitlines()[-1] == "False"
