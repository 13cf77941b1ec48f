from __future__ import annotations

from tests.unit.parallel import collective_jobs as jobs


def test_gathering_the_weights_holds_one_whole_tensor_at_a_time(pair, tiny_path):
    """Gloo gathers into one buffer, from which the whole tensor is put together: twice the tensor for a moment."""
    for peak, largest in pair.run(jobs.gather_memory, path=tiny_path, keep=False):
        assert largest <= peak <= 2.5 * largest
    for peak, largest in pair.run(jobs.gather_memory, path=tiny_path, keep=True):
        assert peak > 10 * largest  # as if a whole state dict were made
