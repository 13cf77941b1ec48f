"""Prompts, numbers and weights by a method in SkyRL's trainers: ``docs/skyrl.md``.

:class:`~ada_lightning.adapters.skyrl.experiment.AdaExp` is the entry point with all of it.
"""
