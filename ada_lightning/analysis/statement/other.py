"""What the remaining estimators follow, in words, and what their expected weights are to be compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ada_lightning.analysis.statement.table import PASS_RATES
from ada_lightning.core.protocols import Advantage
from ada_lightning.methods.advantages import HistoryBaselineAdvantage, RoundedHistoryAdvantage
from ada_lightning.methods.published.gdpo import GdpoAdvantage
from ada_lightning.methods.published.max_rl import MaxRlAdvantage
from ada_lightning.methods.published.preference import DpoAdvantage, IpoAdvantage
from ada_lightning.methods.published.raft import AcceptedAdvantage
from ada_lightning.methods.published.shrinkage_baseline import ShrinkageBaselineAdvantage
from ada_lightning.methods.published.xrpo import NoveltyAdvantage

_HISTORY_BASELINES: Mapping[type[Advantage], str] = {
    HistoryBaselineAdvantage: "the pass rate expected",
    RoundedHistoryAdvantage: "0 or 1, whichever is expected",
    ShrinkageBaselineAdvantage: "the pass rate expected, unless the others contradict it,",
}


def other_lines(advantage: Advantage, size: int, *, is_whole: bool) -> tuple[list[str], Mapping[str, Sequence[float]]]:
    """Describe an estimator.

    Args:
        advantage: the run's estimator.
        size: responses per prompt where all prompts draw the same number and train on all of them; otherwise 0.
        is_whole: whether a prompt trains with all that its advantage is about, and weighs as much as any other.

    Returns:
        The first lines, and rows of weights by name; empty where no table is needed or none can be made.
    """
    mean = {"f(p) = p": [1.0] * len(PASS_RATES)}
    if isinstance(advantage, MaxRlAdvantage):
        if size < 2:
            lines = ["update: reward over the mean of the kept group, minus 1, whatever the pool's mean"]
            return lines, {"1/p": [1.0 / rate for rate in PASS_RATES]}
        followed = "1" if size == 2 else f"(1 - (1-p)^{size - 1}) / p"
        return [f"update: exact for f(p) = log p as far as {size} responses can see: f'(p) = {followed}"], {}
    if isinstance(advantage, AcceptedAdvantage):
        if is_whole:
            return ["update: exact for f(p) = p, without a baseline: the sum over accepted responses"], {}
        return ["update: the sum over accepted responses, without a baseline"], mean
    for kind, baseline in _HISTORY_BASELINES.items():
        if isinstance(advantage, kind):
            return [_history_baseline(baseline, is_whole=is_whole)], {}
    if isinstance(advantage, DpoAdvantage | IpoAdvantage):
        return [
            f"update: no f(p): {type(advantage).__name__} of every right response over every wrong one of its prompt, "
            f"beta = {advantage.beta:g} to the initial policy; a prompt with one class alone does not train"
        ], {}
    if isinstance(advantage, NoveltyAdvantage):
        over = " over its standard deviation" if advantage.normalize_std else ""
        return [
            f"update: reward minus the mean of the kept group{over}, and up to {advantage.cap:g} of it more for right "
            "answers that are less likely than their group: follows no function of p"
        ], {}
    if isinstance(advantage, GdpoAdvantage):
        parts = " + ".join(f"{weight:g} {name}" for name, weight in advantage.weights.items())
        over = "tokens" if advantage.by_tokens else "responses"
        return [
            f"update: {parts}, each standardised within its group: the pull of a component depends on how often its "
            "group differs in it, not on its scale",
            f"  the sum is centred and scaled over all {over} of a step; no function of the pass rate alone is "
            "followed",
        ], {}
    return [f"update: the rule of {type(advantage).__name__}; which objective it follows is not known here"], {}


def _history_baseline(baseline: str, *, is_whole: bool) -> str:
    if is_whole:
        return f"update: exact for f(p) = p: reward minus {baseline} from history and the other responses"
    return (
        f"update: reward minus {baseline} from history and the other kept responses; where their number differs, or "
        "rewards decide which they are, that bends it away from f(p) = p"
    )
