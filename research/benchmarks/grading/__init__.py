"""Graders side by side on answers that a person judged: ``python -m research.benchmarks.grading --install``.

Each pair is a gold answer and a given one, and says whether they are equal: the lines of ``corpus.jsonl``, whose kinds
are in ``corpus.py``, and the pairs that hold the rules of MathReward (``tests/unit/rewards/answer_pairs.jsonl``). Each
grader is called as its trainer calls it, in a process of its own, with a time limit for each pair. Counted are equal
answers that it refuses and unequal ones that it accepts. Writes ``docs/rewards/grading.json``, of which
``python -m research.benchmarks.tables`` makes the tables in docs/math_grader.md.

Graders of others stand in a folder of their own, which ``--install`` makes by pip; without it they count as not
installed. math-verify is asked twice: beside Hydra, whose ANTLR runtime has it read with an older grammar, and alone.
"""
