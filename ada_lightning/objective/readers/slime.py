"""slime: a script that starts its ``train.py``.

Read in commit 624b824: ``slime/utils/arguments.py`` (keys, defaults), ``slime/ray/rollout.py`` (rewards become
advantages), ``backends/megatron_utils/loss.py`` and ``slime/utils/ppo_utils.py`` (losses),
``rollout/sglang_rollout.py`` (filters).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ada_lightning.objective.readers.words import clipped, not_known, other_distribution, shortens
from ada_lightning.objective.settings import Changes, Evidence, Settings, Trainer, keys_of
from ada_lightning.objective.update import (
    Baseline,
    Clip,
    Divisor,
    Filter,
    Keep,
    Reduction,
    Single,
    Spread,
    Term,
    Update,
    Whitening,
)

_OF_GROUPS = ("grpo", "gspo", "cispo")
_ESTIMATORS = (*_OF_GROUPS, "reinforce_plus_plus", "reinforce_plus_plus_baseline", "ppo")
_FILTERS = "slime.rollout.filter_hub.dynamic_sampling_filters."
_OF_ONES_OWN = (
    "custom-advantage-function-path",
    "custom-reward-post-process-path",
    "custom-convert-samples-to-train-data-path",
    "custom-loss-function-path",
    "custom-pg-loss-reducer-function-path",
    "rollout-sample-filter-path",
    "rollout-data-postprocess-path",
    "buffer-filter-path",
)
DEFAULTS: dict[str, Any] = {
    "advantage-estimator": "grpo",
    "disable-grpo-std-normalization": False,
    "disable-rewards-normalization": False,
    "normalize-advantages": False,
    "n-samples-per-prompt": 1,
    "rollout-batch-size": None,
    "over-sampling-batch-size": None,
    "global-batch-size": None,
    "num-steps-per-rollout": None,
    "calculate-per-token-loss": False,
    "loss-type": "policy_loss",
    "eps-clip": 0.2,
    "eps-clip-high": None,
    "eps-clip-c": None,
    "kl-coef": 0.0,
    "use-kl-loss": False,
    "kl-loss-coef": 0.0,
    "kl-loss-type": "k1",
    "use-unbiased-kl": False,
    "entropy-coef": 0.0,
    "gamma": 1.0,
    "use-opd": False,
    "opd-kl-coef": 1.0,
    "use-tis": False,
    "tis-clip": 2.0,
    "tis-clip-low": 0.0,
    "custom-tis-function-path": None,
    "use-opsm": False,
    "dynamic-sampling-filter-path": None,
    "partial-rollout": False,
    "rollout-max-response-len": None,
    "rollout-top-k": -1,
    "weight-decay": 0.01,
    "clip-grad": 1.0,
    **dict.fromkeys(_OF_ONES_OWN),
}


def update(settings: Settings) -> Update:
    """Read what the trainer does.

    Raises:
        SettingError: a value that it does not take.
    """
    name = settings.word("advantage-estimator", _ESTIMATORS)
    size = settings.whole("n-samples-per-prompt", least=1)
    is_centred = name not in ("ppo", "reinforce_plus_plus") and not settings.flag("disable-rewards-normalization")
    is_divided = is_centred and name in _OF_GROUPS and size > 1 and not settings.flag("disable-grpo-std-normalization")
    is_token = settings.flag("calculate-per-token-loss")
    chosen, odd_filter = _filter(settings)
    return Update(
        group_size=size,
        baseline=Baseline.GROUP_MEAN if is_centred else Baseline.NONE,
        divisor=Divisor(Spread.GROUP, 1, 1e-6) if is_divided else Divisor(),
        whitening=Whitening(ddof=1, epsilon=1e-8) if settings.flag("normalize-advantages") else None,
        filter=chosen,
        reduction=Reduction.TOKEN_MEAN if is_token else Reduction.RESPONSE_MEAN,
        scope="a global batch",
        counts_masked=not is_token,
        single=Single.ZERO if is_centred else Single.AS_OTHERS,
        clip=_clip(settings, name),
        terms=tuple(_terms(settings, name)),
        corrections=tuple(_corrections(settings)),
        batch_prompts=settings.known_whole("rollout-batch-size", least=1),
        updates_per_rollout=_updates(settings, size),
        max_response_tokens=settings.known_whole("rollout-max-response-len", least=1),
        max_rounding=0.119 if is_divided else 0.0,
        notes=tuple(_notes(settings, name, size)),
        unknown=(not_known("The reward (--rm-type, or one's own)"),),
        undetermined=_undetermined(settings, name) or odd_filter,
    )


def remedies(settings: Settings) -> Iterator[Changes]:
    """Yield changes to try."""
    more: dict[str, Any] = {}
    if settings.whole("n-samples-per-prompt", least=1) == 1:
        more["n-samples-per-prompt"] = 8
    if settings.flag("normalize-advantages"):
        more["normalize-advantages"] = False
    if settings.flag("disable-rewards-normalization"):
        more["disable-rewards-normalization"] = False
    yield dict(more)
    yield more | {"disable-grpo-std-normalization": True}
    yield more | {"advantage-estimator": "grpo", "disable-grpo-std-normalization": True}


def _undetermined(settings: Settings, name: str) -> str:
    given = [key for key in _OF_ONES_OWN if settings.raw(key) is not None]
    if given:
        return f"--{given[0]} names a function of one's own, which is not read."
    if settings.word("loss-type", ("policy_loss", "sft_loss", "custom_loss")) != "policy_loss":
        return f"--loss-type {settings.raw('loss-type')} is no policy gradient of a reward."
    if name == "ppo":
        return "ppo takes its baseline from a value model, which no configuration describes."
    return ""


def _filter(settings: Settings) -> tuple[Filter | None, str]:
    path = settings.raw("dynamic-sampling-filter-path")
    if path is None:
        return None, ""
    if path == _FILTERS + "check_reward_nonzero_std":
        return Filter(Keep.SPREAD, refills=True, prefers_fast=True), ""
    if path == _FILTERS + "check_reward_nonzero_std_with_fallback":
        note = "Where too few are left, the others stay after all. So costs lie between those here and none."
        return Filter(Keep.SPREAD, refills=True, note=note, prefers_fast=True), ""
    return None, "--dynamic-sampling-filter-path names a filter of one's own, which is not read."


def _clip(settings: Settings, name: str) -> Clip:
    low, high = settings.number("eps-clip"), settings.optional("eps-clip-high")
    high = low if high is None else high
    if name == "cispo":
        return Clip(f"the ratio is cut to {1 - low:g} .. {1 + high:g}, and no token loses its gradient")
    dual = settings.optional("eps-clip-c")
    level = "sequence" if name == "gspo" else "token"
    return Clip(clipped(low, high, dual=dual), level)


def _terms(settings: Settings, name: str) -> Iterator[Term]:
    coefficient = settings.number("kl-loss-coef")
    if settings.flag("use-kl-loss") and coefficient:
        kind = settings.raw("kl-loss-type")
        note = f"{kind}, times the ratio" if settings.flag("use-unbiased-kl") else f"{kind}"
        yield Term("KL to the reference model, in the loss", coefficient, moves_equal=True, note=note)
    if (coefficient := settings.number("kl-coef")) and name not in _OF_GROUPS:
        yield Term("KL to the reference model, in the reward", coefficient, moves_equal=True)
    if entropy := settings.number("entropy-coef"):
        yield Term("entropy bonus", entropy, moves_equal=True)
    if settings.flag("use-opd"):
        yield Term("KL to a teacher, in the advantage", settings.number("opd-kl-coef"), moves_equal=True)
    if decay := settings.number("weight-decay"):
        yield Term("weight decay", decay, moves_equal=True)


def _corrections(settings: Settings) -> Iterator[str]:
    if settings.flag("use-tis"):
        if settings.raw("custom-tis-function-path") is not None:
            yield "A function of one's own makes a factor of the ratio of trainer to engine."
        else:
            low, high = settings.number("tis-clip-low"), settings.number("tis-clip")
            yield f"The ratio of trainer to engine multiplies each token, cut to {low:g} .. {high:g}."
    if settings.flag("use-opsm"):
        yield "use-opsm masks responses with a negative advantage that the policy has left."
    if norm := settings.number("clip-grad"):
        yield shortens("clip-grad", norm)
    if settings.number("rollout-top-k") > 0:
        yield other_distribution(["rollout-top-k"])


def _updates(settings: Settings, size: int) -> int | None:
    steps = settings.known_whole("num-steps-per-rollout", least=1)
    prompts, rows = (settings.known_whole(key, least=1) for key in ("rollout-batch-size", "global-batch-size"))
    if steps is None and prompts is not None and rows is not None:
        steps = -(-prompts * size // rows)
    return steps


def _notes(settings: Settings, name: str, size: int) -> Iterator[str]:
    if size == 1 and name in _OF_GROUPS:
        yield "n-samples-per-prompt is 1 unless set. Then every advantage is 0."
    if settings.number("kl-coef") and name in _OF_GROUPS:
        yield f"kl-coef has no effect with {name}: a KL is computed, and nothing reads it. use-kl-loss has one."
    if settings.flag("use-kl-loss") and not settings.number("kl-loss-coef"):
        yield "use-kl-loss with kl-loss-coef 0 loads a reference model that moves nothing."
    if name == "reinforce_plus_plus" and not settings.flag("normalize-advantages"):
        yield "reinforce_plus_plus without normalize-advantages trains on the raw reward: right responses alone."
    if name not in ("ppo", "reinforce_plus_plus") and size > 1:
        yield (
            "If responses are lost or added, so that their number is not rollout-batch-size * n-samples-per-prompt, "
            "the whole batch is taken for one group. Nothing says so."
        )
    over, batch = (settings.known_whole(key, least=1) for key in ("over-sampling-batch-size", "rollout-batch-size"))
    if over and batch and over > batch:
        yield "over-sampling-batch-size: prompts that finish first train, the rest is aborted: the long ones."
    if settings.flag("partial-rollout"):
        yield "partial-rollout: what was aborted goes on later, so a response can be of several policy versions."


TRAINER = Trainer(
    name="slime",
    title="slime",
    version="624b824",
    evidence=Evidence.READ,
    defaults=DEFAULTS,
    no_effect=keys_of("slime"),
    update=update,
    remedies=remedies,
    command="python3 train.py ... {changes}",
    marks=frozenset({"advantage-estimator", "n-samples-per-prompt", "disable-grpo-std-normalization", "slime"}),
    prefixes=("sglang-", "wandb-"),
    spelled=lambda key, value: (
        (f"--{key}" if value else f"without --{key}") if isinstance(value, bool) else f"--{key} {value}"
    ),
)
