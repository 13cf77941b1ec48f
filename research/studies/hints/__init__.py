"""Do hints help prompts that nobody solves? ``docs/studies/hints.md`` has the protocol."""
