"""An engine without a model: responses are coin flips of a known pass rate, finished in a chosen order.

For tests that need exact numbers or a fixed order of events, and for simulations.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ada_lightning.core.protocols import RolloutEngine
from ada_lightning.core.records import Completion, Outcome, Prompt, SamplingSettings, Verdict
from ada_lightning.rollout.engines.errors import check_fits

if TYPE_CHECKING:
    from torch import Tensor

POSITIVE_TOKEN = 1
NEGATIVE_TOKEN = 0


class ScriptedEngine(RolloutEngine):
    """Draws ``POSITIVE_TOKEN`` with the prompt's pass rate, else ``NEGATIVE_TOKEN``, then padding up to a length.

    Args:
        pass_rates: pass rate by the prompt's first token id.
        num_polls: polls until a request finishes, as a function of a private generator and of whether the response
            is positive. Making positives faster is how tests provoke completion-order bias.
        max_model_tokens: prompt and response together.
        max_num_seqs: slots. Requests beyond them would run all the same; whoever submits keeps to it.
        seed: of requests that bring no seed of their own.
    """

    def __init__(
        self,
        *,
        pass_rates: Mapping[int, float],
        num_polls: Callable[[random.Random, bool], int] = lambda generator, is_positive: 1,
        max_model_tokens: int = 1024,
        max_num_seqs: int = 256,
        seed: int = 0,
    ) -> None:
        self.max_model_tokens = max_model_tokens
        self.max_num_seqs = max_num_seqs
        self.policy_version = -1
        self.num_aborted = 0
        self._pass_rates = pass_rates
        self._num_polls = num_polls
        self._generator = random.Random(seed)
        self._running: dict[str, tuple[int, Outcome]] = {}
        self._clock = 0

    def submit(self, request_id: str, prompt_ids: Sequence[int], settings: SamplingSettings, seed: int | None) -> None:
        """Decide the response now, deliver it after its number of polls.

        Raises:
            ValueError: no room for the prompt.
        """
        check_fits(len(prompt_ids), settings.max_new_tokens, self.max_model_tokens)
        generator = self._generator if seed is None else random.Random(seed)
        is_positive = generator.random() < self._pass_rates[prompt_ids[0]]
        generation = Outcome(
            text="",
            request_id=request_id,
            response_ids=(POSITIVE_TOKEN if is_positive else NEGATIVE_TOKEN,),
            sampling_logprobs=(-0.5,),
            is_truncated=False,
        )
        self._running[request_id] = (self._clock + self._num_polls(generator, is_positive), generation)

    def poll(self) -> list[Outcome]:
        """Advance the clock by one and return what is due."""
        self._clock += 1
        due = [request_id for request_id, (at, _) in self._running.items() if at <= self._clock]
        return [self._running.pop(request_id)[1] for request_id in due]

    def abort(self, request_ids: Sequence[str]) -> int:
        """Drop requests. Their single tokens come at the end, so none had been generated."""
        for request_id in request_ids:
            self.num_aborted += self._running.pop(request_id, None) is not None
        return 0

    def num_in_flight(self) -> int:
        """Requests submitted and neither returned nor aborted."""
        return len(self._running)

    def load_weights(self, named_tensors: Iterable[tuple[str, Tensor]], policy_version: int) -> None:
        """Remember the version; there are no weights.

        Raises:
            RuntimeError: requests are in flight.
        """
        if self._running:
            raise RuntimeError(f"load_weights with {len(self._running)} requests in flight")
        for _ in named_tensors:
            continue
        self.policy_version = policy_version

    def close(self) -> None:
        """Drop everything."""
        self._running.clear()


class ScriptedGrader:
    """Grades the scripted engine's responses at once and in this process: ``POSITIVE_TOKEN``, as text, is right."""

    def __init__(self) -> None:
        self._ready: list[tuple[Any, Verdict]] = []

    def submit(self, ticket: Any, prompt: Prompt, completion: Completion) -> None:
        """Grade one response."""
        self._ready.append((ticket, Verdict(float(completion.text == str(POSITIVE_TOKEN)))))

    def poll(self) -> list[tuple[Any, Verdict]]:
        """Return the verdicts since the last call."""
        ready, self._ready = self._ready, []
        return ready

    def wait(self, timeout_s: float) -> list[tuple[Any, Verdict]]:
        """Return the verdicts since the last call; there is nothing to wait for."""
        return self.poll()

    def discard_pending(self) -> None:
        """Forget what was submitted."""
        self._ready.clear()
