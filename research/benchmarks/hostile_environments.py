"""Episodes with environments that misbehave: ``python -m research.benchmarks.hostile_environments``.

2,000 episodes of the default model with the real engine. One environment in five raises, hangs, dies, needs all memory,
answers with 10 MB, lone surrogates, another type, a reward that is no number, cannot be pickled, or never ends. Proves
that each episode comes back once, counted as what it is and worth what it should be, and measures whether decoding
waits: the time between two steps of the engine beside the steps' own, with such environments and, in turns with them,
with ordinary ones alone. Writes ``docs/reliability/hostile_environments.json``.
"""

if __name__ == "__main__":  # workers import this file, a new one after every crash: it must cost them nothing
    from research.benchmarks.faults.hostile import main

    main(str(__doc__))
