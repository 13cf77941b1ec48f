"""What does not go together, by rule: one message with a way out. What does go together passes."""

from __future__ import annotations

import json

import pytest
from omegaconf import OmegaConf

from ada_lightning.config.check import RULES, check_config
from ada_lightning.config.view import ConfigView
from ada_lightning.core.protocols import Advantage, Trait
from ada_lightning.parallel import hardware
from tests.unit.config.composing import problems, said

HERE = __name__
ALL = "sampler=uniform selection=all"
RESOLVED = "selection=resolved selection.selection._target_=ada_lightning.methods.selection."
ONE = f"{ALL} sampler.group_size=1"
CUT = "+experiment=ada sampler=cut sampler.num_tokens=16"
GPU = "trainer=gpu"
OTHER_PROCESS = f"{GPU} rollout=vllm_gpu_process"
NCCL = "weight_transfer._target_=ada_lightning.rollout.engines.weight_transfer.Nccl"
RATES = "ada_lightning.methods.pass_rates"
SPREAD = "SpreadSampler ends a prompt's sampling by more than its counts, so paths cannot be counted; use "
WHITENED = (
    "advantage=batch_whitened advantage.advantage._target_=ada_lightning.methods.advantages.ExactAdvantage "
    "~advantage.advantage.normalize_std "
    "'+advantage.advantage.objective={_target_: ada_lightning.methods.objectives.LogObjective}'"
)
COMPARING = {
    "grpo": "GroupNormalizedAdvantage",
    "rloo": "LeaveOneOutAdvantage",
    "official": "PoolMeanAdvantage",
    "max_rl": "MaxRlAdvantage",
    "novelty": "NoveltyAdvantage",
    "weighted_leave_one_out": "WeightedLeaveOneOutAdvantage",
}
BIG_K = "cannot support the objective 1 - (1-p)^64: its first term needs 65 responses; raise sampler.n_max"


class BestOfGroup(Advantage):
    """A user's own rule; what it says of itself is all that the check knows."""

    traits = frozenset({Trait.COMPARES_KEPT})


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch):
    monkeypatch.setattr(hardware, "count_gpus", lambda: 0)


