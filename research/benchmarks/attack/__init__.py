"""What :mod:`research.benchmarks.reward_attack` attacks rewards with."""
