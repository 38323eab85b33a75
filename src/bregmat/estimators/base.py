"""What estimators share: fits that set all fitted attributes or none, kernel parameters, checks, lines of progress.

Estimators are dataclasses: each parameter is one line with its default, and the constructor only stores it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import validate_data

from bregmat.base.checks import check_integer, check_limits
from bregmat.base.interrupts import call_under_way, raise_interrupt
from bregmat.base.points import check_numeric
from bregmat.base.sampling import check_random_state
from bregmat.kernels import KernelFunction
from bregmat.typing import KernelName


class AllOrNothing:
    """Fitted attributes that are all there or not at all; their names end in ``_`` or begin with ``_fit_``."""

    verbose: Any = 0
    _last: ClassVar[str] = "result_"  # the attribute that is set last: without it nothing can be predicted or mapped

    @contextmanager
    def _fitting(self) -> Iterator[None]:
        """Context of a fit: fitted attributes are dropped first, and again if the fit fails.

        Ctrl-C always raises `KeyboardInterrupt` in the end, so that a search around the fit ends, too. A usable result is kept.
        """
        self._forget()
        with call_under_way() as (call, is_outermost):
            try:
                yield
            except KeyboardInterrupt:
                if not self._keeps_something():
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
            call.is_interrupted = is_outermost  # an inner call raises again below, and the outer one reports it
        text = f"{type(self).__name__} was interrupted {self._progress()}"
        raise_interrupt(text, is_told=not is_outermost)

    def _keeps_something(self) -> bool:
        """Whether an interrupted fit has left what can be used."""
        return self.__sklearn_is_fitted__()

    def __sklearn_is_fitted__(self) -> bool:
        return self._last in vars(self)

    def _progress(self) -> str:
        """How far the fit came, to go on after "interrupted"."""
        results = vars(self)["result_"]
        if isinstance(results, list):
            n_done = sum(result.exit_reason != "INTERRUPTED" for result in results)
            return f"with {n_done} of {len(results)} machines trained; result_ and the other fitted attributes are set."
        return f"{results.progress}; result_ and the other fitted attributes are set."

    def _ending(self) -> str:
        """The closing line of a verbose fit: status, objective, gap, time."""
        results = vars(self)["result_"]
        if not isinstance(results, list):
            return results.ending
        worst = max(results, key=lambda result: result.gap)
        seconds = sum(result.seconds for result in results)
        return f"{len(results)} machines, {seconds:.2f} s in all; the one of the largest gap: {worst.ending}"

    def _forget(self) -> None:
        """Drop every fitted attribute."""
        for name in [name for name in vars(self) if name.endswith("_") or name.startswith("_fit_")]:
            delattr(self, name)


@dataclass(eq=False, repr=False, kw_only=True)
class KernelEstimator:
    """Estimators with a kernel among their parameters."""

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
    """Points checked by :func:`sklearn.utils.validation.validate_data`; what that would convert silently raises an error first.

    Parameters
    ----------
    estimator : estimator
        Its columns are compared, or set.
    X : array-like or scipy.sparse, shape (n, d)
    *y : array-like, shape (n,)
        Labels that are checked along.
    name : str
        The argument, as the caller knows it.
    **options
        Of ``validate_data``; the type is float64 unless it is given.
    """
    check_numeric(name, X)
    return validate_data(estimator, X, *y, **{"dtype": np.float64} | options)


def check_labelled(estimator: Any, y: Any, *, but: str = "") -> None:
    """Raise scikit-learn's error for missing labels, after a text of the caller's."""
    if y is None:
        name = type(estimator).__name__
        raise ValueError(f"{but}This {name} estimator requires y to be passed, but the target y is None.")


def check_at_most(name: str, value: Any, most: int, of: str, *, known_as: str = "") -> None:
    """Raise for a number that is larger than what the data has; None passes.

    Parameters
    ----------
    name : str
        The argument, as the caller knows it.
    value : int or None
    most : int
    of : str
        What is counted, for the message.
    known_as : str
        scikit-learn's name of that number, such as ``"n_samples="``.
    """
    if value is not None and value > most:
        raise ValueError(f"{name} must be at most {known_as}{most}, the number of {of}; got {value}.")


def check_run(estimator: Any, max_seconds: float | None = None) -> None:
    """Raise for a bad tol, max_iter, callback, random_state or verbosity of an estimator, or a bad limit on time."""
    check_limits(
        tol=estimator.tol,
        max_iter=estimator.max_iter,
        max_seconds=max_seconds,
        callback=estimator.callback,
        fewest=1,
    )
    check_random_state(estimator.random_state)
    check_integer(
        "verbose",
        int(estimator.verbose) if isinstance(estimator.verbose, bool) else estimator.verbose,
        0,
        optional=False,
    )


def callback_of(estimator: Any) -> Callable[[Any], Any] | None:
    """The callback of an estimator, behind a line of progress if it is verbose."""
    return VerboseCallback(int(estimator.verbose), estimator.callback) if estimator.verbose else estimator.callback


class Lines:
    """Decides when a line of progress is due: at doubling counts and a second after the last line (verbose 1), or always (2)."""

    def __init__(self, verbose: int) -> None:
        self.verbose, self._count, self._time = verbose, 0, 0.0

    def is_due(self, count: int) -> bool:
        """Whether to write a line now; the caller is expected to write it."""
        now = time.monotonic()
        is_due = self.verbose > 1 or now >= self._time or count >= self._count
        if is_due:
            self._count, self._time = 1 << int(count).bit_length(), now + 1.0
        return is_due


def is_watched() -> bool:
    """Whether standard output is a terminal or a notebook, where somebody may wait for progress."""
    return sys.stdout.isatty() or type(sys.stdout).__module__.startswith("ipykernel")


def say(text: str) -> None:
    """A line of progress on standard output."""
    sys.stdout.write(f"[bregmat] {text}\n")
    sys.stdout.flush()


class VerboseCallback:
    """Callback that prints a record when a line is due, then calls the user's callback and returns its answer."""

    def __init__(self, verbose: int, callback: Callable[[Any], Any] | None = None) -> None:
        self.lines, self.callback = Lines(verbose), callback

    def __call__(self, record: Any) -> Any:
        if self.lines.is_due(record.iteration):
            stage = f"pass {record.stage}, " if record.stage > 1 else ""
            say(
                f"{stage}iteration {record.iteration}: objective {record.objective:.6g}, gap {record.gap:.1e}, "
                f"violation {record.violation:.1e}, {record.seconds:.1f} s"
            )
        return self.callback(record) if self.callback is not None else None
