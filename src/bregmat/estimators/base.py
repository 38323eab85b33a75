"""What estimators share: fitted attributes that are all there or none, the kernel among the parameters, a line of progress.

Estimators are dataclasses: each parameter is one line, its default beside it, and all that a constructor does is to keep it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

from bregmat.checks import check_integer, check_limits
from bregmat.kernels import KernelFunction
from bregmat.sampling import check_random_state
from bregmat.solve import SOLVERS


class AllOrNothing:
    """Fitted attributes that are all there or not at all; their names end in ``_`` or begin with ``_fit_``."""

    _kept: ClassVar[tuple[str, ...]] = ()  # fitted numbers and arrays that files hold, those that are there
    _solvers: ClassVar[Mapping[str, type]] = SOLVERS  # whose settings files hold

    @contextmanager
    def _fitting(self) -> Iterator[None]:
        """What a fit does: every fitted attribute is dropped first, and whatever goes wrong, nothing half fitted stays."""
        self._forget()
        try:
            yield
        except BaseException:
            self._forget()
            raise

    def _forget(self) -> None:
        """Drop every fitted attribute."""
        for name in [name for name in vars(self) if name.endswith("_") or name.startswith("_fit_")]:
            delattr(self, name)


@dataclass(eq=False, repr=False, kw_only=True)
class KernelEstimator:
    """Estimators with a kernel among their parameters."""

    kernel: str | Callable[..., Any] = field(default="rbf", kw_only=False)
    gamma: Any = None
    degree: float = 3
    coef0: float = 1
    kernel_params: dict[str, Any] | None = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        kernel = KernelFunction(vars(self)["kernel"])
        tags.input_tags.pairwise = kernel.is_precomputed
        tags.input_tags.positive_only = kernel.facts.is_positive_only
        tags.input_tags.sparse = bool(kernel.accept_sparse)
        return tags

    def _kernel_function(self) -> KernelFunction:
        """The kernel of the parameters, checked."""
        return KernelFunction.of(vars(self)["kernel"], self.gamma, self.degree, self.coef0, self.kernel_params)


def check_run(estimator: Any) -> None:
    """Raise for a bad tol, max_iter, max_seconds (where there is one), callback or random_state of an estimator."""
    check_limits(
        tol=estimator.tol,
        max_iter=estimator.max_iter,
        max_seconds=getattr(estimator, "max_seconds", None),
        callback=estimator.callback,
        fewest=1,
    )
    check_random_state(estimator.random_state)
    if not isinstance(estimator.verbose, bool):
        check_integer("verbose", estimator.verbose, 0, optional=False)


def callback_of(estimator: Any) -> Callable[[Any], Any] | None:
    """The callback of an estimator, behind a line of progress if it is verbose."""
    return Progress(int(estimator.verbose), estimator.callback) if estimator.verbose else estimator.callback


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