REFUSED = [
    # advantage and reward
    (f"{ALL} advantage=gdpo reward=exact_match", "components of a reward, and reward.reward = ExactMatch ... weighted"),
    (f"{ALL} advantage=gdpo reward=weighted +advantage.weights.length=1.0",
     "advantage.weights.length: the reward has no component length; it has correct, format; ... ~advantage.weights.l"),
    ("selection=stratified sampler.group_size=8", "weighs responses by their stratum ... advantage=weighted_leave_one"),
    ("selection=quantile advantage=stratified sampler.group_size=8", "stratum ... or selection=balanced"),
    ("reward.reward.binary=false", "reward.reward.binary = false gives partial credit, and advantage = ExactAdvantage"),
    ("reward.reward.binary=false advantage=stratified", "and advantage = StratifiedAdvantage ... binary=true"),
    (f"reward.reward.binary=false advantage=official advantage.pass_rate._target_={RATES}.PathCountingRate",
     "and advantage.pass_rate = PathCountingRate is for rewards of 0 and 1"),
    (f"{ALL} reward.reward.binary=false {WHITENED}", "advantage.advantage = ExactAdvantage is for rewards of 0 and 1"),
    *((f"sampler=uniform selection=positives advantage={name}",
       "selection: PositivesSelection keeps no negatives, but advantage ... use advantage=accepted, or selection=all")
      for name in ("grpo", "rloo", "max_rl", "exact", "reinforce_plus_plus", "batch_whitened")),
    (f"+experiment=grpo {RESOLVED}PositivesSelection", "PositivesSelection keeps no negative"),
    ("sampler=uniform selection=all advantage=batch_whitened reward=exact_match "
     "advantage.advantage._target_=ada_lightning.methods.advantages.GdpoAdvantage ~advantage.advantage.normalize_std",
     "advantage.advantage: GdpoAdvantage needs the components of a reward"),
    # a group of one
    *((f"sampler={name} sampler.group_size=1 selection=all advantage=grpo", "sampler.group_size = 1: GroupNormalized")
      for name in ("first_visit", "pruning")),
    *((f"{ONE} advantage={name}",
       f"sampler.group_size = 1: {kind} compares the responses ... one alone is drawn every ... history_baseline")
      for name, kind in COMPARING.items()),
    ("+experiment=reinforce_plus_plus sampler.group_size=1", "sampler.group_size = 1: BatchWhitenedAdvantage"),
    ("sampler.group_size=1 advantage=grpo", "selection.group_size = 1: GroupNormalized ... one alone is kept"),
    (f"{ONE} ~advantage '+advantage={{_target_: {HERE}.BestOfGroup}}'", "group_size = 1: BestOfGroup comp"),
    # exact updates
    ("sampler=first_visit sampler.group_size=2 selection=all objective=pass_at_k objective.k=4",
     "at most 2 responses per prompt"),
    ("sampler=spread", f"advantage: {SPREAD}advantage=stratified or advantage=weighted_leave_one_out with this"),
    (f"sampler=spread advantage=stratified advantage.pass_rate._target_={RATES}.PathCountingRate",
     f"advantage.pass_rate: {SPREAD}{RATES}.PoolMeanRate with"),
    (f"sampler=spread advantage=weighted_leave_one_out advantage.baseline._target_={RATES}.PathCountingRate",
     f"advantage.baseline: {SPREAD}{RATES}.LeaveOneOutRate with"),
    ("+experiment=gvm_grpo advantage=exact", "GvmSampler ends a prompt's sampling by more than its counts"),
    ("+experiment=xrpo advantage=exact", "XrpoSampler ends a prompt's sampling by more than its counts"),
    ("sampler=optpo selection=all", "OptPoSampler ends a prompt's sampling by more than its counts"),
    ("objective=pass_at_k objective.k=64", f"objective: the stopping rule (at most 32 responses per prompt) {BIG_K}"),
    ("sampler.group_size=1", "selection.group_size = 1 keeps only one class ... use sampler.group_size=2 or more"),
    ("sampler.group_size=1 advantage=stratified", "selection.group_size = 1 keeps only one class"),
    # history
    ("sampler.budget_per_step=127",
     "127 is less than data.prompts_per_step * sampler.samples_per_round = 32 * 4, ... sampler.budget_per_step=128"),
    *((f"sampler={name} selection=all estimator=gaussian_process",
       f"sampler.min_seen = {seen} needs ... GaussianProcessEstimator does not count them ... estimator=win")
      for name, seen in (("knapsack", 8), ("coba", 1))),
    ("sampler=knapsack selection=all estimator=window estimator.window=7",
     "sampler.min_seen = 8 exceeds estimator.window = 7: ... Use estimator.window=8 or more"),
    ("curriculum=difficulty_band estimator=value_network",
     "curriculum: DifficultyBand chooses ... ValueNetworkEstimator does not remember prompts. Use estimator=beta"),
    ("curriculum=posterior estimator=value_network", "curriculum: PosteriorSampling chooses ... curriculum=uniform"),
    ("+experiment=grpo selection=seen estimator=value_network",
     "selection: SeenSelection needs to know whether a prompt was ... ValueNetworkEstimator does not remember"),
    ("+experiment=grpo sampler=first_visit sampler.group_size=2 estimator=gaussian_process",
     "sampler: FirstVisitSampler needs to know whether"),
    (f"+experiment=grpo {RESOLVED}SeenSelection estimator=value_network", "selection.selection: SeenSelection needs"),
    # refill
    ("refill=dynamic sampler.budget_per_step=400", "and refill.max_ratio to limit a step"),
    ("+experiment=dapo refill.component=corect", "OverlongReward has the components correct, overlong"),
    ("+experiment=dapo reward=weighted refill.component=form", "WeightedReward has the components correct, format"),
    ("+experiment=dapo rollout.truncated=zero", "Use rollout.truncated=grade or mask"),
    ("reward=overlong advantage=official rollout.truncated=exclude", "Use rollout.truncated=grade or mask"),
    # what is asked of the policy
    *((f"+experiment={name} {GPU} trainer=fsdp trainer.devices=8 trainer.num_nodes=1 rollout=ray_gpu",
       f"advantage = {kind} needs weights that are whole in every process; use trainer=ddp")
      for name, kind in (("dpo", "DpoAdvantage"), ("reward_distillation", "RewardDistillationAdvantage"),
                         ("representation_preference", "RepresentationPreferenceAdvantage"))),
    ("+experiment=gvm_raft sampler/gradient_norm=embed_tokens parameters=lora",
     "EmbedTokensNorm takes gradients of the input embedding, which parameters=lora freezes"),
    # episodes
    ("+experiment=environments/calculator reward=overlong advantage=official",
     "OverlongReward counts the tokens of all ... turns of an episode ... Use reward.reward.max_tokens="),
    # samplers that cut long responses by chance
    (f"{CUT} advantage=exact", "no fair sample of the pass rate, but advantage = ExactAdvantage ... =history_baseline"),
    (f"{CUT} advantage=grpo", "but advantage = GroupNormalizedAdvantage takes it for one"),
    (f"{CUT} selection=balanced sampler.group_size=4", "BalancedSelection counts them; use selection=all"),
    (f"{CUT} refill=dynamic", "leaves groups with fewer responses, but DynamicSampling replaces some"),
    (f"{CUT} loss/reduction=prompt_mean", "PromptMeanReduction divides by what is left; use loss/reduction=constant"),
    (f"{CUT} loss.kl_coef=0.1", "CutSampler: loss.kl_coef = 0.1 would see only what is left"),
    (f"{CUT} curriculum=greso", "curriculum: GresoCurriculum judges prompts by whole groups"),
    (f"{CUT} curriculum=retired", "curriculum: RetiredCurriculum judges prompts by whole groups"),
    (f"{CUT} loss=flowrl loss/reduction=constant", "loss = FlowRlLoss is not linear in them"),
    (f"{CUT} token_masks=capo", "token_masks.capo leaves out tokens where those are large"),
    (f"{CUT} sampler.num_tokens=32", "num_tokens = 32 cuts nothing: ... max_new_tokens = 32 ... sampler.num_tokens=16"),
    ("+experiment=environments/calculator sampler=cut selection=all advantage=history_baseline sampler.num_tokens=8",
     "an episode has several turns; use environment=none"),
    # selections that rank, drop or thin out
    ("sampler=pruning selection=all advantage=official loss.kl_coef=0.01",
     "sampler: PruningSampler leaves out ... loss.kl_coef = 0.01 would see only what is left ... sampler=uniform"),
    ("+experiment=pruning advantage=grpo", "Use advantage=official, with advantage.normalize_std=true"),
    ("+experiment=cppo advantage=rloo", "LargestAdvantageSelection takes advantages over the whole pool"),
    ("+experiment=cppo_batch advantage=dr_grpo", "LargestAdvantageBatchSelection takes advantages"),
    ("+experiment=rollout_bandits advantage=grpo", "BanditSelection takes advantages over the whole pool"),
    ("selection=largest_advantage advantage=stratified", "may drop all positives ... = StratifiedAdvantage follows"),
    ("+experiment=cppo_batch advantage=exact", "Use advantage=official or selection=balanced"),
    ("+experiment=rollout_bandits advantage=exact", "BanditSelection may drop all positives or all negatives"),
    (f"selection=largest_advantage {WHITENED}", "may drop all positives ... advantage.advantage = ExactAdvantage"),
    ("+experiment=speed_rl sampler.group_size=8", "AllSelection keeps all responses, up to 24 of a prompt"),
    ("+experiment=vip sampler.group_size=8", "sampler.group_size = 8 has no effect"),
    ("+experiment=pilot_commit sampler.group_size=8", "ResolvedSelection keeps all responses, up to 64"),
    ("+experiment=pilot_commit advantage=exact", "ResolvedSelection drops prompts by their results"),
    # update
    ("token_masks=capo token_masks.capo.max_shift=-1", "token_masks.capo: token_masks.capo.max_shift must be"),
    ("token_masks=capo optimizer._target_=torch.optim.SGD ~optimizer.betas ~optimizer.fused",
     "token_masks.capo models a step of Adam ... optimizer = SGD has no such moments; use optimizer=adamw"),
    ("token_masks=capo parameters=lora", "token_masks.capo models ... freezes; use parameters=all"),
    ("token_masks=jackpot loss.importance_cap=0 token_masks.jackpot.cap=2",
     "token_masks.jackpot ... loss.importance_cap = 0, so there is none; use loss=clipped ... cap=2"),
    *((f"token_masks=jackpot {loss}", f"{said}; use loss=clipped loss/importance=token_truncation")
      for loss, said in (
          ("loss=flowrl advantage=grpo", "FlowRlLoss does not weigh every token by its own ratio"),
          ("loss=reinforce", "ReinforceLoss does not weigh every token by its own ratio"),
          ("loss=gspo", "GspoLoss does not weigh every token by its own ratio"),
          ("loss/importance=sequence_truncation", "loss.importance = SequenceTruncation is another weight"))),
    ("loss=flowrl", "advantage: loss=flowrl ... ExactAdvantage is weighted by more ... use advantage=grpo"),
    ("loss=flowrl advantage=weighted_leave_one_out", "WeightedLeaveOneOutAdvantage is weighted by more"),
    ("loss=flowrl advantage=paper_v3", "PoolMeanAdvantage is weighted by more"),
    ("+experiment=optpo reward=math", "MathReward spells a right answer like the reference. Use reward=exact_match"),
    ("+experiment=optpo reward=function reward.reward.path=tests.integration.graders.has_few_letters",
     "FunctionReward returns no answers"),
    ("policy.temperature=2", "policy.temperature = 2 is not rollout.sampling.temperature = 1.0; set only the second"),
    # engine
    ("+rollout.engine.sleep_level=1", "sleep_level = 1: vLLM sleeps only on a GPU ... sleep_level=0"),
    (f"{GPU} rollout=vllm_gpu rollout/weight_transfer=ipc", "CudaIpc goes to another process ... weight_transfer=relo"),
    ("+rollout/weight_transfer=adapter", "Use parameters=lora or rollout/weig"),
    (f"{OTHER_PROCESS} rollout.engine.tensor_parallel_size=3", "with the engine, but rollout.engine.tens ... =nccl"),
    (f"{OTHER_PROCESS} +rollout.host.environment.CUDA_VISIBLE_DEVICES=1", "VISIBLE_DEVICES = 1 gives the"),
    (f"{OTHER_PROCESS} rollout/weight_transfer=nccl",
     "would be on the trainer's GPU; give it others with +rollout.host.environment.CUDA_VISIBLE_DEVICES=1"),
    (f"{GPU} rollout=ray +rollout.engine.{NCCL}", "Nccl cannot reach an engine that replaces a broken one ... =reload"),
    (f"{GPU} rollout=ray +rollout.engine.tensor_parallel_size=3 rollout.host.num_gpus=1",
     "num_gpus = 1 is less than rollout.engine.tensor_parallel_size = 3 ... Use rollout.host.num_gpus=3"),
    (f"{OTHER_PROCESS} rollout.host.num_engines=2", "num_engines = 2: ... share one GPU ... rollout=r"),
    ("reproducible=true rollout=vllm_process", "does not go with rollout.host = ProcessPool ... with rollout=vllm_cpu"),
    ("reproducible=true rollout=ray", "reproducible=true does not go with rollout.host = RayPool"),
    ("model=tiny rollout.max_model_tokens=8193", "rollout.max_model_tokens = 8193 is more ... attend to, 8192 tokens"),
    ("rollout=vllm_gpu", "rollout.engine.enforce_eager = false, as in rollout=vllm_gpu: ... use rollout=vllm_cpu or"),
    ("+rollout.engine.tensor_parallel_size=2", "tensor_parallel_size = 2 does not divide the model's 9 attention"),
    ("rollout.engine.kv_cache_gib=1000000", "kv_cache_gib = 1000000 is more than the memory of ... kv_cache_gib=0.5"),
    # 2 (keys, values) x 30 layers x 3 heads x 64 x 2 bytes x 320 tokens = 0.00687 GiB
    (
        "rollout.engine.dtype=bfloat16 rollout.engine.kv_cache_gib=0.0068",
        "rollout.engine.kv_cache_gib = 0.0068 cannot hold one sequence of rollout.",
    ),
    # 0.00687 GiB for each sequence; 7 million are more than any machine's memory
    ("rollout=transformers rollout.engine.max_num_seqs=7000000 rollout.engine.dtype=bfloat16",
     "rollout=transformers takes memory for as many sequences of rollout.max_model_tokens = 320 ... max_num_seqs="),
    ("rollout.engine.max_num_seqs=1000000000", "max_num_seqs = 1000000000: the engine's table of ... =256 or fewer"),
]  # fmt: skip


