"""Adaptive sampling in verl: ``docs/verl.md``.

:mod:`~ada_lightning.adapters.verl.plugin` is what verl finds by itself, and
:class:`~ada_lightning.adapters.verl.worker.AdaAgentLoopManager` what its configuration names.
"""
