"""Float32 kernel rows within a memory budget, and the growing square block of the working set."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from bregmat._kernels import vectors
from bregmat.kernels import KernelSource

# Memory is kept between runs: the first touch of fresh pages costs more than what is written there.
KEEP = 300_000_000  # bytes of a buffer beyond which it is given back at the end of a run

_kept = threading.local()  # arrays by name, and "runs": how many runs of this thread are under way


@contextmanager
def run_of_buffers() -> Iterator[None]:
    """A run that borrows. One that starts within another, as from its callback, gets memory of its own."""
    _kept.runs = getattr(_kept, "runs", 0) + 1
    try:
        yield
    finally:
        _kept.runs -= 1
        if _kept.runs == 0:
            for name, have in list(vars(_kept).items()):
                if isinstance(have, np.ndarray) and have.nbytes > KEEP:
                    delattr(_kept, name)


def borrow(name: str, size: int) -> np.ndarray:
    """At least ``size`` float32, contents arbitrary; in this thread's outermost run the same memory for the same name."""
    if getattr(_kept, "runs", 0) != 1:
        return np.empty(size, np.float32)
    have = getattr(_kept, name, None)
    if have is None or have.size < size:
        have = np.empty(size + size // 4, np.float32)
        setattr(_kept, name, have)
    return have


class RowCache:
    """Rows of the kernel in float32. Rows beyond the budget are computed again whenever they are needed."""

    def __init__(self, kernel: KernelSource, budget: int) -> None:
        self.kernel, self.n = kernel, kernel.n
        self.most = max(16, budget // (4 * self.n))
        self.place = np.full(self.n, -1, dtype=np.int64)
        self.size = 0
        # Mapped for all rows that may come, touched only where rows do come.
        self.store = np.empty((0, self.n), np.float32)

    def add(self, f: np.ndarray, rows: np.ndarray, weight: np.ndarray) -> None:
        """``f += sum_k weight_k K[rows_k]``; f float64."""
        if self.kernel.given is not None:
            vectors.add_rows_inplace(f, self.kernel.given, rows, weight.astype(self.kernel.given.dtype))
            return
        weight = weight.astype(np.float32)
        new = rows[self.place[rows] < 0]
        room = self.most - self.size
        self._take(new[:room])
        place = self.place[rows]
        held = place >= 0
        vectors.add_rows_inplace(f, self.store, place[held], weight[held])
        if len(new) <= room:
            return
        rows, weight = rows[~held], weight[~held]
        step = max(1, 4_000_000 // self.n)
        for start in range(0, len(rows), step):
            some = np.empty((len(rows[start : start + step]), self.n), np.float32)
            self.kernel.fill(some, rows[start : start + step])
            vectors.add_rows_inplace(f, some, np.arange(len(some)), weight[start : start + step])

    def _take(self, new: np.ndarray) -> None:
        """Compute and keep these rows."""
        if len(new) == 0:
            return
        need = self.size + len(new)
        if need > len(self.store):
            grown = min(max(need, (3 * len(self.store)) // 2, min(256, self.most)), self.most, self.n)
            memory = borrow("rows", grown * self.n)
            have = min(memory.size // self.n, self.most, self.n)
            store = memory[: have * self.n].reshape(have, self.n)
            if self.size and not np.shares_memory(store[:1], self.store[:1]):
                store[: self.size] = self.store[: self.size]
            self.store = store
        self.kernel.fill(self.store[self.size :], new)
        self.place[new] = np.arange(self.size, need)
        self.size = need


class WorkingKernel:
    """The kernel over the working set, float32, with the ridge on its diagonal; grows by appending."""

    def __init__(self, kernel: KernelSource, ridge: np.ndarray, expected: int, budget: int) -> None:
        self.kernel, self.ridge, self.n = kernel, ridge, kernel.n
        self.most = min(self.n, max(512, math.isqrt(budget // 4)))
        self.members = np.empty(0, dtype=np.int64)
        self.diagonal = np.empty(0, np.float32)
        self._shape(min(self.n, max(1024, expected)))

    def _shape(self, order: int) -> None:
        """Room for ``order`` members, more where the kept memory has it."""
        memory = borrow("block", order * order)
        self.order = min(self.n, max(order, math.isqrt(memory.size)))
        self.K = memory[: self.order * self.order].reshape(self.order, self.order)

    def clear(self) -> None:
        """Back to an empty set."""
        self.members, self.diagonal = self.members[:0], self.diagonal[:0]

    def append(self, new: np.ndarray) -> None:
        """Let samples join; the caller keeps ``len(members)`` within ``most``."""
        m, k = len(self.members), len(new)
        if m + k > self.order:
            old = self.K[:m, :m].copy()
            self._shape(min(self.n, max(m + k, (3 * self.order) // 2)))
            self.K[:m, :m] = old
        self.members = np.concatenate([self.members, new])
        self.kernel.fill(self.K[m:], new, self.members)
        if m > 0:
            vectors.mirror_inplace(self.K, m, m + k)
        spot = np.arange(m, m + k)
        self.K[spot, spot] += self.ridge[new].astype(np.float32)
        self.diagonal = np.concatenate([self.diagonal, self.K[spot, spot]])
