"""Float32 memory that is kept between runs: the first touch of fresh pages costs more than what is written there."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

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
