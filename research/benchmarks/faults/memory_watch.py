"""The memory of another process, from its start to its end."""

from __future__ import annotations

import threading
import time


class MemoryWatch:
    """Samples a process's resident memory twice a second until it is stopped or the process ends."""

    def __init__(self, pid: int) -> None:
        import psutil

        self._process = psutil.Process(pid)
        self._samples: list[tuple[float, float]] = []
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    @property
    def seconds(self) -> float:
        """From the first to the last sample."""
        return self._samples[-1][0] if self._samples else 0.0

    def stop(self) -> list[float]:
        """Return the highest memory in each quarter of the time, MB (10^6 bytes); 0 where there was no sample."""
        self._is_over.set()
        self._thread.join()
        end = self.seconds
        return [
            max((mb for at, mb in self._samples if quarter / 4 <= at / (end or 1.0) <= (quarter + 1) / 4), default=0.0)
            for quarter in range(4)
        ]

    def _work(self) -> None:
        import psutil

        started = time.monotonic()
        while not self._is_over.wait(0.5):
            try:
                self._samples.append((time.monotonic() - started, self._process.memory_info().rss / 1e6))
            except psutil.Error:
                return
