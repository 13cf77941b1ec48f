from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hydra.utils import get_object

from ada_lightning.run.stored_settings import MOVED, PACKAGE, read_settings, with_present_names

OF_VERSION_0_1 = Path(__file__).parents[1] / "analysis" / "report" / "real_run" / "config.yaml"


def targets(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        yield from [node["_target_"]] if "_target_" in node else []
        node = list(node.values())
    if isinstance(node, list):
        for item in node:
            yield from targets(item)


def test_every_part_of_a_run_of_version_0_1_is_found_again():
    stored = set(targets(yaml.safe_load(OF_VERSION_0_1.read_text())))
    present = set(targets(read_settings(OF_VERSION_0_1)))
    assert len(stored - present) > 10, "the recorded run has the names of that version"
    assert [name for name in sorted(present) if not callable(get_object(name))] == []


@pytest.mark.parametrize("name", sorted(MOVED))
def test_what_moved_is_where_the_table_says(name):
    assert get_object(PACKAGE + MOVED[name])


def test_present_names_are_left_alone_and_texts_too():
    settings = {"a": "ada_lightning.methods.sampling.X", "b": "see ada_lightning.sampling for more", "c": [1, None]}
    assert with_present_names(settings) == settings


def test_callbacks_are_found_by_the_name_of_their_package():
    other = {"note": "callbacks.budget.max_seconds", "mine": "my_callbacks.X"}
    gone = {"_target_": "callbacks.rollout_table.RolloutTable"}
    present = with_present_names({"limit": {"_target_": "callbacks.budget.Budget"}, "table": gone, **other})
    assert present == {"limit": {"_target_": "ada_lightning.callbacks.budget.Budget"}, **other}


def test_the_more_exact_name_counts():
    moved = with_present_names("ada_lightning.models.sentence_encoder.SentenceEncoder")
    assert moved == "ada_lightning.methods.estimators.sentence_encoder.SentenceEncoder"
