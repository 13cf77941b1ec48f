"""What trl-cgrpo's update follows, and ours: ``python -m research.benchmarks.trl_cgrpo --package FOLDER``.

The package wants an older TRL, so both stand in a folder of their own, which comes before everything that is installed:
``pip install --no-deps --target FOLDER trl==1.14.2 trl-cgrpo==0.2.0``.

The real trainers are given every order of right and wrong responses of one token, a group each, and say what each row's
advantage is; with pass rate p a right response's score is ``1/p`` and a wrong one's ``-1/(1-p)``, so the sum over all
orders of their probability times ``sum of advantage * score`` is the expected update in units of grad p, exactly.
Thresholds are calibrated by the package's own functions on prompts of all pass rates. Ours are cores, asked in the same
way. Writes ``docs/studies/trl/cgrpo.json``; ``python -m research.benchmarks.tables`` makes the table of it.
"""

from __future__ import annotations

import argparse
import itertools
import math
import random
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ada_lightning.adapters import Core
from research.benchmarks.report import DOCS, save

GRID = (2, 4, 8)
"""``budget_grid``; the package's own goes on to 32, whose 2^32 orders nobody can ask for."""
SCORES = ("first_success", "pass_rate", "aps")
SCALES = ("none", "group")
"""``scale_rewards``; the second is TRL's default."""
PASS_RATES = (0.05, 0.2, 0.5, 0.8, 0.95)
CALIBRATION_PROMPTS = 400
SMALL = {"n_max": GRID[-1], "samples_per_round": GRID[0]}
OURS: Mapping[str, Callable[[float], float]] = {
    "linear": lambda rate: 1.0,
    "log": lambda rate: (1 - (1 - rate) ** (GRID[-1] - 1)) / rate,
}
"""By objective, what ``Core.statement`` says is followed."""


@dataclass(frozen=True)
class End:
    """One way a prompt's sampling can end."""

    outcomes: tuple[int, ...]
    """1 where a response is right, in the order they were drawn."""
    advantages: Mapping[int, float]
    """By position."""

    def update(self, pass_rate: float) -> float:
        """``sum of advantage * score``."""
        score = {1: 1 / pass_rate, 0: -1 / (1 - pass_rate)}
        return math.fsum(value * score[self.outcomes[at]] for at, value in self.advantages.items())

    def probability(self, pass_rate: float) -> float:
        """Of this order."""
        return math.prod(pass_rate if right else 1 - pass_rate for right in self.outcomes)


def main() -> None:
    """Measure, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--package", type=Path, required=True, help="folder with trl-cgrpo and its TRL")
    folder = parser.parse_args().package
    if not (folder / "trl_cgrpo").is_dir():
        sys.exit(
            f"error: {folder} has no trl_cgrpo; make it by: pip install --no-deps --target {folder} trl==1.14.2 "
            "trl-cgrpo==0.2.0"
        )
    sys.path.insert(0, str(folder.resolve()))
    rows: list[dict[str, Any]] = [
        {"method": f"trl-cgrpo, {score}", "scale_rewards": scale} | figures(cgrpo_ends(score, scale))
        for score in SCORES
        for scale in SCALES
    ]
    rows += [{"method": "GRPO, 8 responses", "scale_rewards": scale} | figures(fixed_ends(scale)) for scale in SCALES]
    for method, (objective, stated) in itertools.product(("ada_seq_pos", "ada_seq_balance"), OURS.items()):
        core = Core(method, prompts=["a"], objective=objective, **SMALL)
        found = {"method": f"{method}, objective={objective}", "stated": [stated(rate) for rate in PASS_RATES]}
        rows.append(found | figures(core_ends(core)))
    path = save("cgrpo", folder=DOCS / "studies" / "trl", module="trl_cgrpo", pass_rates=PASS_RATES, rows=rows)
    print(path)


def figures(ends: Sequence[End]) -> dict[str, list[float]]:
    """Return the expected update and the responses drawn, by pass rate."""
    found: dict[str, list[float]] = {"update": [], "responses": []}
    for rate in PASS_RATES:
        chances = [end.probability(rate) for end in ends]
        if not math.isclose(math.fsum(chances), 1.0, abs_tol=1e-9):
            raise ValueError("these are not all the ways in which sampling can end")
        found["update"].append(math.fsum(c * end.update(rate) for c, end in zip(chances, ends, strict=True)))
        found["responses"].append(math.fsum(c * len(end.outcomes) for c, end in zip(chances, ends, strict=True)))
    return found


def core_ends(core: Core) -> list[End]:
    """Return every way in which a step of a core's one prompt can end."""
    ends: list[End] = []
    stack: list[tuple[int, ...]] = [()]
    while stack:
        outcomes = stack.pop()
        pools = core.choose(num_prompts=1)
        (pool,) = pools
        given = list(outcomes)
        while not pools.is_complete and given:
            (index,) = pool.launch(1)
            pool.add(index, float(given.pop(0)), num_tokens=1, payload=index)
        if pools.is_complete:
            ends.append(End(outcomes, {row.payload: row.advantage for row in pool.kept()}))
        else:
            stack += [(*outcomes, 0), (*outcomes, 1)]
        core.abandon()
    return ends


