"""A line of progress for ``verbose``."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any


class Progress:
    """Callback that writes the record to standard output: at most once a second (verbose 1), or always (2 and more).

    Calls the user's callback after that and hands its answer on.
    """

    def __init__(self, verbose: int, callback: Callable[[Any], Any] | None = None) -> None:
        self.verbose, self.callback = verbose, callback
        self._next = 0.0

    def __call__(self, record: Any) -> Any:
        now = time.monotonic()
        if self.verbose > 1 or now >= self._next:
            self._next = now + 1.0
            sys.stdout.write(
                f"[bregmat] iteration {record.iteration}: objective {record.objective:.6g}, gap {record.gap:.1e}, "
                f"violation {record.violation:.1e}, {record.seconds:.1f} s\n"
            )
            sys.stdout.flush()
        return self.callback(record) if self.callback is not None else None
