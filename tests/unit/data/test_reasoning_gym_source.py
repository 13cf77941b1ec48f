import pickle

import pytest
from omegaconf import OmegaConf

from ada_lightning.core.records import Completion
from ada_lightning.data import reasoning_gym
from ada_lightning.data.reasoning_gym import ReasoningGymSource
from ada_lightning.rewards.extraction import WholeResponse
from ada_lightning.rewards.reasoning_gym import ReasoningGymReward

SMALL_SUMS = {"chain_sum": {"min_terms": 2, "max_terms": 2, "min_digits": 1, "max_digits": 2}}


@pytest.fixture(autouse=True)
def _nothing_made(monkeypatch):
    monkeypatch.setattr(reasoning_gym, "_MADE", {})


def make(tasks=SMALL_SUMS, num_train=60, num_heldout=20, seed=1, **kwargs):
    return ReasoningGymSource(tasks, num_train=num_train, num_heldout=num_heldout, seed=seed, **kwargs)


def questions(prompts):
    return [prompt.messages[-1]["content"] for prompt in prompts]


def test_splits_share_no_question_and_a_task_with_too_few_says_how_many_it_has():
    # 1 term with 1 digit has 10 questions: every draw after the first few repeats one.
    few = {"chain_sum": {"min_terms": 1, "max_terms": 1, "min_digits": 1, "max_digits": 1}}
    source = make(few, 7, 3)
    train, heldout = questions(source.train_prompts()), questions(source.heldout_prompts())
    assert (len(train), len(heldout)) == (7, 3)
    assert len(set(train + heldout)) == 10
    with pytest.raises(ValueError, match=r"'chain_sum'.*11 are needed \(3 held out, 8 to train\), 10 found"):
        make(few, 8, 3).check()


def test_a_prompt_carries_the_question_and_what_its_verifier_needs():
    prompt = make(system_prompt="Be brief.").train_prompts()[0]
    entry = prompt.reference["entry"]
    assert prompt.messages == (
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": entry["question"]},
    )
    assert prompt.task == "chain_sum"
    assert prompt.reference["answer"] == entry["answer"]
    reward = ReasoningGymReward(WholeResponse(), binary=True)
    assert reward(pickle.loads(pickle.dumps(prompt)), Completion(entry["answer"])).reward == 1.0


def test_the_same_seed_gives_the_same_prompts_and_another_seed_others():
    first, again, other = make(), make(), make(seed=2)
    assert first.train_prompts() == again.train_prompts()
    assert first.heldout_prompts() == again.heldout_prompts()
    shared = set(questions(first.train_prompts())) & set(questions(other.train_prompts()))
    assert len(shared) < 30
    ids = [prompt.prompt_id for prompt in [*first.train_prompts(), *first.heldout_prompts()]]
    assert len(set(ids)) == 80
    assert ids[0] == "dd1dfbb30a598d38"  # on every machine


def test_the_same_prompts_are_drawn_once_and_each_setting_makes_its_own(monkeypatch):
    drawn = []
    draw = ReasoningGymSource._draw
    monkeypatch.setattr(ReasoningGymSource, "_draw", lambda self, *args: drawn.append(self) or draw(self, *args))
    first, *others = [{}, {"seed": 2}, {"num_train": 61}, {"num_heldout": 19}, {"system_prompt": "Be brief."}]
    made = [make(**first).train_prompts(), make(**first).train_prompts()]
    assert len(drawn) == 1
    assert made[0] is made[1]
    assert len({str(prompts) for prompts in [made[0], *(make(**other).train_prompts() for other in others)]}) == 5
    assert len(drawn) == 5
    assert len(reasoning_gym._MADE) == 4
    assert make(**first).train_prompts() == made[0]  # drawn anew
    assert len(drawn) == 6


def test_heldout_questions_are_as_hard_as_training_questions():
    """One-digit sums are few and repeat often: drawn first, they would crowd the held-out prompts."""
    source = make(num_train=600, num_heldout=200)

    def short(prompts):
        return sum(len(question.split(": ")[1]) <= len("4 + 3 =") for question in questions(prompts)) / len(prompts)

    # 800 distinct questions, about one in seven short; the standard error of the difference is 0.03
    assert abs(short(source.heldout_prompts()) - short(source.train_prompts())) < 0.09


def test_a_mix_is_split_by_weight_and_shuffled():
    tasks = {"chain_sum": {"weight": 3}, "gcd": None}
    source = make(tasks, num_train=40, num_heldout=8)
    for prompts, num_sums in ((source.train_prompts(), 30), (source.heldout_prompts(), 6)):
        names = [prompt.task for prompt in prompts]
        assert names.count("chain_sum") == num_sums
        assert names.count("gcd") == len(names) - num_sums
    order = [prompt.task for prompt in source.train_prompts()]
    assert order != sorted(order)


def test_config_nodes_become_plain_values_and_nothing_may_be_held_out():
    source = make(OmegaConf.create({"number_format": {"max_num_candidates": 3}}), 2, 0)
    [prompt, _] = source.train_prompts()
    assert type(prompt.reference["config"]) is dict
    assert prompt.reference["config"]["max_num_candidates"] == 3
    assert [message["role"] for message in prompt.messages] == ["user"]
    assert not source.heldout_prompts()


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        ({"chain_sums": {}}, "unknown reasoning-gym task 'chain_sums'; did you mean 'chain_sum'?"),
        ({"chain_sum": {"max_term": 2}}, "no key 'max_term'; did you mean 'max_terms'?.*min_digits"),
        ({"chain_sum": {"min_terms": 5, "max_terms": 2}}, "rejects .*max_terms must be >= min_terms"),
        ({"chain_sum": {"min_terms": "two"}}, "rejects"),
        ({"chain_sum": {"seed": 3}}, "seed cannot be set: it follows from data.source.seed"),
        ({"chain_sum": {"size": 3}}, "size cannot be set.*num_train"),
        ({"countdown": {}}, "'countdown' runs the model's text as Python"),
    ],
)
def test_check_finds_what_a_task_cannot_do(tasks, message):
    with pytest.raises(ValueError, match=message):
        make(tasks).check()


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"tasks": {}}, "tasks is empty"),
        ({"num_train": 0}, "num_train must be at least 1; got 0"),
        ({"num_heldout": -1}, "num_heldout must be at least 0; got -1"),
        ({"tasks": {"gcd": {"weight": 0}}}, "gcd.weight must be a positive number; got 0"),
        ({"tasks": {"gcd": {"weight": "half"}}}, "got 'half'"),
        ({"tasks": {"gcd": {"weight": 1e-6}, "lcm": {}}}, r"\['gcd'\] get none of the 60 training prompts"),
    ],
)
def test_impossible_settings_are_refused_at_construction(kwargs, message):
    with pytest.raises(ValueError, match=message):
        make(**kwargs)
