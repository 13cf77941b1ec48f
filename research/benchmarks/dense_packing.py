"""Would another rule pack responses into fewer microbatches? ``python -m research.benchmarks.dense_packing``.

arXiv:2603.04135 refills batches that pruning thinned out by greedy packing inside a window ("dense prompt packing").
Here nothing is padded and every microbatch is cut by tokens, so a rule can only save microbatches. Compared, on prompts
with log-normal responses of which a share was pruned: the rule of ``ada_lightning.core.packing`` (longest first to
whichever has least, one microbatch more where that breaks the budget), first fit decreasing over all documents, and
first fit decreasing inside a sliding window. Prints microbatches against the lower bound ``ceil(tokens / budget)``, and
how uneven they are: the largest one sets the peak of memory, an uneven one wastes a device.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Sequence

from ada_lightning.core.packing import _balance, _Document
from ada_lightning.core.records import KeptResponse, Prompt, Response, ResponseGroup, ResponsePool

Rule = Callable[[Sequence[_Document], int], list[list[int]]]


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompts", type=int, default=64, help="prompts of a step")
    parser.add_argument("--responses", type=int, default=8, help="responses per prompt before pruning")
    parser.add_argument("--rollouts", type=int, default=50, help="simulated steps of each kind")
    arguments = parser.parse_args()
    rules: dict[str, Rule] = {
        "as it is": lambda documents, budget: [
            [d.num_tokens for d in part] for (part,) in _balance(documents, budget, num_replicas=1)
        ],
        "first fit, all": lambda documents, budget: first_fit(documents, budget, len(documents)),
        "first fit, window 32": lambda documents, budget: first_fit(documents, budget, 32),
    }
    print(
        f"{'shared':<8}{'pruned':<8}{'budget':<8}{'rule':<22}{'microbatches':>13}{'bound':>8}{'fullest/emptiest':>18}"
    )
    for is_shared in (True, False):
        for pruned in (0.0, 0.7):
            for budget in (1024, 4096):
                compare(rules, is_shared, pruned, budget, arguments)


def compare(rules: dict[str, Rule], is_shared: bool, pruned: float, budget: int, arguments: argparse.Namespace) -> None:
    """Print one row per rule."""
    rollouts = [
        documents_of(random.Random(seed), arguments.prompts, arguments.responses, pruned, budget, is_shared)
        for seed in range(arguments.rollouts)
    ]
    bound = sum(-(-sum(d.num_tokens for d in documents) // budget) for documents in rollouts) / len(rollouts)
    for name, rule in rules.items():
        packed = [rule(documents, budget) for documents in rollouts]
        number = sum(map(len, packed)) / len(packed)
        uneven = sum(max(map(sum, parts)) / min(map(sum, parts)) for parts in packed) / len(packed)
        print(f"{is_shared!s:<8}{pruned:<8g}{budget:<8}{name:<22}{number:>13.2f}{bound:>8.2f}{uneven:>18.2f}")


def documents_of(
    generator: random.Random, num_prompts: int, num_responses: int, pruned: float, budget: int, is_shared: bool
) -> list[_Document]:
    """Prompts of 50 to 250 tokens, responses of median 200 tokens with a long tail, at most 900."""
    documents = []
    for slot in range(num_prompts):
        pool = ResponsePool(Prompt(f"p{slot}", (), prompt_ids=(0,) * generator.randrange(50, 250)), slot)
        kept = tuple(
            KeptResponse(response(min(900, int(generator.lognormvariate(5.3, 0.8)) + 1)), 1.0)
            for _ in range(num_responses)
            if generator.random() >= pruned
        )
        group = ResponseGroup(pool, kept)
        if not is_shared:
            documents += [_Document(group, (one,)) for one in kept]
            continue
        for one in kept:
            last = documents[-1] if documents and documents[-1].group is group else None
            if last and last.num_tokens + len(one.response.response_ids) <= budget:
                documents[-1] = _Document(group, (*last.kept, one))
            else:
                documents.append(_Document(group, (one,)))
    generator.shuffle(documents)
    return [document for document in documents if document.num_tokens <= budget]


def response(num_tokens: int) -> Response:
    """Only its length counts."""
    return Response("", 0, 0, (0,) * num_tokens, (), "", False, 0.0, False, 0)


def first_fit(documents: Sequence[_Document], budget: int, window: int) -> list[list[int]]:
    """First fit decreasing, window by window; microbatches of earlier windows stay open."""
    parts: list[list[int]] = []
    for start in range(0, len(documents), window):
        for size in sorted((d.num_tokens for d in documents[start : start + window]), reverse=True):
            fitting = next((part for part in parts if sum(part) + size <= budget), None)
            if fitting is None:
                parts.append([size])
            else:
                fitting.append(size)
    return parts


if __name__ == "__main__":
    main()
