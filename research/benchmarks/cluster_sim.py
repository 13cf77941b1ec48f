"""What schedules cost in the paper's setting, simulated: ``python -m research.benchmarks.cluster_sim``.

The real collector and the real samplers drive simulated engines: 512 prompts, responses of at most 2,048 tokens, eight
data-parallel replicas, one GPU each. Three parts:

1. **Validation.** Real rollouts that were measured on a CPU (``python -m research.benchmarks.cluster_sim_cpu_curve``)
   are simulated with the step times measured in the same run.
2. **Scenarios.** Seconds of generation relative to GRPO with 4 responses, for pass-rate mixes that reproduce sample
   counts of the paper (:mod:`research.benchmarks.simulation.pass_rates`) and step times of an H100-class GPU derived
   from public figures (:mod:`research.benchmarks.simulation.gpu`).
3. **Engines.** One collector over 1 to 16 of them.

``--overlap`` simulates instead what rollouts and updates that overlap would cost, with a lag of 0 to 3 steps
(:mod:`research.benchmarks.overlap`), and writes ``docs/performance/cluster_overlap.json``.

Every schedule of a scenario commits the same responses, so its ratio to another is one of time alone.

Assumed, as nothing is published: lengths are lognormal with a median of 500 tokens for right answers and 1.5 times that
for wrong ones, sigma 0.5, cut at 2,048 (mean about 700); prompts of 150 tokens; grading takes no time; KV memory
suffices; 1,024 slots per replica (verl's default ``max_num_seqs``).

Writes ``docs/performance/cluster_sim.json``.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import Any

from ada_lightning.core.protocols import Sampler
from ada_lightning.core.records import Prompt, SamplingSettings
from ada_lightning.core.schedule import Barrier, Continuous, Schedule
from ada_lightning.core.step_records import StepSettings
from ada_lightning.methods.sampling import BalanceSampler, UniformSampler
from ada_lightning.methods.selection import BalancedSelection
from research.benchmarks import report
from research.benchmarks.overlap import ASSUMED, OverlappedRun
from research.benchmarks.simulation import cpu, validation
from research.benchmarks.simulation.engine import SimulatedEngine
from research.benchmarks.simulation.gpu import MODELS, h100
from research.benchmarks.simulation.pass_rates import MIXES
from research.benchmarks.simulation.replica import Fates
from research.benchmarks.simulation.rolling_engine import RollingEngine
from research.drive import collect
from research.scripted import ScriptedGrader

NUM_PROMPTS, PROMPT_TOKENS, MAX_NEW_TOKENS = 512, 150, 2048
NUM_REPLICAS, SLOTS = 8, 1024
REENTRY_S = 5.0
"""Assumed cost of one re-entry of the hybrid engine (weight sync, KV cache, new graders); nothing is published."""
SCHEDULES = ("barrier", "continuous", "continuous, ahead")
"""Of balance, for nothing but their own time."""
WAYS = (
    (0, "in turns", False),
    (0, "in turns", True),
    (1, "drained", False),
    (1, "drained", True),
    (1, "rolling", False),
    (1, "rolling", True),
    (1, "side by side", False),
    (1, "side by side", True),
    (2, "rolling", False),
    (2, "rolling", True),
    (2, "side by side", False),
    (2, "side by side", True),
    (3, "side by side", False),
)
"""Of ``--overlap``: lag, how versions reach engines, and whether prompts are computed as they are complete."""
UPDATE_S = {"1.5B": 15.0, "7B": 85.0}
"""Seconds of an update by model, published for GRPO (arXiv:2510.04996v1, table 2)."""
CURVE = report.FOLDER / "cluster_sim_cpu_curve.json"


@dataclass(frozen=True)
class Setting:
    """Everything of a scenario but the method."""

    model: str = "1.5B"
    mix: str = "step 200"
    block: int = 4
    replicas: int = NUM_REPLICAS


@dataclass(frozen=True)
class Method:
    """Who samples what when."""

    sampler: Sampler
    schedule: Schedule = field(default_factory=Continuous)
    reentry_s: float = 0.0


@dataclass(frozen=True)
class Outcome:
    """One simulated rollout."""

    seconds: float
    responses: int
    committed_tokens: int
    wasted_tokens: int


def methods(setting: Setting) -> dict[str, Method]:
    """The methods compared."""
    balance = BalanceSampler(k_pos=2, k_neg=2, samples_per_round=setting.block, n_max=32, group_size=4)
    return {
        "GRPO n=4": Method(UniformSampler(group_size=4)),
        "barrier + re-entry": Method(balance, Barrier(), REENTRY_S),
        "barrier": Method(balance, Barrier()),
        "continuous": Method(balance, Continuous()),
        "continuous, ahead": Method(balance, Continuous(fill_to=setting.replicas * SLOTS)),
    }


def simulate(setting: Setting, method: Method) -> Outcome:
    """Run the real collector on simulated replicas."""
    rates = dict(enumerate(MIXES[setting.mix].rates(NUM_PROMPTS, seed=0)))
    engine = SimulatedEngine(
        Fates(rates, median_tokens=500.0, sigma=0.5, wrong_length_ratio=1.5),
        h100(MODELS[setting.model]),
        num_replicas=setting.replicas,
        slots=SLOTS,
        reentry_s=method.reentry_s,
    )
    _, stats = collect(
        [Prompt(f"p{key}", (), prompt_ids=(key,) * PROMPT_TOKENS) for key in rates],
        method.sampler,
        engine=engine,
        grader=ScriptedGrader(),
        selection=BalancedSelection(group_size=4),
        schedule=method.schedule,
        settings=MAX_NEW_TOKENS,
    )
    return Outcome(
        seconds=engine.now,
        responses=stats.num_drawn,
        committed_tokens=stats.generated_tokens,
        wasted_tokens=stats.wasted_tokens,
    )


def compare(setting: Setting, names: Sequence[str] = ()) -> dict[str, Outcome]:
    """Methods on the same prompts and responses."""
    chosen = {name: method for name, method in methods(setting).items() if name in names or not names}
    outcomes = {name: simulate(setting, method) for name, method in chosen.items()}
    same = {outcomes[name].committed_tokens for name in SCHEDULES}
    assert len(same) == 1, f"schedules committed different responses: {same}"
    if not names:
        num_equal = round(outcomes["barrier"].responses / NUM_PROMPTS)
        outcomes[f"GRPO n={num_equal}"] = simulate(setting, Method(UniformSampler(group_size=num_equal)))
    return outcomes


def as_rows(outcomes: dict[str, Outcome]) -> list[dict[str, Any]]:
    """Figures of a comparison, as primitives."""
    base = outcomes["GRPO n=4"].seconds
    return [
        {
            "method": name,
            "seconds": round(outcome.seconds, 2),
            "relative_to_grpo_4": round(outcome.seconds / base, 3),
            "responses_per_prompt": round(outcome.responses / NUM_PROMPTS, 2),
            "waste": round(outcome.wasted_tokens / outcome.committed_tokens, 4),
        }
        for name, outcome in outcomes.items()
    ]


def validate() -> list[dict[str, Any]]:
    """Simulated against measured seconds of the stored CPU rollouts."""
    measured = json.loads(CURVE.read_text())
    rows = []
    for name, (seconds, stats) in validation.simulate(cpu.load_curve(measured["curve"])).items():
        rollout = measured["rollouts"][name]
        assert stats.generated_tokens == rollout["committed_tokens"], f"{name}: other responses than were measured"
        wanted = statistics.median(rollout["seconds"])
        figures = {"measured_s": round(wanted, 3), "simulated_s": round(seconds, 3)}
        rows.append({"case": name, **figures, "error": round(seconds / wanted - 1, 4)})
        print(rows[-1], flush=True)
    return rows


def scaling() -> list[dict[str, Any]]:
    """One collector over 1 to 16 engines: seconds, and what of a linear gain is left.

    Every engine has the same slots, requests go to the one with the fewest in flight, and all engines share the tail of
    the longest chains of blocks, which no number of engines shortens.
    """
    rows: list[dict[str, Any]] = []
    for replicas in (1, 2, 4, 8, 16):
        setting = Setting(replicas=replicas)
        outcomes = compare(setting, ("GRPO n=4", *SCHEDULES))
        row: dict[str, Any] = {"engines": replicas}
        for name, outcome in outcomes.items():
            alone = rows[0][name]["seconds"] if rows else outcome.seconds
            row[name] = {
                "seconds": round(outcome.seconds, 2),
                "efficiency": round(alone / outcome.seconds / replicas, 3),
                "waste": round(outcome.wasted_tokens / outcome.committed_tokens, 4),
            }
        rows.append(row)
        print(row, flush=True)
    return rows


def overlap(model: str, engines: Sequence[int], *, num_steps: int = 16, num_warm: int = 4) -> None:
    """Seconds of a step by lag, way of giving weights, and number of engines; printed and saved row by row.

    Efficiency is seconds of a rollout alone with one engine, over those of a step, divided by the number of engines.
    Copies, syncs and optimisers of a larger model take longer by its weights.
    """
    times = {"update_s": UPDATE_S[model]}
    times |= {name: seconds * _size(model) for name, seconds in ASSUMED.items()}
    alone = _overlapped(model, 1, lag=0, **times | {"update_s": 0.0, "sync_s": 0.0})
    alone.run(2)
    work_s = alone.period(1)
    settings = {**{name: round(seconds, 2) for name, seconds in times.items()}, "steps": num_steps, "warm_up": num_warm}
    of_model: dict[str, Any] = {"work_s": round(work_s, 2), "settings": settings}
    models, rows = _stored_overlap(model, of_model)
    for replicas, (lag, way, streams) in product(engines, WAYS):
        row = {"model": model, "engines": replicas, "lag": lag, "way": way, "streamed": streams}
        if any(row.items() <= other.items() for other in rows):
            continue
        run = _overlapped(model, replicas, lag=lag, way=way, streams=streams, **times)
        run.run(num_steps)
        period = run.period(num_warm)
        row |= {"period_s": round(period, 2), "efficiency": round(work_s / replicas / period, 3)}
        rows.append(row | {"waste": round(run.waste, 4)})
        print(rows[-1], flush=True)
        place = {way[:2]: index for index, way in enumerate(WAYS)}
        in_order = sorted(
            rows, key=lambda row: (row["model"], row["engines"], place[row["lag"], row["way"]], row["streamed"])
        )
        report.save("cluster_overlap", module="cluster_sim", models=models, rows=in_order)


def _size(model: str) -> float:
    """Weights of a model over those for which times are assumed."""
    return MODELS[model].num_parameters / MODELS["1.5B"].num_parameters


def _stored_overlap(model: str, figures: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What is stored of all models, but for rows of this one that had other figures. It goes on where it was killed."""
    file = report.FOLDER / "cluster_overlap.json"
    stored = json.loads(file.read_text()) if file.exists() else {"models": {}, "rows": []}
    is_same = stored["models"].get(model) == figures
    rows = [row for row in stored["rows"] if is_same or row["model"] != model]
    return stored["models"] | {model: figures}, rows


