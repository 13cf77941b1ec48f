"""tinker-cookbook's RL trainer: a recipe's command, or the ``config.json`` that a run writes.

Held against tinker-cookbook 0.6.1: ``rl/data_processing.py`` (advantages, the filter, what each token is given),
``rl/train.py`` (``Config``) and ``rl/metrics.py`` (the KL). Losses run on Tinker's servers; what they do is read in its
documentation (https://tinker-docs.thinkingmachines.ai/losses).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ada_lightning.objective.readers.words import not_known, other_distribution
from ada_lightning.objective.settings import Changes, Evidence, SettingError, Settings, Trainer, keys_of
from ada_lightning.objective.update import Clip, Filter, Keep, Missing, Reduction, Single, Term, Truncated, Update

LOSSES = ("importance_sampling", "ppo", "cispo", "dro")
"""Those whose formula is published. On policy each is a sum over tokens of advantage times score."""
_OTHERS = ("stable_reinforce", "gspo")
_BUILDER, _ASYNC, _STREAM = "dataset_builder.", "async_config.", "stream_minibatch_config."
_AGENTIC = "thinkingmachines/Inkling"
"""Models whose default clamps the rewards of what a limit stopped."""
DEFAULTS: dict[str, Any] = {
    "group_size": None,
    "groups_per_batch": None,
    "max_steps_off_policy": None,
    _BUILDER + "group_size": None,
    _BUILDER + "batch_size": None,
    _ASYNC + "max_steps_off_policy": None,
    _ASYNC + "groups_per_batch": None,
    _ASYNC + "loss_fn": "stable_reinforce",
    _STREAM + "groups_per_batch": None,
    _STREAM + "num_minibatches": None,
    "loss_fn": "importance_sampling",
    "loss_fn_config": None,
    "kl_penalty_coef": 0.0,
    "kl_discount_factor": 0.0,
    "num_substeps": 1,
    "temperature": 1.0,
    "max_tokens": None,
    "model_name": None,
    "remove_constant_reward_groups": False,
    "termination": None,
    "rollout_error_tolerance": None,
}


def update(settings: Settings) -> Update:
    """Read what the trainer does.

    Raises:
        SettingError: a value that it does not take, or no group size.
    """
    size = _first(settings, "group_size", _BUILDER + "group_size")
    if size is None:
        raise SettingError(
            f"{settings.where}: no group_size, which each recipe of tinker-cookbook sets by itself; add group_size=N "
            "behind the file"
        )
    loss = _loss(settings)
    clamps = _clamps(settings)
    return Update(
        group_size=size,
        filter=_filter(settings),
        reduction=Reduction.TOKEN_SUM,
        scope="an optimiser step",
        single=Single.ZERO,
        missing=Missing.POISONS,
        truncated=Truncated.PENALISED if clamps else Truncated.KEPT,
        truncated_note="A reward above 0 becomes 0 if a limit of the rollout stopped it." if clamps else "",
        clip=_clip(settings, loss),
        terms=tuple(_terms(settings, loss)),
        corrections=tuple(_corrections(settings)),
        batch_prompts=_first(
            settings,
            _ASYNC + "groups_per_batch",
            _STREAM + "groups_per_batch",
            "groups_per_batch",
            _BUILDER + "batch_size",
        ),
        updates_per_rollout=settings.whole("num_substeps", least=1),
        max_response_tokens=settings.known_whole("max_tokens", least=1),
        notes=tuple(_notes(settings)),
        unknown=tuple(_unknown(settings)),
        undetermined=_undetermined(settings, loss),
    )


def remedies(settings: Settings) -> Iterator[Changes]:
    """Yield changes to try: a loss whose formula is published."""
    if _is_recipe(settings) or _lag(settings) is None:
        yield {"loss_fn": "importance_sampling"}
        yield {"loss_fn": "importance_sampling", "max_steps_off_policy": None}
    else:
        yield {_ASYNC + "loss_fn": "importance_sampling"}


def _first(settings: Settings, *keys: str) -> int | None:
    """The first of several keys that is set."""
    found = (settings.known_whole(key, least=1) for key in keys)
    return next((value for value in found if value is not None), None)


def _is_recipe(settings: Settings) -> bool:
    """Whether these are arguments of a recipe, which fills in what is silent, and not a whole ``Config``."""
    return not any(key.startswith((_BUILDER, _ASYNC)) for key in settings.given)


def _lag(settings: Settings) -> int | None:
    """Steps by which sampling runs ahead; None: it does not."""
    recipe = settings.optional_whole("max_steps_off_policy")
    return settings.optional_whole(_ASYNC + "max_steps_off_policy") if recipe is None else recipe


def _loss(settings: Settings) -> str | None:
    """The loss; None where only the recipe knows it."""
    known = (*LOSSES, *_OTHERS)
    if _lag(settings) is not None and not _is_recipe(settings):
        return settings.word(_ASYNC + "loss_fn", known)
    if _is_recipe(settings) and "loss_fn" not in settings.given:
        return None
    return settings.word("loss_fn", known)


def _filter(settings: Settings) -> Filter | None:
    if not settings.flag("remove_constant_reward_groups"):
        return None
    note = "If all groups of a batch are equal, the first of them stays, and adds nothing."
    is_async = _lag(settings) is not None
    return Filter(Keep.SPREAD, refills=is_async, note="" if is_async else note)


def _clamps(settings: Settings) -> bool:
    policy = settings.raw("termination")
    if isinstance(policy, dict):
        return bool(policy.get("termination.zero_reward_on_limit", policy.get("zero_reward_on_limit", False)))
    return str(settings.raw("model_name")).startswith(_AGENTIC)


def _clip(settings: Settings, loss: str | None) -> Clip | None:
    if loss not in ("ppo", "cispo"):
        return None
    given = settings.raw("loss_fn_config")
    named = {str(key).rpartition(".")[2]: value for key, value in given.items()} if isinstance(given, dict) else {}
    low, high = (named.get(f"clip_{end}_threshold", default) for end, default in (("low", 0.8), ("high", 1.2)))
    return Clip(f"the ratio of trainer to sampler is clipped to {low} .. {high}")


def _terms(settings: Settings, loss: str | None) -> Iterator[Term]:
    if kl := settings.number("kl_penalty_coef", least=0):
        discount = settings.number("kl_discount_factor", least=0)
        summed = f", summed to the end with a discount of {discount:g}" if discount else ""
        note = f"in the advantage of each token, minus its mean over the batch's tokens{summed}"
        yield Term("KL to the reference model (kl_penalty_coef)", kl, moves_equal=True, note=note)
    if loss == "dro":
        yield Term("squared log-ratio to the sampler (loss_fn_config beta)", _beta(settings), moves_equal=True)


def _beta(settings: Settings) -> float:
    given = settings.raw("loss_fn_config")
    values = [value for key, value in given.items() if str(key).endswith("beta")] if isinstance(given, dict) else []
    return float(values[0]) if values and isinstance(values[0], int | float) else float("nan")


def _corrections(settings: Settings) -> Iterator[str]:
    yield "The ratio of trainer to sampler multiplies each token, in losses whose formula is published."
    if lag := _lag(settings):
        yield f"Responses are about {lag} steps old, slow ones older. None is dropped for its age."
    if settings.number("temperature") != 1:
        yield other_distribution(["temperature"])


def _notes(settings: Settings) -> Iterator[str]:
    yield "Nothing is divided by a count. Twice as many prompts, responses or tokens make a gradient of twice the size."
    if settings.whole("num_substeps", least=1) > 1:
        yield "num_substeps cuts a rollout into parts, each of which trains once. A group can be cut in two."
    if _lag(settings) is not None and not _is_recipe(settings) and "loss_fn" in settings.given:
        yield "An asynchronous run trains with async_config.loss_fn. loss_fn has no effect."


def _unknown(settings: Settings) -> Iterator[str]:
    yield not_known("The reward of the environment")
    yield "Tinker's losses run on its servers. What is said of them was read in its documentation, and not run."
    tolerance = settings.raw("rollout_error_tolerance")
    is_agentic = tolerance is None and str(settings.raw("model_name")).startswith(_AGENTIC)
    if is_agentic or isinstance(tolerance, dict):
        yield "Which responses fail. Groups may then be smaller."


def _undetermined(settings: Settings, loss: str | None) -> str:
    if loss is None:
        return (
            "Each recipe has a loss of its own where loss_fn is silent; that of math_rl is stable_reinforce. Name it."
        )
    if loss in LOSSES:
        return ""
    return f"{loss} runs on Tinker's servers, and no formula of it is published."


TRAINER = Trainer(
    name="tinker_cookbook",
    title="tinker-cookbook's RL trainer",
    version="0.6.1",
    evidence=Evidence.DATA,
    defaults=DEFAULTS,
    no_effect=keys_of("tinker_cookbook"),
    update=update,
    remedies=remedies,
    command="python -m tinker_cookbook.recipes. ... {changes}",
    marks=frozenset(
        {
            "groups_per_batch",
            "max_steps_off_policy",
            "remove_constant_reward_groups",
            "kl_penalty_coef",
            _BUILDER + "group_size",
            _ASYNC + "max_steps_off_policy",
            "tinker_cookbook",
        }
    ),
    prefixes=(_BUILDER, "evaluator_builders", "kl_reference_config"),
    package="tinker_cookbook",
)
