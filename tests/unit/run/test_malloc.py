from __future__ import annotations

import os
import subprocess
import sys

# In a process of its own: what the allocator was told stays told, and other tests' memory is not measured.
PROGRAM = """
import os
from ada_lightning.run.machine import give_back_freed_memory, keep_freed_memory

MIB = 2**20

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

print(keep_freed_memory())
start = resident()
blocks = [bytearray(b"x" * (4 * MIB)) for _ in range(64)]
del blocks
print((resident() - start) // MIB)
give_back_freed_memory()
print((resident() - start) // MIB)
"""


def test_freed_memory_is_kept_until_it_is_given_back():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, env=os.environ)
    took, kept_mib, left_mib = done.stdout.split()
    assert took == "True"
    assert int(kept_mib) > 200  # 64 blocks of 4 MiB
    assert int(left_mib) < 20
