"""Responses of weights that do not change: those of each prompt of a list, as they are complete."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from ada_lightning.core.records import Outcome, Prompt, SamplingSettings
from ada_lightning.core.step import Step
from ada_lightning.methods.sampling.uniform import UniformSampler
from ada_lightning.methods.selection import AllSelection
from ada_lightning.rollout.driver import Driver
from ada_lightning.rollout.engine_supervisor import EngineSupervisor
from ada_lightning.rollout.engines.errors import EngineError
from ada_lightning.rollout.service import RolloutService


@dataclass(frozen=True, slots=True)
class DrawnPrompt:
    """A prompt with all of its responses. Nothing is left out: what they count as is the reader's to say."""

    position: int
    """Index of the prompt in the whole list that is worked off; part of every seed."""
    prompt: Prompt
    draws: tuple[Outcome, ...]
    """By sample index, from 0."""


@dataclass(slots=True)
class DrawCounts:
    """How far a stream is."""

    num_prompts: int = 0
    """Prompts whose responses are all graded."""
    num_responses: int = 0
    """Responses generated."""
    num_tokens: int = 0
    """Response tokens generated."""


def draw(
    service: RolloutService,
    prompts: Sequence[tuple[int, Prompt]],
    *,
    num_samples: int,
    stage: str,
    sampling: SamplingSettings | None = None,
    has_graded: bool = False,
    report: Callable[[DrawCounts], None] = lambda counts: None,
    interrupt_check: Callable[[], None] = lambda: None,
) -> Generator[DrawnPrompt, None, None]:
    """Draw and grade responses of the weights that the engine was opened with; nothing is synced.

    Every response has a seed of its position, prompt and sample index, so it does not matter which prompts are
    drawn together, nor in how many parts. The seeds are those of step 0 of ``stage``. A broken engine is replaced,
    and what it owed is drawn again.

    Args:
        service: open.
        prompts: (position in the whole list, encoded prompt), positions distinct.
        num_samples: responses per prompt.
        stage: part of every seed.
        sampling: how tokens are drawn; as in training if not given.
        has_graded: whether the reward graded a response of this list before; else it must before anything is kept.
        report: told of the counts after every engine step.
        interrupt_check: called between engine steps; may raise.

    Yields:
        Each prompt once all of its responses are graded, in the order of becoming so.

    Raises:
        EngineError: the engine broke more often in a row than ``max_engine_restarts``.
        RunStoppedError: the reward has graded nothing so far; nothing was yielded.
        RuntimeError: the service is not open, or its engine holds weights of a training run.
        ValueError: a prompt leaves no room for a response.
    """
    if (version := service.engine.loaded_version) is not None:
        raise RuntimeError(f"the engine holds policy version {version}; fixed weights need their own")
    sampling = sampling or service.sampling
    check_room([prompt for _, prompt in prompts], sampling, service.max_model_tokens)
    grades = service.first_grades
    if has_graded:
        grades.trust()
    raw = replace(service.settings, truncated="grade")  # what a response counts as is the reader's to say
    begin = partial(Step, sampler=UniformSampler(group_size=num_samples), selection=AllSelection(), settings=raw)
    counts = DrawCounts()

    def tell_counts() -> None:
        counts.num_responses, counts.num_tokens = driver.num_generated, driver.num_tokens
        report(counts)

    # Each prompt is a step of its own, opened as slots get free, and nothing is kept of it once it is handed over.
    driver = service.driver(
        (begin([prompt], stage=stage, first_slot=position) for position, prompt in prompts),
        sampling,
        raw,
        outlives_engine=True,
        report=tell_counts,
        interrupt_check=interrupt_check,
    )
    held: list[DrawnPrompt] = []  # until a response is graded: what a broken reward said is not to be kept
    for step in _steps_in_spite_of_breaks(driver, service.engine):
        counts.num_prompts += 1
        held.append(_drawn(step))
        if grades.note(draw.grade for draw in held[-1].draws):
            yield from held
            held.clear()
    if held:
        grades.check_list()


def check_room(prompts: Sequence[Prompt], sampling: SamplingSettings, max_model_tokens: int, *, of: str = "") -> None:
    """Compare the longest prompt and response with the model's room.

    Raises:
        ValueError: they need more; names ``of``, what the prompts are.
    """
    longest = max((len(prompt.prompt_ids) for prompt in prompts), default=0)
    if (needed := longest + sampling.max_new_tokens) > max_model_tokens:
        raise ValueError(
            f"rollout.max_model_tokens = {max_model_tokens} has no room for the longest prompt{of and f' of {of}'}, "
            f"{longest} tokens, and a response of {sampling.max_new_tokens}; use rollout.max_model_tokens={needed} or "
            "more, or lower max_prompt_tokens or sampling.max_new_tokens"
        )


def _steps_in_spite_of_breaks(driver: Driver, engine: EngineSupervisor) -> Generator[Step, None, None]:
    """Yield steps as they are complete; a broken engine is replaced, and what it owed is drawn again."""
    num_in_a_row = 0
    while True:
        try:
            for step in driver.run(engine.opened()):
                num_in_a_row = 0
                yield step
            return
        except EngineError as error:
            num_in_a_row += 1
            engine.give_up(error, num_in_a_row)


def _drawn(step: Step) -> DrawnPrompt:
    """Return all that was drawn for the only prompt of a step."""
    ((prompt, slot),) = [(group.pool.prompt, group.pool.slot) for group in step.finish()]
    return DrawnPrompt(slot, prompt, tuple(outcome for _, outcome in sorted(step.outcomes(slot).items())))
