"""Compares runs from what they left in their folders: read, group, draw, write one page.

Nothing here imports torch, Lightning or vLLM: a report of finished runs is made in seconds, on any machine.
"""
