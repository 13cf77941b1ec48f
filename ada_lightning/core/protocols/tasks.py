"""Where prompts come from, and what grades responses to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ada_lightning.core.records import Completion, Prompt, Verdict


class PromptSource(Protocol):
    """Where prompts come from, with disjoint train and held-out lists fixed by a seed.

    A source may have more. ``check()`` raises ValueError for what can be found wrong without a model. ``reports`` and
    ``notes`` say what became of its rows (:mod:`ada_lightning.data.report`). ``epoch(prompts)`` repeats usable training
    prompts as often as an epoch is to show them.
    """

    def train_prompts(self) -> Sequence[Prompt]:
        """Prompts to learn from, in a stable order."""
        ...

    def heldout_prompts(self) -> Sequence[Prompt]:
        """Prompts to evaluate on; none of them is a training prompt."""
        ...


class Reward(Protocol):
    """A picklable grader that runs in worker processes and never imports torch.

    It may also define

    - ``modules``: names of modules that grading imports late, imported before the first response: their import must not
      count against its time limit,
    - ``check() -> None``: raise ValueError for what can be found wrong without a response; called before any model
      loads and in every worker,
    - ``check_prompt(prompt) -> None``: raise ValueError for a prompt it can never grade, such as one whose reference
      answer it cannot parse; called in a worker for every prompt before any model loads,
    - ``answers_without_reference``: True where its verdicts tell answers in which the reference has no part, False
      where they tell answers that depend on it; samplers that make labels of answers need the former,
    - ``cacheable = False``: where equal responses to a prompt need not get equal rewards,
    - ``cache_key(completion) -> str | None``: the part of a response that alone decides its reward, where that is less
      than text and finish reason; called in the trainer's process, so it must be quick whatever the text.
    """

    def __call__(self, prompt: Prompt, completion: Completion) -> float | Verdict:
        """Grade one response.

        The pool turns an exception into a :class:`Verdict` of 0, and leaves the response out where the exception says
        that a server or a file failed (``OSError``, ``ConnectionError``, ``TimeoutError``).

        Returns:
            The reward, a finite number; or a :class:`~ada_lightning.core.records.Verdict`, which also tells the answer
            found (majority votes need it) and the reward's components (each is logged).
        """
        ...