@pytest.mark.thinned(60)
@pytest.mark.parametrize(("command", "message"), REFUSED)
def test_what_does_not_go_together_is_said_once_with_a_way_out(command, message):
    (found,) = said(command)
    assert all(part in found for part in message.split(" ... ")), found


@pytest.mark.parametrize(
    ("command", "messages"),
    [
        ("refill=dynamic sampler=pruning selection=all advantage=official", ["PruningSampler leaves prompts out"]),
        (f"{OTHER_PROCESS} rollout/weight_transfer=ipc trainer.devices=2",
         ["CudaIpc shares one GPU with one training process, but trainer.devices = 2", "several processes train with"]),
        ("rollout=vllm_gpu_process", ["CudaIpc goes from GPU to GPU, but trainer.accelerator = cpu"]),
    ],
)  # fmt: skip
def test_every_rule_is_asked(command, messages):
    found = said(command)
    assert all(any(message in each for each in found) for message in messages), found


@pytest.mark.thinned(30)
@pytest.mark.parametrize(
    "command",
    [
        f"{ALL} advantage=batch_whitened loss=reinforce",
        f"{ALL} advantage=gdpo reward=weighted",
        f"{ALL} advantage=gdpo reward=weighted '++advantage.weights={{correct/units: 0.5}}'",
        f"{ALL} advantage=gdpo reward=function reward.reward.path=tests.integration.graders.has_few_letters",
        "sampler=uniform selection=positives advantage=accepted loss=raft_plus_plus",
        "sampler=uniform selection=positives advantage=official loss=raft_plus_plus",
        "+experiment=ada sampler.group_size=1",
        "+experiment=grpo sampler.group_size=1 advantage=accepted",
        "+experiment=grpo sampler.group_size=2",
        "sampler.group_size=1 advantage=official",  # a baseline of all that were drawn
        "selection=rarer_class advantage=grpo",
        "sampler=estimated selection=all",
        "sampler=vip selection=all estimator=gaussian_process",
        "sampler=knapsack selection=all estimator=window",
        "sampler=knapsack selection=all estimator=gaussian_process sampler.min_seen=0",
        "sampler=coba selection=all estimator=window estimator.window=1",
        "sampler=spread advantage=weighted_leave_one_out",
        "sampler=spread advantage=stratified",
        "objective=pass_at_k objective.k=31",
        "sampler.budget_per_step=128",  # 32 prompts x blocks of 4
        "sampler.group_size=2",
        "refill=dynamic",
        "refill=dynamic reward=weighted advantage=official refill.component=format",
        "refill=dynamic reward=function refill.component=anything",
        "refill=adaptive sampler=estimated selection=all",
        "refill=none sampler.budget_per_step=400",
        "+experiment=grpo selection=seen",
        "'+experiment=[dapo,environments/calculator]'",
        "+experiment=pods advantage=exact",
        "+experiment=speed_rl sampler.group_size=8 selection=balanced",
        "+experiment=pruning advantage=exact",
        "+experiment=dapo rollout.truncated=mask",
        "+experiment=ada_spread_partial_credit selection=quantile",
        "+experiment=ada_spread_partial_credit advantage=rloo",
        f"+experiment=ada_spread_partial_credit advantage.baseline._target_={RATES}.FirstRoundRate",
        "advantage=weighted_leave_one_out selection=stratified",
        "token_masks=[capo,jackpot]",
        "loss=flowrl advantage=official",
        "+experiment=optpo reward=math reward.reward.own_spelling=true",
        "+experiment=optpo reward=function reward.reward.path=tests.integration.graders.counts_letters",
        "rollout=ray rollout.engine.max_num_seqs=16 rollout/schedule=barrier",
        f"{GPU} rollout=vllm_gpu rollout.engine.sleep_level=2",
        f"{OTHER_PROCESS} rollout/weight_transfer=nccl +rollout.host.environment.CUDA_VISIBLE_DEVICES=1",
        f"{OTHER_PROCESS} rollout/weight_transfer=nccl rollout.engine.tensor_parallel_size=3 "
        "'+rollout.host.environment.CUDA_VISIBLE_DEVICES=\"1,2,3\"'",
        f"{GPU} trainer=fsdp trainer.devices=8 trainer.num_nodes=1 rollout=ray_gpu",
        f"{GPU} rollout=ray_gpu rollout.engine.tensor_parallel_size=3 rollout.host.num_gpus=3",
        f"{OTHER_PROCESS} rollout/weight_transfer=adapter parameters=lora",
        f"{OTHER_PROCESS} rollout/weight_transfer=reload +rollout.host.environment.CUDA_VISIBLE_DEVICES=1",
        "reproducible=true rollout=vllm_cpu",
        f"reproducible=true {GPU} rollout=vllm_gpu",
        "model=tiny rollout.max_model_tokens=8192",
        "rollout.engine.dtype=bfloat16 rollout.engine.kv_cache_gib=0.0069",
        "+rollout.engine.tensor_parallel_size=3",
        "rollout=ray rollout.engine.enforce_eager=false",
        "curriculum=difficulty_band estimator=ema",
        "curriculum=posterior sampler=estimated selection=all curriculum/usefulness=learnability",
        *(f"+experiment={name} advantage=exact" for name in ("dars_et", "dars_hw", "speed_rl")),
        *(f"+experiment=gvm_grpo sampler/gradient_norm={name}" for name in ("constant", "lm_head", "embed_tokens")),
    ],
)
def test_what_goes_together_passes(command):
    assert said(command) == []