def fixed_ends(scale: str) -> list[End]:
    """TRL's own group of :data:`GRID`'s last size."""
    return _trainer_ends(lambda trainer_of: trainer_of(None), scale)


def cgrpo_ends(score: str, scale: str) -> list[End]:
    """The package's rule with thresholds that its own functions calibrate."""
    from trl_cgrpo import conformal_quantile, select_delta_auto

    def calibrated(trainer_of: Callable[[str | None], Any]) -> Any:
        trainer = trainer_of(score)
        generator = random.Random(0)
        scores = []
        for number in range(CALIBRATION_PROMPTS):
            rate = (number + 0.5) / CALIBRATION_PROMPTS
            outcomes: list[Any] = [generator.random() < rate for _ in range(GRID[-1])]
            if score == "aps":
                outcomes = [LETTERS[right] for right in outcomes]
            scores.append({k: trainer._score(outcomes, {"answer": LETTERS[1]}, k) for k in GRID})
        delta, _ = select_delta_auto([found[GRID[-1]] for found in scores])
        trainer.qhats = {k: conformal_quantile([found[k] for found in scores], delta) for k in GRID}
        trainer._last_calibration_step = 0
        return trainer

    return _trainer_ends(calibrated, scale)


LETTERS = ("n", "y")


def _trainer_ends(make: Callable[[Callable[[str | None], Any]], Any], scale: str) -> list[End]:
    """Give a trainer every order at once, a group each, and read its advantages back."""
    from trl import GRPOTrainer

    orders = list(itertools.product((0, 1), repeat=GRID[-1]))
    rows = [{"prompt": f"{number}: ", "answer": LETTERS[1]} for number in range(len(orders))]
    trainer = make(lambda score: _trainer(rows, score, scale))
    letters = [trainer.processing_class(letter)["input_ids"][0] for letter in LETTERS]
    of_prompt = {tuple(trainer.processing_class(row["prompt"])["input_ids"]): at for at, row in enumerate(rows)}
    drawn = [0] * len(orders)

    def scripted(self: Any, prompt_ids: Any, *others: Any, **more: Any) -> tuple[list[list[int]], None]:
        completions = []
        for ids in prompt_ids:
            group = of_prompt[tuple(ids)]
            completions.append([letters[orders[group][drawn[group]]]])
            drawn[group] += 1
        return completions, None

    own = GRPOTrainer._generate_single_turn
    GRPOTrainer._generate_single_turn = scripted
    try:
        output = trainer._generate_and_score_completions([row for row in rows for _ in range(GRID[-1])])
    finally:
        GRPOTrainer._generate_single_turn = own
    counted = int(output["num_items_in_batch"])
    if counted != sum(drawn) or int(output["completion_mask"].sum()) != counted:
        raise ValueError(f"the trainer counts {counted} tokens of {sum(drawn)} that were drawn")
    advantages = iter(output["advantages"].tolist())
    ends = {}
    for order, number in zip(orders, drawn, strict=True):
        group = list(itertools.islice(advantages, GRID[-1]))
        ends[order[:number]] = End(order[:number], dict(enumerate(group[:number])))
    return list(ends.values())


def _trainer(rows: Sequence[Mapping[str, Any]], score: str | None, scale: str) -> Any:
    """The package's trainer of a score; TRL's own where there is none."""
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from ada_lightning.training.models.tiny import TinyLlama

    folder = TinyLlama(hidden_size=64, num_layers=2, num_heads=2).prepare()
    data = Dataset.from_list(list(rows))
    settings: dict[str, Any] = {
        **{"output_dir": tempfile.mkdtemp(), "use_cpu": True, "bf16": False, "report_to": "none"},
        **{"max_completion_length": 1, "num_generations": GRID[-1], "scale_rewards": scale},
        "per_device_train_batch_size": GRID[-1] * len(rows),
    }
    given: dict[str, Any] = {
        "model": AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=False),
        "processing_class": AutoTokenizer.from_pretrained(folder, trust_remote_code=False),
        "reward_funcs": lambda completions, **columns: [float(text == LETTERS[1]) for text in completions],
        "train_dataset": data,
    }
    if score is None:
        from trl import GRPOConfig, GRPOTrainer

        trainer = GRPOTrainer(args=GRPOConfig(**settings), **given)
    else:
        from trl_cgrpo import CGRPOConfig, CGRPOTrainer

        given |= {"answer_extractor": str} if score == "aps" else {"verifier": _is_right}
        arguments = CGRPOConfig(budget_grid=list(GRID), score=score, **settings)
        trainer = CGRPOTrainer(args=arguments, calibration_dataset=data, **given)
    trainer.model.train()
    return trainer


def _is_right(completions: Sequence[str], **columns: Any) -> list[bool]:
    return [text == LETTERS[1] for text in completions]


if __name__ == "__main__":
    main()
