"""What every documented command line and every option composed when it was recorded: a change of where options come
from must not change it.

    python -m tests.unit.config.compositions    # record anew, after a change that is meant to change something

Kept of each command line is what differs from its program's plain composition, values unresolved.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.object_type import ObjectType
from omegaconf import OmegaConf

from ada_lightning.programs.start import CONFIG_DIR

RECORDED = Path(__file__).with_name("compositions.json.gz")
PROGRAMS = {"train": "", "prepare": "band", "evaluate": "eval"}
"""Programs, and the groups that only they have."""
NEEDS = {
    "objective": ("advantage=exact",),
    "curriculum/usefulness": ("curriculum=posterior",),
    "estimator/embedding": ("estimator=gaussian_process",),
    "estimator/length_scale": ("estimator=gaussian_process",),
    "sampler/gradient_norm": ("sampler=gvm",),
    "rollout/host": ("+rollout/host=process",),
    "rollout/weight_transfer": ("rollout=vllm_gpu",),
    "optimizer/schedule": (),
    "data/source/tasks": (),
}
"""What a group within an option needs to be there."""


def lines() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Every program's plain composition, every option of every group, every experiment."""
    with initialize_config_dir(str(CONFIG_DIR), version_base="1.3"):
        loader: Any = GlobalHydra.instance().config_loader()
        for group in _groups(loader, ""):
            if group.split("/")[0] in ("hydra", "paper"):
                continue
            names = [name for name in loader.get_group_options(group, ObjectType.CONFIG) if name[0] != "_"]
            for name in sorted(names):
                yield _program(group), (*NEEDS.get(group, ()), _chosen(group, name))
    for program in PROGRAMS:
        yield program, ()


def written(program: str, overrides: Sequence[str]) -> dict[str, Any]:
    """Every value of a composition by its dotted key, as it is written."""
    with initialize_config_dir(str(CONFIG_DIR), version_base="1.3"):
        config = compose(program, overrides=list(overrides))
    return dict(_flat(OmegaConf.to_container(config, resolve=False)))


def difference(program: str, overrides: Sequence[str]) -> dict[str, Any]:
    """What a command line changes of a program's plain composition; ``None`` in a list stands for what is gone."""
    now, plain = written(program, overrides), _plain(program)
    changed = {key: [value] for key, value in now.items() if plain.get(key, _NOTHING) != value}
    return changed | {key: [] for key in plain if key not in now}


_NOTHING = object()


@cache
def _plain(program: str) -> Mapping[str, Any]:
    return written(program, ())


def _groups(loader: Any, parent: str) -> Iterator[str]:
    for name in sorted(loader.list_groups(parent)):
        group = f"{parent}/{name}" if parent else name
        yield group
        yield from _groups(loader, group)


def _program(group: str) -> str:
    return next((program for program, own in PROGRAMS.items() if own and group.split("/")[0] == own), "train")


def _chosen(group: str, name: str) -> str:
    if group == "token_masks":
        return f"{group}=[{name}]"
    if group.startswith("experiment"):
        return f"+experiment={'/'.join([*group.split('/')[1:], name])}"
    return f"{group}={name}"


def _flat(node: Any, above: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(node, dict) and node:
        for key, value in node.items():
            yield from _flat(value, f"{above}.{key}" if above else str(key))
    else:
        yield above, node


def main() -> None:
    """Record all of them, those of the pages too."""
    from tests.unit.test_documented_commands import COMPOSED

    documented = [
        (program, tuple(word for word in words if word != "-m"))
        for _, program, words in COMPOSED
        if not any(word.startswith("checkpoint=") for word in words)
    ]
    recorded: dict[str, Any] = {}
    left_out = []
    for program, overrides in [*lines(), *documented]:
        name = " ".join([program, *overrides])
        if name in recorded:
            continue
        try:
            recorded[name] = {
                "program": program,
                "overrides": overrides,
                "changes": difference(program, overrides)
                if overrides
                else {k: [v] for k, v in _plain(program).items()},
            }
        except Exception as error:  # sweeps are no composition
            left_out.append((name, str(error).splitlines()[0]))
    text = json.dumps(recorded, sort_keys=True, indent=0)
    RECORDED.write_bytes(gzip.compress(text.encode(), mtime=0))
    print(len(recorded), "recorded;", len(left_out), "left out:")
    for name, reason in left_out:
        print("  ", name, "|", reason)


if __name__ == "__main__":
    main()