def test_on_a_machine_with_a_gpu_its_engine_is_not_judged(monkeypatch):
    monkeypatch.setattr(hardware, "count_gpus", lambda: 1)
    assert said("rollout=vllm_gpu") == []


@pytest.mark.parametrize(
    ("rope", "num_problems"),
    [
        ({"rope_parameters": {"rope_type": "llama3", "factor": 8.0}}, 1),
        ({"rope_scaling": {"type": "linear", "factor": 8.0}}, 0),
        ({"rope_scaling": None}, 1),
    ],
)
def test_a_folder_of_ones_own_is_read_and_scaled_positions_are_left_to_the_engine(tmp_path, rope, num_problems):
    (tmp_path / "config.json").write_text(json.dumps({"max_position_embeddings": 256, **rope}))
    found = said(f"model=pretrained model.path={tmp_path}")
    assert len(found) == num_problems
    assert all("rollout.max_model_tokens = 320" in message for message in found)


def test_absent_parts_are_left_alone():
    cfg = OmegaConf.create({"curriculum": None, "sampler": "${missing}", "data": {"prompts_per_step": "${missing}"}})
    assert [message for rule in RULES[1:] for message in rule(ConfigView(cfg)) if "temperature" not in message] == []
    check_config(OmegaConf.create({"seed": 1, "trainer": None}))


