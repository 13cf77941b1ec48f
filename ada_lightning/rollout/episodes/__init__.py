"""Responses of several turns: environments in processes of their own, and the exact tokens of the next turn."""
