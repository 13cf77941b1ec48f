"""Hosts of their own on one machine: engines and training over a real network, and what happens when it breaks."""