@pytest.mark.parametrize(
    ("overrides", "key", "reference", "part"),
    [
        (["selection=largest_advantage_batch"], "selection.normalize_std", "advantage.normalize_std", "selection"),
    ],
)
def test_a_value_taken_from_a_key_that_is_not_there_hides_no_other_problem(overrides, key, reference, part):
    found = problems(*overrides, "policy.temperature=2", "num_steps=???")
    assert [problem for problem in found if problem.startswith((key, "num_steps", "policy."))] == [
        "num_steps needs a value; give it on the command line: num_steps=<value>",
        f"{key}: it takes its value from a key that the chosen parts do not have (Interpolation key '{reference}' not "
        f"found); give it one of its own, {key}=<value>, or choose another {part}",
        "policy.temperature = 2 is not rollout.sampling.temperature = 1.0; set only the second",
    ]
    assert not any("Missing mandatory" in problem for problem in found)


def test_what_a_part_rejects_is_told_once_and_not_again_by_the_rules():
    (problem,) = problems("curriculum=posterior", "sampler.k_pos=0")
    assert problem.startswith("sampler: k_pos must be at least 1")
    found = problems("objective=pass_at_k", "objective.k=64", "sampler.budget_per_step=1")
    assert [problem.partition(" ")[0] for problem in found] == ["sampler.budget_per_step", "objective:"]
    (problem,) = problems("advantage._target_=ada_lightning.methods.advantages.Exactly")
    assert problem.startswith("advantage._target_ = ada_lightning.methods.advantages.Exactly cannot be loaded")


def test_rewards_of_any_kind_go_with_samplers_that_ask_for_no_labels():
    assert said("reward=math") == []
