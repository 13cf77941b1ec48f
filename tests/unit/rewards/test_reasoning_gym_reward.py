import ast
import inspect
import json
import pickle
import subprocess
import sys
import textwrap

import pytest
import reasoning_gym
from reasoning_gym.factory import DATASETS

from ada_lightning.core.records import Completion, Prompt, Verdict
from ada_lightning.data.reasoning_gym import ReasoningGymSource
from ada_lightning.rewards.exact_match import ExactMatchReward
from ada_lightning.rewards.extraction import LastNumber, WholeResponse
from ada_lightning.rewards.math import MathReward
from ada_lightning.rewards.numeric import NumericReward
from ada_lightning.rewards.pool import RewardPool
from ada_lightning.rewards.reasoning_gym import TASKS_THAT_EVALUATE, ReasoningGymReward


def make_prompt(task, index=0, **config):
    full_config = {**config, "seed": 3, "size": 4}
    entry = reasoning_gym.create_dataset(task, **full_config)[index]
    return Prompt("id", (), {"task": task, "config": full_config, "entry": entry, "answer": entry["answer"]}, task)


SUM = make_prompt("chain_sum", max_terms=2, max_digits=2)
ANSWER = SUM.reference["answer"]


@pytest.mark.parametrize(
    ("text", "reward"),
    [
        (ANSWER, 1.0),
        (f"The answer is {ANSWER}.", 1.0),
        (f"{ANSWER}.0", 1.0),
        (f"{ANSWER}1", 0.0),
        ("I do not know", 0.0),
        ("", 0.0),
    ],
)
def test_the_verifier_judges_the_extracted_number(text, reward):
    assert ReasoningGymReward(LastNumber(), binary=True)(SUM, Completion(text)).reward == reward


def test_partial_credit_counts_only_where_it_is_asked_for():
    text = f"It is {ANSWER}"  # the verifier gives the ratio of lengths
    ratio = len(ANSWER) / len(text)
    assert ReasoningGymReward(WholeResponse(), binary=False)(SUM, Completion(text)).reward == pytest.approx(ratio)
    assert ReasoningGymReward(WholeResponse(), binary=True)(SUM, Completion(text)).reward == 0.0


def test_no_answer_is_worth_nothing_where_the_verifier_rewards_any_attempt():
    prompt = make_prompt("power_function")
    reward = ReasoningGymReward(LastNumber(), binary=False)
    assert reward(prompt, Completion("99999999999")).reward == pytest.approx(0.01)
    assert reward(prompt, Completion("no digits")) == Verdict(0.0)


@pytest.mark.parametrize("task", ["boxnet", "graph_color", "propositional_logic", "rubiks_cube", "rush_hour"])
def test_tasks_without_an_answer_of_their_own_are_judged_by_their_verifier_and_by_nothing_else(task):
    (prompt,) = ReasoningGymSource({task: {}}, num_train=1, num_heldout=0, seed=0).train_prompts()
    assert prompt.reference["entry"]["answer"] is None
    verdict = ReasoningGymReward(WholeResponse(), binary=True)(prompt, Completion("None"))
    assert verdict == Verdict(0.0, "None")
    for compares in (ExactMatchReward(WholeResponse()), MathReward(), NumericReward(LastNumber())):
        with pytest.raises(ValueError, match="its reference has no answer"):
            compares.check_prompt(prompt)


def test_an_answer_that_the_verifier_cannot_parse_is_wrong_and_no_failure():
    prompt = make_prompt("prime_factorization")
    with pytest.raises(ValueError, match="seven"):
        reasoning_gym.create_dataset("prime_factorization").score_answer("seven", prompt.reference["entry"])
    assert ReasoningGymReward(WholeResponse(), binary=True)(prompt, Completion("seven")) == Verdict(0.0, "seven")


def test_a_verifier_that_gives_any_text_full_marks_is_refused():
    prompt = make_prompt("game_of_life_halting")
    entry = prompt.reference["entry"]
    wrong = {"True": "False", "False": "True"}[entry["answer"]]
    assert reasoning_gym.create_dataset("game_of_life_halting").score_answer(wrong, entry) == 1.0
    with pytest.raises(
        ValueError, match=r"'game_of_life_halting' gives 'I do not know' full marks.*reward=exact_match"
    ):
        ReasoningGymReward(WholeResponse(), binary=True).check_prompt(prompt)
    exact = ExactMatchReward(WholeResponse())
    exact.check_prompt(prompt)
    assert [exact(prompt, Completion(text)).reward for text in (entry["answer"], wrong)] == [1.0, 0.0]


@pytest.mark.parametrize(
    ("task", "wrong"),
    [("coin_flip", "0"), ("coin_flip", "0.0"), ("complex_arithmetic", "nan"), ("complex_arithmetic", "NaN + 2i")],
)
@pytest.mark.parametrize("binary", [True, False])
def test_a_constant_that_a_verifier_takes_for_every_answer_is_wrong(task, wrong, binary):
    reward = ReasoningGymReward(WholeResponse(), binary=binary)
    for index in (0, 2):  # answers of coin_flip: 0.234375 and 0.003173828125
        prompt = make_prompt(task, index)
        entry = prompt.reference["entry"]
        assert reasoning_gym.create_dataset(task).score_answer(wrong, entry) == 1.0
        assert reward(prompt, Completion(wrong)).reward == 0.0
        assert reward(prompt, Completion(entry["answer"])).reward == 1.0


def test_a_probability_is_right_as_a_fraction_and_to_four_digits():
    entry = {"answer": "0.375", "metadata": {}}
    prompt = Prompt("id", (), {"task": "coin_flip", "config": {}, "entry": entry})
    reward = ReasoningGymReward(WholeResponse(), binary=True)
    texts = ("3/8", "0.37505", "0.3", "0.38", "3,000/8,000", "1/0")
    assert [reward(prompt, Completion(text)).reward for text in texts] == [1.0, 1.0, 0.0, 0.0, 1.0, 0.0]