def _overlapped(model: str, replicas: int, *, way: str = "in turns", **options: Any) -> OverlappedRun:
    setting = Setting(model=model, replicas=replicas)
    method = methods(setting)["continuous, ahead"]
    rates = dict(enumerate(MIXES[setting.mix].rates(NUM_PROMPTS, seed=0)))
    rolls = way == "rolling"
    kind = partial(RollingEngine, load_s=options["sync_s"] - options["copy_s"]) if rolls else SimulatedEngine
    engine = kind(
        Fates(rates, median_tokens=500.0, sigma=0.5, wrong_length_ratio=1.5),
        h100(MODELS[setting.model]),
        num_replicas=replicas,
        slots=SLOTS,
    )
    return OverlappedRun(
        engine=engine,
        drains=way == "drained",
        rolls=rolls,
        prompts=[Prompt(f"p{key}", (), prompt_ids=(key,) * PROMPT_TOKENS) for key in rates],
        sampler=method.sampler,
        settings=StepSettings(seed=0, schedule=method.schedule),
        sampling=SamplingSettings(max_new_tokens=MAX_NEW_TOKENS),
        **options,
    )


def main() -> None:
    """Validate, simulate, print, save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only-validate", action="store_true", help="renew the validation, keep the stored scenarios")
    parser.add_argument("--overlap", action="store_true", help="simulate steps that overlap, and nothing else")
    parser.add_argument("--model", choices=list(UPDATE_S), default="1.5B", help="with --overlap")
    parser.add_argument("--engines", type=int, nargs="+", default=[16, 8, 4, 2, 1], help="with --overlap")
    arguments = parser.parse_args()
    if arguments.overlap:
        overlap(arguments.model, arguments.engines)
        return
    stored = report.FOLDER / "cluster_sim.json"
    checked = validate() if CURVE.exists() else []
    if arguments.only_validate:
        stored.write_text(json.dumps(json.loads(stored.read_text()) | {"validation": checked}, indent=1) + "\n")
        return
    scenarios = []
    settings = [
        Setting(mix=mix, block=block) for block in (4, 8) for mix in ("step 50", "step 200", "step 600", "wide")
    ]
    for setting in [*settings, *(Setting(model="7B", mix="7B, step 200", block=block) for block in (4, 8))]:
        rows = as_rows(compare(setting))
        scenarios.append({"model": setting.model, "mix": setting.mix, "block": setting.block, "rows": rows})
        print(scenarios[-1], flush=True)
    print(report.save("cluster_sim", validation=checked, scenarios=scenarios, engines=scaling()))


if __name__ == "__main__":
    main()
