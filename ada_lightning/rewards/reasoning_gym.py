"""Grades with the verifier that a reasoning-gym task brings along."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from ada_lightning.core.options import option, use
from ada_lightning.core.records import Completion, Prompt, Verdict
from ada_lightning.rewards.exact_match import parse_number
from ada_lightning.rewards.extraction import LastNumber

with warnings.catch_warnings():
    # cellpylib 2.4, which reasoning-gym imports, compares with a literal by "is".
    warnings.filterwarnings("ignore", category=SyntaxWarning, module=r".*[/\\]cellpylib[/\\]")
    import reasoning_gym

TASKS_THAT_EVALUATE = {
    "binary_matrix": "eval",
    "composite": "through the tasks it is made of",
    "countdown": "sympy.parse_expr, which evaluates",
    "intermediate_integration": "sympy.parse_expr, which evaluates",
    "n_queens": "eval",
    "polynomial_multiplication": "sympy.parse_expr, which evaluates",
    "puzzle24": "sympy.parse_expr, which evaluates",
    "simple_integration": "sympy.parse_expr, which evaluates",
    "spiral_matrix": "eval",
    "string_insertion": "eval",
}
"""Tasks of reasoning-gym 0.1.25 whose verifier runs the model's text as Python, and how."""

NO_ANSWER = "I do not know"
"""Right nowhere: a verifier that gives it full marks does not read the answer."""


def _numbers(text: str) -> list[Fraction]:
    """Read the list of numbers, as texts or not, that number_sorting asks for."""
    return [Fraction(str(number)) for number in json.loads(text.replace("'", '"'))]


_IS_WRONG: dict[str, Callable[[str, str], bool]] = {
    # Full marks for what the right answer begins with, as 0 is of 0.375; what is right is less than 1e-4 away.
    "coin_flip": lambda text, right: abs(Fraction(text.replace(",", "")) - Fraction(right)) > Fraction(1, 10**4),
    # Full marks for a distance that is no number.
    "complex_arithmetic": lambda text, right: "nan" in text.lower(),
    # Full marks for numbers that are off by up to 1.
    "number_sorting": lambda text, right: _numbers(text) != _numbers(right),
}
"""Whether an answer with full marks is wrong all the same, by task of reasoning-gym 0.1.25: answer, right answer."""


def check_verifier_is_safe(task: str) -> None:
    """Raise ValueError for a task whose verifier would run a model's text as code."""
    if task in TASKS_THAT_EVALUATE:
        raise ValueError(
            f"reasoning-gym's verifier of {task!r} runs the model's text as Python ({TASKS_THAT_EVALUATE[task]}), "
            "so this task is refused; write its prompts to a JSON-lines file and grade them with "
            "ada_lightning.rewards.exact_match.ExactMatchReward or a function of your own"
        )


@option("reward", "reasoning_gym", below="reward", defaults=["_pool"], extraction=use(LastNumber), binary=True)
class ReasoningGymReward:
    """The verifier that a reasoning-gym task brings along: its ``score_answer``; 0 where the response holds no answer.

    Verifiers give partial credit, for example 0.01 for any attempt, or the ratio of lengths where the expected answer
    is a part of the given one. With 0/1 rewards that would count as a little right.

    Five tasks (boxnet, graph_color, propositional_logic, rubiks_cube, rush_hour) accept many answers and name none.
    Majority votes count equal texts there, so right answers split the votes.

    The verdict's answer has runs of white space made one space and numbers in one spelling (``12.0`` is ``12``);
    letters keep their case, which some tasks are about.

    Args:
        extraction: finds the answer in the response; see :mod:`ada_lightning.rewards.extraction`.
        binary: True gives 1.0 for full marks and 0.0 for anything less; False gives the verifier's partial credit.
    """

    answers_without_reference = True

    def __init__(self, extraction: Callable[[str], str | None], *, binary: bool) -> None:
        self.extraction = extraction
        self.binary = binary
        self._datasets: dict[tuple[str, str], Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Leave the verifiers behind: each process builds its own."""
        return {**self.__dict__, "_datasets": {}}

    def check_prompt(self, prompt: Prompt) -> None:
        """Look for the task's verifier and entry.

        Raises:
            ValueError: the prompt does not come from reasoning-gym, its verifier would run the text as code, or it
                gives any text full marks (game_of_life_halting in reasoning-gym 0.1.25).
        """
        if missing := sorted({"task", "config", "entry"} - set(prompt.reference)):
            raise ValueError(
                f"it does not come from reasoning-gym (its reference has no {', '.join(missing)}); use "
                "reward=exact_match or another reward for data of your own"
            )
        task, config, entry = (prompt.reference[key] for key in ("task", "config", "entry"))
        check_verifier_is_safe(task)
        if _score(task, self._dataset(task, config), NO_ANSWER, entry) >= 1:
            raise ValueError(
                f"reasoning-gym's verifier of {task!r} gives {NO_ANSWER!r} full marks, so a policy would learn nothing "
                "from it; use reward=exact_match, which compares with the task's answer, or leave the task out"
            )

    def __call__(self, prompt: Prompt, completion: Completion) -> Verdict:
        """Grade one response.

        Raises:
            KeyError: the prompt does not come from :class:`~ada_lightning.data.reasoning_gym.ReasoningGymSource`.
            ValueError: the verifier of the prompt's task would run the text as code.
        """
        task, config, entry = (prompt.reference[key] for key in ("task", "config", "entry"))
        dataset = self._dataset(task, config)
        answer = self.extraction(completion.text)
        if answer is None:
            return Verdict(0.0)
        score = _score(task, dataset, answer, entry)
        number = parse_number(answer)
        told = " ".join(answer.split()) if number is None else str(number)
        return Verdict(float(score >= 1) if self.binary else score, told)

    def _dataset(self, task: str, config: Mapping[str, Any]) -> Any:
        key = task, json.dumps(config, sort_keys=True)
        if key not in self._datasets:
            check_verifier_is_safe(task)
            self._datasets[key] = reasoning_gym.create_dataset(task, **config)
        return self._datasets[key]


def _score(task: str, dataset: Any, answer: str, entry: Mapping[str, Any]) -> float:
    """Score an answer; one that makes the verifier raise is worth 0, as long as the verifier itself works.

    So is one that a verifier takes for right and that is not (coin_flip: 0 for 0.375): a policy would learn it.

    Some verifiers parse the answer without a guard (prime_factorization: ``int("seven")`` raises). Taken as a failed
    grade, such wrong answers would leave the pool and the pass rate would be too high. A verifier that cannot score the
    task's own answer either is broken, and that is a failed grade.
    """
    try:
        score = float(dataset.score_answer(answer, entry))
        return 0.0 if score >= 1 and task in _IS_WRONG and _IS_WRONG[task](answer, entry["answer"]) else score
    except Exception:  # untrusted text met a parser that trusts it
        dataset.score_answer(entry["answer"], entry)
        return 0.0
