"""The objective card: what a trainer's configuration really optimises, whichever trainer it belongs to.

Example:
    >>> from ada_lightning.objective import objective_card
    >>> card = objective_card({"num_generations": 8, "scale_rewards": "group", "loss_type": "dapo"})
    >>> [round(weight, 3) for weight in card.weights]  # at pass rates of .05, .2, .5, .8 and .95
    [1.333, 1.135, 1.0, 1.135, 1.333]
"""

from ada_lightning.objective.card import Card, objective_card
from ada_lightning.objective.command import as_text

__all__ = ["Card", "as_text", "objective_card"]