def test_sorted_numbers_are_those_of_the_question_and_no_rounded_ones():
    for index in range(4):
        prompt = make_prompt("number_sorting", index)
        entry = prompt.reference["entry"]
        right = ast.literal_eval(entry["answer"])
        assert all(number in entry["question"] for number in right)
        plain = [float(number) for number in right]
        wrong = [str([str(round(number)) for number in plain]), str(["nan"] * len(right)), str(right[:-1])]
        gym = reasoning_gym.create_dataset("number_sorting")
        assert [gym.score_answer(text, entry) for text in wrong] == [1.0, 1.0, 0.0]
        for binary in (True, False):
            reward = ReasoningGymReward(WholeResponse(), binary=binary)
            texts = (str(right), json.dumps(right), json.dumps(plain), *wrong)
            assert [reward(prompt, Completion(text)).reward for text in texts] == [1.0] * 3 + [0.0] * 3


def test_no_other_verifier_does():
    tasks = sorted({*DATASETS} - {*TASKS_THAT_EVALUATE, "composite", "game_of_life_halting"})
    for task in tasks:
        ReasoningGymReward(WholeResponse(), binary=True).check_prompt(make_prompt(task))


def test_a_verifier_that_cannot_score_its_own_answer_is_a_failure():
    prompt = make_prompt("complex_arithmetic")
    entry = {"question": "?", "answer": prompt.reference["answer"]}  # no metadata
    broken = Prompt("id", (), {**prompt.reference, "entry": entry})
    with pytest.raises(KeyError, match="metadata"):
        ReasoningGymReward(WholeResponse(), binary=True)(broken, Completion(prompt.reference["answer"]))


def test_verifiers_are_built_once_per_task_and_config_and_stay_at_home(monkeypatch):
    built = []
    create = reasoning_gym.create_dataset
    monkeypatch.setattr(reasoning_gym, "create_dataset", lambda *a, **k: built.append(a) or create(*a, **k))
    reward = ReasoningGymReward(LastNumber(), binary=True)
    for _ in range(3):
        reward(SUM, Completion(ANSWER))
    assert len(built) == 1
    reward(make_prompt("chain_sum", max_terms=3), Completion("1"))
    assert len(built) == 3  # make_prompt builds one as well
    assert len(pickle.dumps(reward)) < 500


@pytest.mark.parametrize("task", sorted(TASKS_THAT_EVALUATE))
def test_tasks_that_would_run_the_response_as_code_are_refused(task, tmp_path):
    marker = tmp_path / "ran"
    prompt = Prompt("id", (), {"task": task, "config": {}, "entry": {"answer": "1", "metadata": {}}})
    with pytest.raises(ValueError, match=f"'{task}' runs the model's text as Python"):
        ReasoningGymReward(WholeResponse(), binary=True)(prompt, Completion(f"open({str(marker)!r}, 'w')"))
    assert not marker.exists()


def names_called(function_node):
    calls = (node for node in ast.walk(function_node) if isinstance(node, ast.Call))
    return {getattr(call.func, "id", getattr(call.func, "attr", "")) for call in calls}


def test_every_verifier_that_evaluates_is_known():
    """Follows each score_answer through the functions of its module, as the installed version has them."""
    dangerous = {"eval", "exec", "parse_expr", "sympify", "simplify", "__import__"}
    found = set()
    for task, (dataset_class, _) in DATASETS.items():
        tree = ast.parse(inspect.getsource(sys.modules[dataset_class.__module__]))
        functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        reached, frontier = set(), {"score_answer"} & set(functions)
        while frontier:
            name = frontier.pop()
            reached.add(name)
            called = names_called(functions[name])
            if called & (dangerous - set(functions)):
                found.add(task)
            frontier |= (called & set(functions)) - reached
    # These evaluate what the task itself wrote, never the response: an answer, and a problem.
    trusted = {"number_sorting", "bitwise_arithmetic"}
    assert found - trusted == set(TASKS_THAT_EVALUATE) - {"composite"}


def test_grading_needs_no_torch():
    script = textwrap.dedent("""
        import sys
        import ada_lightning.rewards.exact_match, ada_lightning.rewards.function, ada_lightning.rewards.worker
        import ada_lightning.rewards.pool
        from ada_lightning.rewards.extraction import LastNumber
        from ada_lightning.rewards.reasoning_gym import ReasoningGymReward
        from ada_lightning.data.reasoning_gym import ReasoningGymSource
        import ada_lightning.data.encoder, ada_lightning.data.dataset
        from ada_lightning.core.records import Completion
        source = ReasoningGymSource({"chain_sum": {}}, num_train=2, num_heldout=1, seed=0)
        prompt = source.train_prompts()[0]
        print(ReasoningGymReward(LastNumber(), binary=True)(prompt, Completion(prompt.reference["answer"])).reward)
        print([name for name in ("torch", "lightning", "vllm", "transformers") if name in sys.modules])
    """)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.split("\n")[:2] == ["1.0", "[]"], done.stderr


def test_workers_grade_with_the_verifier():
    pool = RewardPool(ReasoningGymReward(LastNumber(), binary=True))
    try:
        pool.submit("right", SUM, Completion(f"It is {ANSWER}."))
        pool.submit("wrong", SUM, Completion("no"))
        grades = {}
        while pool.num_pending:
            grades.update(pool.wait(60))
    finally:
        pool.close()
    assert grades == {"right": Verdict(1.0, answer=ANSWER), "wrong": Verdict(0.0)}
