"""The sentences of docs/studies/signal_loss.md say what its files say; its tables are held by test_tables.py."""

from __future__ import annotations

import re

import pytest

from research.studies.group_signal.measured import measured_figures, read_counts
from research.studies.group_signal.place import FOLDER, counts_file
from research.studies.group_signal.published_mix import published_mix
from research.studies.group_signal.tables import load

PAGE = re.sub(r"\s+", " ", (FOLDER.parent / "signal_loss.md").read_text())


def interval(found, sign=1):
    ends = sorted(sign * 100 * found[end] for end in ("low", "high"))
    return f"{sign * 100 * found['mean']:.1f} [{ends[0]:.1f}, {ends[1]:.1f}]"


def share(found):
    return f"{100 * found['mean']:.1f} % [{100 * found['low']:.1f}, {100 * found['high']:.1f}]"


def over_mixes(figure):
    values = [figure(found) for found in load("by_mix").values()]
    return min(values), max(values)


def test_sentences_about_the_trained_model():
    trained = load("measured")["trained"]
    rules, curves = trained["rules"], trained["curves"]
    (never, _, alpha, beta), (lowest, highest) = trained["fit"]["mix"], trained["fit"]["never_interval"]
    balance, first = rules["Seq-balance, blocks of 4"], rules["posterior exit, first visit"]
    for sentence in (
        f"on the trained model {interval(balance['lead_signal'])} points ({100 * balance['signal']['mean']:.1f} % of "
        f"the prompts instead of {100 * balance['uniform_signal']['mean']:.1f} %)",
        f"by {interval(rules['Seq-pos, blocks of 4']['lead_signal'], -1)} points",
        f"by {interval(first['lead_balanced'])} points in prompts with two of each and *trails* by "
        f"{interval(first['lead_signal'], -1)}",
        f"With the {balance['responses']['mean']:.1f} responses of Seq-balance on the trained model",
        f"reaches {100 * balance['best_without_history']:.1f} % of the prompts, and one that knows every prompt's "
        f"pass rate {100 * balance['best_with_known_rates']:.1f} %",
        f"{share(curves['all_right']['4'])} and {share(curves['all_right']['256'])} for the model trained here",
        f"the fit has {100 * trained['fit']['curves']['all_right']['256']:.1f} % of the groups of 256 all right where "
        f"{share(curves['all_right']['256'])} were measured",
        f"Beta({alpha:.3f}, {beta:.3f}) with {100 * never:.1f} % [{100 * lowest:.0f}, {100 * highest:.1f}] never "
        "solved is the likeliest here",
        "All right or all wrong: {:.1f} % and {:.1f} % here".format(
            *(100 * (1 - curves["signal"][size]["mean"]) for size in ("4", "256"))
        ),
    ):
        assert sentence in PAGE
    second = rules["posterior exit, second visit"]
    assert min(second["lead_signal"]["low"], second["lead_balanced"]["low"]) > 0  # "on second visits it leads in both"


def test_sentences_about_the_untrained_model():
    rules = load("measured")["untrained"]["rules"]
    plain, second = rules["Seq-balance, blocks of 4"], rules["posterior exit, second visit"]
    for sentence in (
        f"on the default model before training {interval(plain['lead_signal'])} points",
        f"hardly any prompt lets it stop early, {plain['responses']['mean']:.1f}.",
        f"{second['responses']['mean']:.1f} responses on a second visit to the prompts of the untrained model, where "
        f"the plain rule draws {plain['responses']['mean']:.1f} (and gives {100 * plain['signal']['mean']:.1f} % of "
        f"the prompts a signal instead of {100 * second['signal']['mean']:.1f} %)",
    ):
        assert sentence in PAGE


def test_sentences_about_mixes():
    def balance(found):
        return found["rules"]["Seq-balance, blocks of 4"]

    responses = over_mixes(lambda found: balance(found)["responses"])
    lead = over_mixes(lambda found: 100 * (balance(found)["signal"] - balance(found)["uniform_signal"]))
    balanced = over_mixes(lambda found: 100 * (balance(found)["balanced"] - balance(found)["uniform_balanced"]))
    small = over_mixes(lambda found: 250 * found["uniform"]["4"]["signal"])
    adaptive = over_mixes(lambda found: balance(found)["signals_per_1000"])
    published, step_400 = load("by_mix")["paper, after RL: pass@k"], load("by_mix")["paper, step 400"]
    never, _, alpha, beta = published["mix"]
    for sentence in (
        f"it draws {responses[0]:.0f} to {responses[1]:.0f} on average over the mixes below, "
        f"{32 / responses[1]:.1f} to {32 / responses[0]:.1f} times fewer",
        f"gives {lead[0]:.1f} to {lead[1]:.1f} points more prompts a signal",
        f"up to {balanced[1]:.0f} points, in prompts with two right *and* two wrong",
        f"Groups of 4 find {small[0]:.0f} to {small[1]:.0f} signals per 1,000 responses where Seq-balance finds "
        f"{adaptive[0]:.0f} to {adaptive[1]:.0f}",
        f"Beta({alpha:.3f}, {beta:.3f}) with {100 * never:.1f} % never solved reproduces all 18 published points to "
        f"{100 * published_mix('after RL')[1]:.1f} points",
        f"{100 * (1 - published['uniform']['4']['signal']):.0f} % of the groups without a signal after RL",
        f"its sample counts {100 * (1 - step_400['uniform']['4']['signal']):.0f} % at step 400",
    ):
        assert sentence in PAGE


@pytest.mark.parametrize("model", ["untrained", "trained"])
def test_measured_figures_are_those_of_the_counts(model):
    made, kept = measured_figures(read_counts(counts_file(model))), load("measured")[model]
    for size, found in made["curves"]["pass"].items():
        assert found == pytest.approx(kept["curves"]["pass"][size])
    for name, figures in made["rules"].items():
        for figure in ("responses", "signal", "lead_signal", "lead_balanced"):
            assert figures[figure] == pytest.approx(kept["rules"][name][figure], abs=1e-9)
