"""Float32 kernel rows within a memory budget, and the square kernel block of the working set.

Both caches are float32: they serve the search, whose result is certified in float64.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from bregmat._kernels import vectors
from bregmat.kernels import KernelSource

# Buffers are reused by the next run of a thread, because the operating system takes longer to map new memory than the run takes to
# fill it: without reuse, a run of 10,000 samples takes 1.2 to 1.7 times as long.
KEEP = 300_000_000  # bytes; larger buffers are released at the end of a run

_kept = threading.local()  # buffers by name, and "runs": number of nested runs of this thread


@contextmanager
def run_of_buffers() -> Iterator[None]:
    """Mark a run that uses buffers. A run inside another one, such as in its callback, gets new memory."""
    _kept.runs = vars(_kept).get("runs", 0) + 1
    try:
        yield
    finally:
        _kept.runs -= 1
        if _kept.runs == 0:
            for name, have in list(vars(_kept).items()):
                if isinstance(have, np.ndarray) and have.nbytes > KEEP:
                    delattr(_kept, name)


def buffer(name: str, size: int) -> np.ndarray:
    """At least ``size`` float32 with arbitrary contents; the outermost run of a thread gets the same memory for the same name."""
    if vars(_kept).get("runs", 0) != 1:
        return np.empty(size, np.float32)
    have = vars(_kept).get(name)
    if have is None or have.size < size:
        have = np.empty(size + size // 4, np.float32)
        setattr(_kept, name, have)
    return have


class RowCache:
    """Kernel rows in float32. Rows beyond the memory budget are computed again whenever they are needed."""

    def __init__(self, kernel: KernelSource, budget: int) -> None:
        self.kernel, self.n = kernel, kernel.n
        self.max_rows = max(16, budget // (4 * self.n))
        self.place = np.full(self.n, -1, dtype=np.int64)  # of each row in the store, -1 if it is not there
        self.size = 0
        self.store = np.empty((0, self.n), np.float32)

    def add(self, f: np.ndarray, rows: np.ndarray, weight: np.ndarray) -> None:
        """``f += sum_k weight_k K[rows_k]``; f is float64."""
        if self.kernel.factor is not None:
            f += self.kernel.factor @ (weight @ self.kernel.factor[rows])
            return
        if self.kernel.matrix is not None:
            vectors.add_rows_inplace(f, self.kernel.matrix, rows, weight.astype(self.kernel.matrix.dtype))
            return
        weight = weight.astype(np.float32)
        new = rows[self.place[rows] < 0]
        n_free = self.max_rows - self.size
        self._store(new[:n_free])
        place = self.place[rows]
        held = place >= 0
        vectors.add_rows_inplace(f, self.store, place[held], weight[held])
        if len(new) <= n_free:
            return
        rows, weight = rows[~held], weight[~held]
        step = max(1, 4_000_000 // self.n)  # 16 MB of rows at a time
        for start in range(0, len(rows), step):
            some = np.empty((len(rows[start : start + step]), self.n), np.float32)
            self.kernel.fill(some, rows[start : start + step])
            vectors.add_rows_inplace(f, some, np.arange(len(some)), weight[start : start + step])

    def _store(self, new: np.ndarray) -> None:
        """Compute these rows and keep them."""
        if len(new) == 0:
            return
        need = self.size + len(new)
        if need > len(self.store):
            grown = min(max(need, (3 * len(self.store)) // 2, min(256, self.max_rows)), self.max_rows, self.n)
            memory = buffer("rows", grown * self.n)
            have = min(memory.size // self.n, self.max_rows, self.n)
            store = memory[: have * self.n].reshape(have, self.n)
            if self.size and not np.shares_memory(store[:1], self.store[:1]):
                store[: self.size] = self.store[: self.size]
            self.store = store
        self.kernel.fill(self.store[self.size :], new)
        self.place[new] = np.arange(self.size, need)
        self.size = need


class WorkingKernel:
    """The kernel over the working set in float32, with the ridge on its diagonal; it grows by appending samples."""

    def __init__(self, kernel: KernelSource, ridge: np.ndarray, expected: int, budget: int) -> None:
        self.kernel, self.ridge, self.n = kernel, ridge, kernel.n
        self.max_rows = min(self.n, max(512, math.isqrt(budget // 4)))
        self.members = np.empty(0, dtype=np.int64)
        self.diagonal = np.empty(0, np.float32)
        self._reserve(min(self.n, max(1024, expected)))

    def _reserve(self, order: int) -> None:
        """Reserve memory for at least ``order`` members."""
        memory = buffer("block", order * order)
        self.order = min(self.n, max(order, math.isqrt(memory.size)))
        self.K = memory[: self.order * self.order].reshape(self.order, self.order)

    def clear(self) -> None:
        """Remove all members."""
        self.members, self.diagonal = self.members[:0], self.diagonal[:0]

    def append(self, new: np.ndarray) -> None:
        """Add samples; the caller keeps ``len(members)`` at or below ``max_rows``."""
        m, k = len(self.members), len(new)
        if m + k > self.order:
            old = self.K[:m, :m].copy()
            self._reserve(min(self.n, max(m + k, (3 * self.order) // 2)))
            self.K[:m, :m] = old
        self.members = np.concatenate([self.members, new])
        self.kernel.fill(self.K[m:], new, self.members)
        if m > 0:
            vectors.mirror_inplace(self.K, m, m + k)
        spot = np.arange(m, m + k)
        self.K[spot, spot] += self.ridge[new].astype(np.float32)
        self.diagonal = np.concatenate([self.diagonal, self.K[spot, spot]])
