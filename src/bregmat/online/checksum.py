"""A stream known again: a running checksum of its examples that does not depend on how they come in chunks."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import scipy

from bregmat.online.blocks import Block


class Checksum:
    """CRC-32 of the instances, of the labels and of the senses so far; against mistakes, not against malice."""

    def __init__(self) -> None:
        self.values = [0, 0, 0]

    def add(self, block: Block) -> None:
        """Take the next examples in."""
        X = [block.X] if block.is_one and scipy.sparse.issparse(block.X) else block.X
        senses = [block.sense] * block.size if isinstance(block.sense, str) else block.sense
        for k, column in enumerate((X, block.y, senses)):
            if column is not None:
                self.values[k] = _crc(column, self.values[k])


def _crc(values: Any, crc: int) -> int:
    if scipy.sparse.issparse(values):
        rows = values.tocsr()
        for part in (np.diff(rows.indptr), rows.indices, rows.data):
            crc = _crc(part, crc)
        return crc
    if isinstance(values, list | tuple) and any(scipy.sparse.issparse(value) for value in values):
        for value in values:
            crc = _crc(value, crc)
        return crc
    array = np.asarray(values)
    if array.dtype.kind in "biufc":
        return zlib.crc32(np.ascontiguousarray(array, dtype=complex if array.dtype.kind == "c" else float).data, crc)
    return zlib.crc32("\n".join([*map(str, array.ravel().tolist()), ""]).encode(), crc)
