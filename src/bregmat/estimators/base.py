"""Common parts of the estimators: the context of a fit, kernel parameters, checks, lines of progress.

Estimators are dataclasses, whose constructors only store the parameters.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import validate_data

from bregmat.base.checks import as_column, check_integer, check_limits, check_random_state
from bregmat.base.points import check_numeric
from bregmat.base.threads import InterruptWarning, call_under_way, on_one_blas_thread, warn_caller
from bregmat.certificates.result import MatrixResult
from bregmat.constraints.constraints import Constraints
from bregmat.kernels import KernelFunction
from bregmat.typing import KernelName


class AllOrNothing:
    """An estimator whose fit sets all fitted attributes or none. Their names end in ``_`` or begin with ``_fit_``."""

    verbose: Any = 0
    _last: ClassVar[str] = (
        "result_"  # the attribute that a fit sets last, without which the estimator counts as not fitted
    )

    @contextmanager
    def _fitting(self) -> Iterator[None]:
        """Context of a fit: deletes the fitted attributes at the start, and again if the fit fails.

        After Ctrl-C a usable result is kept, and `KeyboardInterrupt` is raised all the same, so that a search around the fit stops.
        """
        self._forget()
        with call_under_way() as (call, is_outermost):
            try:
                yield
            except KeyboardInterrupt:
                if not self.__sklearn_is_fitted__():
                    self._forget()
                    raise
                call.is_interrupted = True
            except BaseException as error:
                self._forget()
                if call.is_interrupted and isinstance(error, Exception):
                    raise KeyboardInterrupt from error
                raise
            if self.verbose and self.__sklearn_is_fitted__():
                say(f"{type(self).__name__}: {self._ending()}")
            if not call.is_interrupted:
                return
            call.is_interrupted = is_outermost  # an inner fit raises again below; the outermost one warns
        text = f"{type(self).__name__} was interrupted {self._progress()}"
        if is_outermost:
            with suppress(InterruptWarning):  # if warnings are errors, the interrupt is raised all the same
                warn_caller(text, InterruptWarning)
        raise KeyboardInterrupt(text)

    def _forget(self) -> None:
        """Delete every fitted attribute."""
        for name in [name for name in vars(self) if name.endswith("_") or name.startswith("_fit_")]:
            delattr(self, name)

    def __sklearn_is_fitted__(self) -> bool:
        return self._last in vars(self)

    def _progress(self) -> str:
        """How far an interrupted fit came, in words that follow "interrupted"."""
        results = vars(self)["result_"]
        if isinstance(results, list):
            n_done = sum(result.exit_reason != "INTERRUPTED" for result in results)
            return f"with {n_done} of {len(results)} machines trained; result_ and the other fitted attributes are set."
        return f"{results.progress}; result_ and the other fitted attributes are set."

    def _ending(self) -> str:
        """The last line of a verbose fit: status, objective, gap, time."""
        results = vars(self)["result_"]
        if not isinstance(results, list):
            return results.ending
        worst = max(results, key=lambda result: result.gap)
        seconds = sum(result.seconds for result in results)
        return f"{len(results)} machines, {seconds:.2f} s in all; the one of the largest gap: {worst.ending}"


@on_one_blas_thread
class ResultLearner(AllOrNothing):
    """A learner with a ``result_`` and its constraints; model files contain both."""

    result_: MatrixResult
    constraints_: Constraints | None
    n_iter_: int


@dataclass(eq=False, repr=False, kw_only=True)
class KernelEstimator:
    """Parameters and tags of estimators that have a kernel."""

    kernel: KernelName | Callable[..., Any] = field(default="rbf", kw_only=False)
    gamma: float | None = None
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


def validated(estimator: Any, X: Any, *y: Any, name: str = "X", **options: Any) -> Any:
    """Check points by :func:`sklearn.utils.validation.validate_data`. Entries that it would convert silently raise an error first.

    Parameters
    ----------
    estimator : estimator
        Number and names of its columns are set, or compared with those of X.
    X : array-like or scipy.sparse, shape (n, d)
    *y : array-like, shape (n,)
        Labels, checked as well.
    name : str
        Name of the argument, for messages.
    **options
        Of ``validate_data``; the default dtype is float64.
    """
    if type(X) is not np.ndarray or X.dtype.kind not in "biuf":
        check_numeric(name, X)
    return validate_data(estimator, X, *y, **{"dtype": np.float64} | options)


def sample_weights(sample_weight: Any, n: int) -> np.ndarray:
    """Checked weights of n points, at least 0; ones if there are none."""
    if sample_weight is None:
        return np.ones(n)
    return as_column("sample_weight", sample_weight, n, per="row of X", scalar=True, lowest=0.0)


def check_labelled(estimator: Any, y: Any, *, but: str = "") -> None:
    """Raise scikit-learn's error if there are no labels; ``but`` is put before it."""
    if y is None:
        name = type(estimator).__name__
        raise ValueError(f"{but}This {name} estimator requires y to be passed, but the target y is None.")


def check_run(estimator: Any, max_seconds: float | None = None) -> None:
    """Raise if tol, max_iter, callback, random_state or verbose of an estimator is invalid, or the time limit."""
    check_limits(
        tol=estimator.tol,
        max_iter=estimator.max_iter,
        max_seconds=max_seconds,
        callback=estimator.callback,
        fewest=1,
    )
    check_random_state(estimator.random_state)
    verbose = estimator.verbose
    check_integer("verbose", int(verbose) if isinstance(verbose, bool) else verbose, 0, optional=False)


# ---------------------------------------------------------------------- lines of progress
def callback_of(estimator: Any) -> Callable[[Any], Any] | None:
    """The callback of an estimator; a verbose estimator also prints progress."""
    return VerboseCallback(int(estimator.verbose), estimator.callback) if estimator.verbose else estimator.callback


def say(text: str) -> None:
    """Print a line of progress to standard output."""
    sys.stdout.write(f"[bregmat] {text}\n")
    sys.stdout.flush()


class VerboseCallback:
    """Callback that prints some records, then calls the user's callback and returns its value.

    With ``verbose`` 1 it prints when the number of iterations has doubled, or a second after the last line; with 2 it prints all.
    """

    def __init__(self, verbose: int, callback: Callable[[Any], Any] | None = None) -> None:
        self.verbose, self.callback, self._count, self._time = verbose, callback, 0, 0.0

    def __call__(self, record: Any) -> Any:
        now, count = time.monotonic(), int(record.iteration)
        if self.verbose > 1 or now >= self._time or count >= self._count:
            self._count, self._time = 1 << count.bit_length(), now + 1.0
            stage = f"pass {record.stage}, " if record.stage > 1 else ""
            say(
                f"{stage}iteration {record.iteration}: objective {record.objective:.6g}, gap {record.gap:.1e}, "
                f"violation {record.violation:.1e}, {record.seconds:.1f} s"
            )
        return self.callback(record) if self.callback is not None else None
