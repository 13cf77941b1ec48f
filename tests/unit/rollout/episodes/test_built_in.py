from __future__ import annotations

import random

import pytest

from ada_lightning.core.protocols.environment import End, Say
from ada_lightning.core.records import Completion, Prompt
from ada_lightning.data.episode_tasks import CalculatorTasks, GuessTasks
from ada_lightning.rollout.episodes.calculator import Calculator, UnreadableError, calculate
from ada_lightning.rollout.episodes.guess import GuessTheNumber


def random_expression(generator, depth=3):
    if depth == 0 or generator.random() < 0.3:
        return str(generator.randrange(100))
    kind = generator.randrange(5)
    left, right = (random_expression(generator, depth - 1) for _ in range(2))
    return (f"({left})", f"-{left}" if left[0] != "-" else left, f"{left} + {right}", f"{left}-{right}",
            f"{left} *{right}")[kind]  # fmt: skip


def test_the_calculator_computes_what_python_does():
    generator, num_read = random.Random(0), 0
    for _ in range(500):
        text = random_expression(generator)
        try:
            value = calculate(text)
        except UnreadableError:
            assert len(text) > 64 or len(text.split()) > 8
            continue
        num_read += 1
        assert value == eval(text)  # of this test's own making
    assert num_read > 400


@pytest.mark.parametrize(
    "text",
    ["", "1 +", "(1", "1)", "2 ** 3", "1 2", "1/2", "abs(1)", "1" * 13, "+".join("1" * 17), "(" * 9 + "1" + ")" * 9,
     "1" + " " * 64, "__import__('os')", "1 + ²"],
)  # fmt: skip
def test_the_calculator_reads_nothing_else(text):
    with pytest.raises(UnreadableError):
        calculate(text)


def test_a_call_is_answered_and_a_turn_without_one_ends_the_episode():
    turn = Calculator().turn
    assert turn(Completion("calc: 412 + 87 + 935")) == Say("result: 1434", num_calls=1)
    assert turn(Completion("I think\ncalc: 2 *\ncalc: 1")) == Say("error: cannot read", num_calls=1, num_call_errors=1)
    assert turn(Completion("1434")) == End()


def test_a_game_is_won_by_the_secret_and_lost_without_a_number():
    game = GuessTheNumber()
    game.start(Prompt("p", (), {"answer": "33"}), seed=0)
    said = [game.turn(Completion(text)) for text in ("34", "Is it 31?", "33", "no idea")]
    assert said == ["lower", "higher", End(reward=1.0, answer="33"), End(reward=0.0)]
    assert game.cut() == End(reward=0.0)


@pytest.mark.parametrize("kind", [CalculatorTasks, GuessTasks])
def test_tasks_are_distinct_split_by_seed_and_come_with_an_example_that_is_true(kind):
    first, again, other = kind(num_train=200, num_heldout=50, seed=0), kind(num_train=200, num_heldout=50, seed=0), 1
    assert first.train_prompts() == again.train_prompts()
    assert first.train_prompts() != kind(num_train=200, num_heldout=50, seed=other).train_prompts()
    prompts = [*first.train_prompts(), *first.heldout_prompts()]
    assert len({prompt.prompt_id for prompt in prompts}) == len(prompts) == 250
    for prompt in prompts:
        texts = [message["content"] for message in prompt.messages]
        if kind is CalculatorTasks:
            assert Calculator().turn(Completion(texts[1])) == Say(texts[2], num_calls=1)
            assert texts[2] == f"result: {texts[3]}"
            assert calculate(texts[4].removeprefix("What is ").removesuffix("?")) == int(prompt.reference["answer"])
        else:
            game, low = GuessTheNumber(), int(texts[0].split()[4])
            game.start(Prompt("p", (), {"answer": texts[-2]}), seed=0)
            assert [game.turn(Completion(text)) for text in texts[1:-2:2]] == texts[2:-1:2]
            assert texts[-1].startswith("correct.")
            assert low <= int(prompt.reference["answer"]) <= low + 6


def test_too_many_tasks_are_refused():
    with pytest.raises(ValueError, match="at most 22050 distinct tasks"):
        GuessTasks(num_train=40000, num_heldout=0, seed=0)
