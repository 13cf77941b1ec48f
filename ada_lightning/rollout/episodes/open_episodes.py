"""Episodes that are under way: whose turn it is, what they are made of so far, and where each ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any

from ada_lightning.core.episode import Episode, Turn
from ada_lightning.core.records import Completion, Outcome, Request, Verdict
from ada_lightning.core.step import Step
from ada_lightning.rewards.worker import to_grade
from ada_lightning.rollout.episodes.worker import Call, Reply, failed
from ada_lightning.rollout.grader import Grader


@dataclass(slots=True, eq=False)
class _Open:
    """An episode between its first turn and its end."""

    step: Step
    request: Request
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    is_sampled: list[bool] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    state: bytes = b""
    text: str = ""
    """The model's last turn."""
    is_cut: bool = False
    """Whether the length limit cut that turn."""
    reward: float | None = None
    """Of its turns so far, where the environment gave them any."""
    has_no_room: bool = False
    """Whether the environment is asked what the episode is worth, because its answer had no room."""

    @property
    def num_sampled(self) -> int:
        return sum(self.is_sampled)


class OpenEpisodes:
    """Takes turns of the model to environments and their answers back, episode by episode.

    The order of limits is fixed, so that equal episodes end for equal reasons: ``length`` (a turn cut by the length
    limit, even where its environment ends the episode), an environment's own end, ``turns``, ``context``.

    Args:
        environments: the workers, or what steps them.
        continuation: tokens of an answer, the scaffold around it included.
        max_turns: of the model in one episode.
        seed: of the run.
    """

    def __init__(
        self,
        environments: Grader,
        continuation: Callable[[str], list[int]],
        *,
        max_turns: int,
        seed: int,
    ) -> None:
        self._environments, self._continuation = environments, continuation
        self._max_turns, self._seed = max_turns, seed
        self._open: dict[Any, _Open] = {}
        self._ready: dict[Any, tuple[Step, Request]] = {}
        """Turns to be generated, by place."""
        self._at_environment: set[Any] = set()

    @property
    def num_at_environment(self) -> int:
        """Episodes whose environment is asked."""
        return len(self._at_environment)

    @property
    def num_open(self) -> int:
        """Episodes that are not with the engine."""
        return len(self._at_environment) + len(self._ready)

    @property
    def num_ready(self) -> int:
        """Episodes whose next turn waits for a slot of the engine."""
        return len(self._ready)

    def note_turn(self, place: Any, step: Step, request: Request, said: Outcome) -> None:
        """Take a turn of the model, and ask the environment about it."""
        episode = self._open.setdefault(place, _Open(step, request))
        episode.ids += said.response_ids
        episode.logprobs += said.sampling_logprobs
        episode.is_sampled += [True] * len(said.response_ids)
        episode.text, episode.is_cut = said.text, said.is_truncated
        index = len(episode.turns)
        limit = "length" if said.is_truncated else "turns" if index + 1 >= self._max_turns else ""
        self._ask(place, episode, Call(self._episode_seed(episode), said.completion, index, episode.state, limit))

    def receive(self, max_model_tokens: int, wait_s: float = 0.0) -> Iterator[tuple[Step, Request, Outcome, bool]]:
        """Take what environments have answered: episodes that go on get ready for a turn.

        Args:
            max_model_tokens: prompt and response together, of the engine.
            wait_s: seconds to wait for the first where none is there.

        Yields:
            Each episode that ended, and whether its environment graded it. What becomes of it may :meth:`drop` others,
            whose answers are then passed over.
        """
        for place, reply in self._environments.wait(wait_s) if wait_s else self._environments.poll():
            if place not in self._at_environment:  # of an episode that was dropped meanwhile
                continue
            self._at_environment.discard(place)
            if (found := self._take(place, self._open[place], reply, max_model_tokens)) is not None:
                del self._open[place]
                yield found

    def take_ready(self, number: int) -> list[tuple[Step, Request]]:
        """Return turns to generate now, in launch order: their prefixes are in the engine's cache."""

        def launch(place: Any) -> tuple[int, int]:
            request = self._ready[place][1]
            return request.slot, request.sample_index

        return [self._ready.pop(place) for place in sorted(self._ready, key=launch)[: max(number, 0)]]

    def drop(self, place: Any) -> int:
        """Forget an episode, if there is one; the tokens that were sampled for it."""
        episode = self._open.pop(place, None)
        self._at_environment.discard(place)
        self._ready.pop(place, None)
        return 0 if episode is None else episode.num_sampled

    def clear(self) -> None:
        """Forget all of them."""
        self._open.clear()
        self._ready.clear()
        self._at_environment.clear()
        self._environments.discard_pending()

    def _ask(self, place: Any, episode: _Open, call: Call) -> None:
        self._at_environment.add(place)
        self._environments.submit(place, episode.request.prompt, call)

    def _take(
        self, place: Any, episode: _Open, reply: Reply, max_model_tokens: int
    ) -> tuple[Step, Request, Outcome, bool] | None:
        """Go on with an episode; what it became where it ended."""
        if episode.has_no_room:
            seconds = episode.turns[-1].seconds + reply.seconds
            episode.turns[-1] = replace(episode.turns[-1], seconds=seconds)
        else:
            text = "" if reply.is_end else reply.text
            episode.turns.append(Turn(episode.text, text, reply.num_calls, reply.num_call_errors, reply.seconds))
        if reply.reward is not None:
            episode.reward = (episode.reward or 0.0) + reply.reward
        if reply.is_end:
            return self._ended(episode, reply)
        episode.state = reply.state
        suffix = self._continuation(reply.text)
        request = episode.request
        room = max_model_tokens - len(request.prompt.prompt_ids) - len(episode.ids) - len(suffix)
        if room < 1:
            # The model never sees the answer, so it is no part of the episode.
            episode.turns[-1], episode.has_no_room = replace(episode.turns[-1], reply=""), True
            said = Completion(episode.text)
            index = len(episode.turns) - 1
            call = Call(self._episode_seed(episode), said, index, episode.state, is_cut=True)
            self._ask(place, episode, call)
            return None
        episode.ids += suffix
        episode.logprobs += [0.0] * len(suffix)
        episode.is_sampled += [False] * len(suffix)
        seed = turn_seed(request.seed, len(episode.turns))
        turn = replace(request, seed=seed, max_new_tokens=room, continued_ids=tuple(episode.ids))
        self._ready[place] = episode.step, turn
        return None

    def _ended(self, episode: _Open, reply: Reply) -> tuple[Step, Request, Outcome, bool]:
        if episode.reward is not None and not reply.failure:
            reply = _summed(reply, episode.reward)
        by = "failed" if reply.failure else reply.limit or ("length" if episode.is_cut else "done")
        outcome = Outcome(
            text=episode.text,
            response_ids=tuple(episode.ids),
            sampling_logprobs=tuple(episode.logprobs),
            is_truncated=by in ("length", "turns", "context"),
            grade=reply.grade or Verdict(0.0),
            episode=Episode(tuple(episode.turns), tuple(episode.is_sampled), by),
        )
        return episode.step, episode.request, outcome, reply.grade is not None

    def _episode_seed(self, episode: _Open) -> int:
        """Seed of what an environment draws: its own in the run, whether or not requests are seeded."""
        step, request = episode.step, episode.request
        key = ("environment", self._seed, step.stage, step.step, request.slot, request.prompt.prompt_id)
        return _hashed(*key, request.sample_index)


def _summed(reply: Reply, reward: float) -> Reply:
    """Return the end of an episode whose turns were given a reward."""
    end = reply.grade or Verdict(0.0)
    total = to_grade(Verdict((end.reward or 0.0) + reward, end.answer, end.components))
    return failed(total) if total.failure else replace(reply, grade=total)


def turn_seed(seed: int | None, turn: int) -> int | None:
    """Seed of a turn of an episode: the response's own for the first one, so that a single turn is what it always was.

    Args:
        seed: of the response; None where requests are not seeded.
        turn: from 0.
    """
    return seed if seed is None or turn == 0 else _hashed(seed, "turn", turn)


def _hashed(*parts: Any) -> int:
    """Hash to [0, 2**63)."""
    return int.from_bytes(blake2b("\x1f".join(map(str, parts)).encode(), digest_size=8).digest()) >> 1
