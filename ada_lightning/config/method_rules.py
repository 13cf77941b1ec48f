"""The parts that make a method, whoever trains with it, and what does not go together among them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ada_lightning.config.advantage import (
    class_errors,
    component_errors,
    contrast_errors,
    group_errors,
    objective_errors,
    path_errors,
    rule_errors,
    stratum_errors,
)
from ada_lightning.config.estimator import budget_errors, curriculum_errors, first_visit_errors, history_errors
from ada_lightning.config.refill import refill_errors
from ada_lightning.config.selection import selection_errors
from ada_lightning.methods.view import MethodView

METHOD_RULES: tuple[Callable[[MethodView], Iterator[str]], ...] = (
    objective_errors,
    stratum_errors,
    component_errors,
    contrast_errors,
    budget_errors,
    history_errors,
    first_visit_errors,
    class_errors,
    rule_errors,
    path_errors,
    group_errors,
    curriculum_errors,
    refill_errors,
    selection_errors,
)
"""Asked of a run that trains here, among its other rules, and of a loop of one's own, which has only these."""
