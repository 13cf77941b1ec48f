"""prime-rl: the toml of its ``rl`` command.

Read in commit 559b447: ``packages/prime-rl-configs`` (keys, defaults), ``orchestrator/algo/{grpo,max_rl,rae}.py``
(advantages), ``orchestrator/train_sink.py`` (what is dropped and pruned), ``trainer/rl/loss.py`` and ``train.py``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ada_lightning.objective.readers.words import not_known, other_distribution, shortens
from ada_lightning.objective.settings import Changes, Evidence, SettingError, Settings, Trainer, keys_of
from ada_lightning.objective.update import (
    Baseline,
    Clip,
    Divisor,
    Filter,
    Keep,
    Missing,
    Reduction,
    Single,
    Spread,
    Term,
    Update,
    Visits,
)

_ORCHESTRATOR, _SOURCES = "orchestrator.", "orchestrator.train.source"
_ALGO, _LOSS = "orchestrator.algo.", "trainer.loss."
_ALGORITHMS = {
    "grpo": (Baseline.GROUP_MEAN, Spread.NONE),
    "echo": (Baseline.GROUP_MEAN, Spread.NONE),
    "max_rl": (Baseline.GROUP_MEAN, Spread.GROUP_MEAN),
    "rae": (Baseline.RUNNING_MEAN, Spread.NONE),
}
_UNDETERMINED = {
    "hierarchical_grpo": "hierarchical_grpo compares within proposed problems, whose number no configuration gives.",
    "opd": "opd follows a teacher, not a reward.",
    "opsd": "opsd follows the policy with a demonstration, not a reward.",
    "sft": "sft imitates another model's responses. It reads no reward.",
}
_OF_SOURCE = ("env", "serve", "name", "ratio", "sampling", "group_size", "algo", "curriculum")
DEFAULTS: dict[str, Any] = {
    _ORCHESTRATOR + "group_size": 1,
    _ORCHESTRATOR + "batch_size": None,
    _ORCHESTRATOR + "token_batch_size": None,
    _ORCHESTRATOR + "max_off_policy_steps": 8,
    _ORCHESTRATOR + "train.filter_zero_advantages": True,
    _ORCHESTRATOR + "train.sampling.max_completion_tokens": None,
    _ORCHESTRATOR + "train.sampling.extra_body": None,
    _SOURCES: None,
    _ALGO + "type": "grpo",
    _ALGO + "length_penalty": None,
    _ALGO + "roles": None,
    _LOSS + "type": "default",
    _LOSS + "adv_tau": 1.0,
    _LOSS + "kl_tau": 1e-3,
    _LOSS + "dppo_mask_low": 0.2,
    _LOSS + "dppo_mask_high": 0.2,
    _LOSS + "ipo_threshold": 0.1,
    "trainer.optim.weight_decay": 0.01,
    "trainer.optim.max_norm": 1.0,
}


def update(settings: Settings) -> Update:
    """Read what the trainer does.

    Raises:
        SettingError: a value that it does not take.
    """
    settings, differing = _of_sources(settings)
    name = settings.word(_ALGO + "type", (*_ALGORITHMS, *_UNDETERMINED))
    size = settings.whole(_ORCHESTRATOR + "group_size", least=1)
    baseline, spread = _ALGORITHMS.get(name, (Baseline.NONE, Spread.NONE))
    rows = settings.optional_whole(_ORCHESTRATOR + "batch_size", least=1)
    if rows is None and settings.raw(_ORCHESTRATOR + "token_batch_size") is None:
        rows = 128
    gate, odd_gate = _gate(settings)
    visits, odd_pools = _visits(settings)
    loss = settings.word(_LOSS + "type", ("default", "ipo", "custom"))
    undetermined = (differing, _UNDETERMINED.get(name, ""), odd_gate, odd_pools, _CUSTOM if loss == "custom" else "")
    return Update(
        group_size=size,
        baseline=baseline,
        divisor=Divisor(spread),
        filter=gate,
        gain=settings.number(_LOSS + "adv_tau", least=0.0),
        reduction=Reduction.TOKEN_MEAN,
        scope="the batch of a step, on all processes",
        counts_equal=not settings.flag(_ORCHESTRATOR + "train.filter_zero_advantages"),
        single=Single.AS_OTHERS if baseline is Baseline.RUNNING_MEAN else Single.ZERO,
        missing=Missing.DROPPED,
        clip=_clip(settings, loss),
        terms=tuple(_terms(settings, name)),
        corrections=tuple(_corrections(settings)),
        visits=visits,
        batch_prompts=rows // size if rows else None,
        max_response_tokens=settings.known_whole(_ORCHESTRATOR + "train.sampling.max_completion_tokens", least=1),
        notes=tuple(_notes(settings, name, size)),
        unknown=tuple(_unknown(settings)),
        undetermined=next(filter(None, undetermined), ""),
    )


def remedies(settings: Settings) -> Iterator[Changes]:
    """Yield changes to try."""
    size: dict[str, Any] = {}
    if settings.whole(_ORCHESTRATOR + "group_size", least=1) == 1:
        size = {_ORCHESTRATOR + "group_size": 8}
    yield dict(size)
    yield size | {_ALGO + "type": "grpo"}


_CUSTOM = "A loss of one's own (trainer.loss.import_path) is not read."


def _of_sources(settings: Settings) -> tuple[Settings, str]:
    """Put what all sources say of themselves in the place of the general settings, and say where they differ.

    Raises:
        SettingError: they are no list of tables.
    """
    sources = settings.raw(_SOURCES)
    if sources is None:
        return settings, ""
    if not isinstance(sources, list) or not all(isinstance(source, Mapping) for source in sources):
        raise SettingError(f"{settings.where}: {_SOURCES} is no list of tables; write [[{_SOURCES}]]")
    changes: dict[str, Any] = {}
    for name in ("group_size", "algo", "curriculum"):
        found = [source.get(name) for source in sources]
        if any(value != found[0] for value in found[1:]):
            return settings, f"Sources differ in {name}. Give a file with one of them."
        if not found or found[0] is None:
            continue
        if name == "algo" and isinstance(found[0], Mapping):
            changes |= {_ALGO + key: DEFAULTS[_ALGO + key] for key in ("type", "length_penalty", "roles")}
            changes |= {_ALGO + str(key): value for key, value in found[0].items()}
        elif name == "group_size":
            changes[_ORCHESTRATOR + name] = found[0]
    return settings.changed(changes), ""


def _curriculum(settings: Settings) -> Mapping[str, Any]:
    """Return the curriculum that all sources share; empty where there is none."""
    sources = settings.raw(_SOURCES) or [{}]
    found = sources[0].get("curriculum") or {}
    return found if isinstance(found, Mapping) else {}


def _gate(settings: Settings) -> tuple[Filter | None, str]:
    gates = _curriculum(settings).get("gates") or {}
    if not isinstance(gates, Mapping) or not gates:
        return None, ""
    for gate in gates.values():
        bounds = [gate.get(key, 0.0) for key in ("reject_min", "reject_max")] if isinstance(gate, Mapping) else []
        if bounds != [0.0, 0.0]:
            return None, "A gate rejects groups by a range of advantages that this reader does not sum over."
    note = "After ten batches without any such group the run ends with an error."
    return Filter(Keep.SPREAD, refills=True, note=note), ""


def _visits(settings: Settings) -> tuple[Visits | None, str]:
    """Read the pools of the task sampler."""
    sampler = _curriculum(settings).get("sampler") or {}
    if not isinstance(sampler, Mapping) or sampler.get("type", "standard") == "standard":
        return None, ""
    if sampler["type"] != "difficulty_pool":
        return None, "The task sampler is not known to this reader."
    given = sampler.get("pools") or {
        "hard": {"threshold": 0.25, "weight": 0.2},
        "normal": {"threshold": 0.75, "weight": 1.0},
        "easy": {"threshold": 1.0, "weight": 0.2},
    }
    try:
        pools = sorted((float(pool["threshold"]), float(pool["weight"])) for pool in given.values())
    except (AttributeError, KeyError, TypeError, ValueError):
        return None, "The pools of the task sampler are not thresholds and weights."
    if any(not 0.0 < weight < 1e9 for _, weight in pools):
        return None, "A pool of weight 0 is asked no more, so visits have no long run."
    return Visits(tuple(bound for bound, _ in pools[:-1]), tuple(weight for _, weight in pools)), ""


def _clip(settings: Settings, loss: str) -> Clip | None:
    if loss == "custom":
        return None
    if loss == "ipo":
        return Clip(
            f"tokens whose probability moved by more than {settings.number(_LOSS + 'ipo_threshold'):g} have no "
            "gradient; the others have their full ratio"
        )
    low, high = (settings.number(_LOSS + f"dppo_mask_{side}") for side in ("low", "high"))
    return Clip(
        f"tokens whose probability rose by more than {high:g} with a positive advantage, or fell by more than {low:g} "
        "otherwise, have no gradient; the others have their full ratio"
    )


def _terms(settings: Settings, name: str) -> Iterator[Term]:
    if tau := settings.number(_LOSS + "kl_tau"):
        pruned = settings.flag(_ORCHESTRATOR + "train.filter_zero_advantages")
        note = "squared log ratio to the policy that sampled; no reference model, and 0 on policy"
        yield Term("pull towards the sampling policy (kl_tau)", tau, moves_equal=not pruned, note=note)
    if name == "echo":
        roles = settings.raw(_ALGO + "roles") or {"tool": {}}
        for role, value in roles.items() if isinstance(roles, Mapping) else ():
            alpha = value.get("alpha", 0.1) if isinstance(value, Mapping) else 0.1
            yield Term(f"likelihood of {role} messages (echo)", float(alpha), moves_equal=True)
    if decay := settings.number("trainer.optim.weight_decay"):
        yield Term("weight decay", decay, moves_equal=True)


def _corrections(settings: Settings) -> Iterator[str]:
    lag = settings.whole(_ORCHESTRATOR + "max_off_policy_steps")
    yield "A batch is at least one policy version old in the long run: every ratio is one to the sampling policy."
    yield f"Groups older than {lag} versions are dropped. Long responses are, more than others."
    if settings.raw(_ALGO + "length_penalty") is not None:
        yield "length_penalty takes the more from a response the longer it is. Equal lengths: it changes nothing."
    if norm := settings.optional("trainer.optim.max_norm"):
        yield shortens("max_norm", norm)
    body = settings.raw(_ORCHESTRATOR + "train.sampling.extra_body")
    changed = [key for key in ("top_p", "top_k", "min_p") if isinstance(body, Mapping) and key in body]
    if changed:
        yield other_distribution(changed)


def _notes(settings: Settings, name: str, size: int) -> Iterator[str]:
    if size == 1 and name in ("grpo", "echo", "max_rl"):
        yield (
            "group_size is 1 unless set. Then every advantage is 0 and every batch is pruned to nothing. The run ends "
            "with an error at the tenth empty one."
        )
    if name == "max_rl" and size > 1:
        yield f"max_rl follows log p to order {size - 1}, not {size}: groups without a right response train nothing."
    if settings.flag(_ORCHESTRATOR + "train.filter_zero_advantages"):
        yield "Tokens without advantage leave the batch after it is full. So fewer train, and they are divided by less."


def _unknown(settings: Settings) -> Iterator[str]:
    yield not_known("The reward of the environment")
    known = {key for source in settings.raw(_SOURCES) or () for key in source} - set(_OF_SOURCE)
    if known:
        yield f"Keys of a source that this reader does not know: {', '.join(sorted(map(str, known))[:20])}."


TRAINER = Trainer(
    name="prime-rl",
    title="prime-rl",
    version="559b447",
    evidence=Evidence.READ,
    defaults=DEFAULTS,
    no_effect=keys_of("prime_rl"),
    update=update,
    remedies=remedies,
    command="uv run rl @ {file} {changes}",
    marks=frozenset({_ORCHESTRATOR + "group_size", _ORCHESTRATOR + "batch_size", _SOURCES, _ALGO + "type", "prime_rl"}),
    spelled=lambda key, value: f"--{key} {value}",
)
