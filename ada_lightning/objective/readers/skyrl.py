"""SkyRL: the command of its trainer, or a YAML of the same keys.

Read in 0.3.0: ``train/config/config.py`` (keys, defaults), ``backends/skyrl_train/utils/ppo_utils.py`` (advantages,
losses, reductions), ``train/trainer.py`` and ``train/utils/trainer_utils.py`` (whitening, filters).
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
    Truncated,
    Update,
    Whitening,
)

_ALGORITHM, _TRAINER, _GENERATOR = "trainer.algorithm.", "trainer.", "generator."
_CORRECTION, _SAMPLING = "trainer.algorithm.off_policy_correction.", "generator.sampling_params."
_ESTIMATORS: dict[str, tuple[Baseline, Divisor, Whitening | None, Single]] = {
    "grpo": (Baseline.GROUP_MEAN, Divisor(Spread.GROUP, 1, 1e-6), None, Single.RAW),
    "rloo": (Baseline.OTHERS_MEAN, Divisor(), None, Single.ZERO),
    "maxrl": (Baseline.GROUP_MEAN, Divisor(Spread.GROUP_MEAN, epsilon=1e-6), None, Single.RAW),
    "reinforce++": (Baseline.NONE, Divisor(), Whitening(ddof=1, epsilon=1e-8), Single.AS_OTHERS),
    "gae": (Baseline.NONE, Divisor(), None, Single.AS_OTHERS),
}
_REDUCTIONS = {
    "token_mean": Reduction.TOKEN_MEAN,
    "token_mean_legacy": Reduction.TOKEN_MEAN,
    "sequence_mean": Reduction.RESPONSE_MEAN,
    "prompt_mean": Reduction.PROMPT_MEAN,
    "seq_mean_token_sum_norm": Reduction.CONSTANT,
}
_LOSSES = ("regular", "dual_clip", "gspo", "cispo", "sapo", "rollout_is", "dppo", "importance_sampling")
_CHOOSING = ("clip_cov", "kl_cov")
DEFAULTS: dict[str, Any] = {
    _ALGORITHM + "advantage_estimator": "grpo",
    _ALGORITHM + "grpo_norm_by_std": True,
    _ALGORITHM + "advantage_batch_normalize": False,
    _ALGORITHM + "policy_loss_type": "regular",
    _ALGORITHM + "loss_reduction": "token_mean",
    _ALGORITHM + "max_seq_len": None,
    _ALGORITHM + "zero_variance_filter": False,
    _ALGORITHM + "dynamic_sampling.type": None,
    _ALGORITHM + "dynamic_sampling.max_sample_batches": 30,
    _ALGORITHM + "use_kl_loss": True,
    _ALGORITHM + "use_kl_in_reward": False,
    _ALGORITHM + "kl_loss_coef": 0.001,
    _ALGORITHM + "kl_estimator_type": "k3",
    _ALGORITHM + "use_entropy_loss": False,
    _ALGORITHM + "entropy_loss_coef": 0.01,
    _ALGORITHM + "eps_clip_low": 0.2,
    _ALGORITHM + "eps_clip_high": 0.2,
    _ALGORITHM + "clip_ratio_c": 3.0,
    _ALGORITHM + "cispo.cispo_eps_clip_low": 0.0,
    _ALGORITHM + "cispo.cispo_eps_clip_high": 5.0,
    _ALGORITHM + "use_tis": False,
    _CORRECTION + "tis_ratio_type": None,
    _CORRECTION + "sequence_mask_metric": None,
    _CORRECTION + "outlier_token_is_threshold_low": None,
    _CORRECTION + "outlier_token_is_threshold_high": None,
    _CORRECTION + "token_mask_is_threshold_low": None,
    _CORRECTION + "token_mask_is_threshold_high": None,
    _TRAINER + "train_batch_size": 1024,
    _TRAINER + "policy_mini_batch_size": 256,
    _TRAINER + "update_epochs_per_batch": 1,
    _TRAINER + "policy.optimizer_config.weight_decay": 0.01,
    _TRAINER + "policy.optimizer_config.max_grad_norm": 1.0,
    _TRAINER + "fully_async.enabled": False,
    _TRAINER + "fully_async.max_staleness_steps": 4,
    _TRAINER + "fully_async.sample_full_batch": False,
    _GENERATOR + "n_samples_per_prompt": 5,
    _GENERATOR + "apply_overlong_filtering": False,
    _GENERATOR + "zero_reward_on_non_stop": False,
    _SAMPLING + "max_generate_length": 1024,
    _SAMPLING + "top_p": 1.0,
    _SAMPLING + "top_k": -1,
    _SAMPLING + "min_p": 0.0,
    _SAMPLING + "repetition_penalty": 1.0,
}


def update(settings: Settings) -> Update:
    """Read what the trainer does.

    Raises:
        SettingError: a value that it does not take.
    """
    name = settings.word(_ALGORITHM + "advantage_estimator", tuple(_ESTIMATORS))
    loss = settings.word(_ALGORITHM + "policy_loss_type", (*_LOSSES, *_CHOOSING))
    reduction = settings.word(_ALGORITHM + "loss_reduction", tuple(_REDUCTIONS))
    baseline, divisor, whitening, single = _ESTIMATORS[name]
    if divisor.spread is Spread.GROUP and not settings.flag(_ALGORITHM + "grpo_norm_by_std"):
        divisor = Divisor()
    if settings.flag(_ALGORITHM + "advantage_batch_normalize"):
        whitening = Whitening(ddof=0, epsilon=0.0)
    is_masked = settings.flag(_GENERATOR + "apply_overlong_filtering")
    is_zeroed = settings.flag(_GENERATOR + "zero_reward_on_non_stop")
    return Update(
        group_size=settings.whole(_GENERATOR + "n_samples_per_prompt", least=1),
        baseline=baseline,
        divisor=divisor,
        whitening=whitening,
        filter=_filter(settings),
        reduction=_REDUCTIONS[reduction],
        scope="a micro-batch; micro-batches are averaged" if reduction == "token_mean_legacy" else "a mini-batch",
        counts_masked=_REDUCTIONS[reduction] in (Reduction.RESPONSE_MEAN, Reduction.CONSTANT),
        counts_equal=not (settings.flag(_ALGORITHM + "zero_variance_filter") and reduction == "token_mean"),
        single=single,
        truncated=Truncated.MASKED if is_masked else Truncated.PENALISED if is_zeroed else Truncated.KEPT,
        truncated_note="Its reward is set to 0 (zero_reward_on_non_stop)." if is_zeroed else "",
        clip=_clip(settings, loss),
        terms=tuple(_terms(settings)),
        corrections=tuple(_corrections(settings)),
        batch_prompts=settings.known_whole(_TRAINER + "train_batch_size", least=1),
        updates_per_rollout=_updates(settings),
        max_response_tokens=settings.known_whole(_SAMPLING + "max_generate_length", least=1),
        max_rounding=0.106 if divisor.spread is Spread.GROUP else 0.0,
        notes=tuple(_notes(settings, name)),
        unknown=(not_known("The reward of the environment"),),
        undetermined="gae takes its baseline from a value model, which no configuration describes."
        if name == "gae"
        else f"{loss} chooses tokens by the covariance of advantage and log-probability in the batch."
        if loss in _CHOOSING
        else "",
    )


def remedies(settings: Settings) -> Iterator[Changes]:
    """Yield changes to try."""
    off: dict[str, Any] = {}
    if settings.flag(_ALGORITHM + "advantage_batch_normalize"):
        off = {_ALGORITHM + "advantage_batch_normalize": False}
    if settings.whole(_GENERATOR + "n_samples_per_prompt", least=1) == 1:
        off |= {_GENERATOR + "n_samples_per_prompt": 5}
    length = settings.known_whole(_SAMPLING + "max_generate_length", least=1) or 1024
    alike = {_ALGORITHM + "loss_reduction": "seq_mean_token_sum_norm", _ALGORITHM + "max_seq_len": length}
    for changes in (
        {},
        {_ALGORITHM + "grpo_norm_by_std": False},
        {_ALGORITHM + "advantage_estimator": "rloo"},
    ):
        yield off | changes
        yield off | changes | alike


def _filter(settings: Settings) -> Filter | None:
    dynamic = settings.raw(_ALGORITHM + "dynamic_sampling.type")
    if dynamic is not None:
        settings.word(_ALGORITHM + "dynamic_sampling.type", ("filter", "replace"))
    is_async = settings.flag(_TRAINER + "fully_async.enabled")
    if dynamic == "filter":
        most = settings.number(_ALGORITHM + "dynamic_sampling.max_sample_batches")
        note = f"After {most:g} batches that are too few the run ends with an error." if most > 0 else ""
        return Filter(Keep.SPREAD, refills=True, note=note, prefers_fast=is_async)
    if dynamic == "replace":
        note = "Copies of good groups take the places of the others, under the same identity: fewer prompts, twice."
        return Filter(Keep.SPREAD, refills=False, note=note)
    if not settings.flag(_ALGORITHM + "zero_variance_filter"):
        return None
    refills = is_async and settings.flag(_TRAINER + "fully_async.sample_full_batch")
    return Filter(Keep.SPREAD, refills=refills, note="Their tokens are masked.", prefers_fast=is_async)


def _clip(settings: Settings, loss: str) -> Clip:
    low, high = (settings.number(_ALGORITHM + f"eps_clip_{side}") for side in ("low", "high"))
    if loss == "dual_clip":
        return Clip(clipped(low, high, dual=settings.number(_ALGORITHM + "clip_ratio_c")))
    if loss == "cispo":
        low, high = (settings.number(_ALGORITHM + f"cispo.cispo_eps_clip_{side}") for side in ("low", "high"))
        return Clip(f"the ratio is cut to {1 - low:g} .. {1 + high:g}, and no token loses its gradient")
    if loss == "rollout_is":
        return Clip(f"a token whose ratio to the engine lies outside of {1 - low:g} .. {1 + high:g} has no gradient")
    if loss in ("sapo", "dppo", "importance_sampling"):
        return Clip(f"the rule of {loss}")
    return Clip(clipped(low, high), "sequence" if loss == "gspo" else "token")


def _terms(settings: Settings) -> Iterator[Term]:
    is_masked = settings.flag(_ALGORITHM + "zero_variance_filter")
    kind = settings.raw(_ALGORITHM + "kl_estimator_type")
    for key, place in (("use_kl_loss", "loss"), ("use_kl_in_reward", "reward")):
        if settings.flag(_ALGORITHM + key):
            coefficient = settings.number(_ALGORITHM + "kl_loss_coef")
            yield Term(f"KL to the reference model, in the {place}", coefficient, not is_masked, f"{kind}")
    if settings.flag(_ALGORITHM + "use_entropy_loss"):
        yield Term("entropy bonus", settings.number(_ALGORITHM + "entropy_loss_coef"), not is_masked)
    if decay := settings.number(_TRAINER + "policy.optimizer_config.weight_decay"):
        yield Term("weight decay", decay, moves_equal=True)


def _corrections(settings: Settings) -> Iterator[str]:
    ratio = settings.raw(_CORRECTION + "tis_ratio_type")
    if ratio is not None or settings.flag(_ALGORITHM + "use_tis"):
        yield f"The ratio of trainer to engine multiplies each {ratio or 'token'}, cut at an upper bound."
    masks = ("sequence_mask_metric", *(key.rpartition(".")[2] for key in DEFAULTS if "_is_threshold_" in key))
    set_ = [key for key in masks if settings.raw(_CORRECTION + key) is not None]
    if set_:
        yield f"{', '.join(set_)}: what the ratio masks does not train. Its rewards stay in the baseline."
    if norm := settings.number(_TRAINER + "policy.optimizer_config.max_grad_norm"):
        yield shortens("max_grad_norm", norm)
    neutral = {"top_p": 1.0, "top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0}
    changed = [key for key, value in neutral.items() if settings.raw(_SAMPLING + key) != value]
    if changed:
        yield other_distribution(changed)


def _updates(settings: Settings) -> int | None:
    prompts = settings.known_whole(_TRAINER + "train_batch_size", least=1)
    minibatch = settings.known_whole(_TRAINER + "policy_mini_batch_size", least=1)
    if prompts is None or minibatch is None:
        return None
    return settings.whole(_TRAINER + "update_epochs_per_batch", least=1) * -(-prompts // minibatch)


def _notes(settings: Settings, name: str) -> Iterator[str]:
    size = settings.whole(_GENERATOR + "n_samples_per_prompt", least=1)
    if _ALGORITHM + "use_kl_loss" not in settings.given:
        yield "A KL to the reference model is in the loss unless use_kl_loss is false."
    if name == "maxrl" and size > 1:
        yield f"maxrl follows log p to order {size - 1}, not {size}: groups without a right response train nothing."
    is_norm = settings.raw(_ALGORITHM + "loss_reduction") == "seq_mean_token_sum_norm"
    if is_norm and settings.raw(_ALGORITHM + "max_seq_len") is None:
        yield "SkyRL refuses seq_mean_token_sum_norm without max_seq_len."
    if settings.flag(_ALGORITHM + "advantage_batch_normalize"):
        yield (
            "advantage_batch_normalize takes its mean over padding, too, and its deviation over tokens alone. So the "
            "longest response of a batch changes what is subtracted."
        )
    if settings.flag(_TRAINER + "fully_async.enabled"):
        lag = settings.whole(_TRAINER + "fully_async.max_staleness_steps")
        yield f"Fully asynchronous: groups train in the order in which they finish, up to {lag} versions old."


TRAINER = Trainer(
    name="skyrl",
    title="SkyRL",
    version="0.3.0",
    evidence=Evidence.READ,
    defaults=DEFAULTS,
    no_effect=keys_of("skyrl"),
    update=update,
    remedies=remedies,
    command="uv run -m skyrl.train.entrypoints.main_base ... {changes}",
    marks=frozenset(
        {
            _ALGORITHM + "advantage_estimator",
            _GENERATOR + "n_samples_per_prompt",
            _TRAINER + "policy_mini_batch_size",
            "skyrl",
            "skyrl_train",
        }
    ),
    package="skyrl",
)
