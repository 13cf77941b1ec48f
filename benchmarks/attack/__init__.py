"""What :mod:`benchmarks.reward_attack` attacks rewards with."""
