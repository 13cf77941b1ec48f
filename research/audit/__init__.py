"""The rollout audit put to the test: logs whose truth is known, the same log in every format, and real ones."""
