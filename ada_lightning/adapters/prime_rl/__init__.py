"""Prompts by a method, and weights of its own, in prime-rl's orchestrator: ``docs/prime_rl.md``.

``python -m ada_lightning.adapters.prime_rl`` is the orchestrator's command with both.
"""
