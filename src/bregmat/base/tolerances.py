"""Levels of relative accuracy that several rooms share, in terms of the rounding of float64.

A level says what may be rounding. A constant that tunes one function stays beside it, and the tolerance of a caller is a parameter.
"""

from __future__ import annotations

import numpy as np

EPS = float(np.finfo(float).eps)  # 2.2e-16: distance of 1 to the next float64
UNIT_ROUNDOFF = 1.2e-16  # a little more than EPS / 2, the largest relative error of one operation
TINY = 1e-300  # replaces values that rounding or underflow made 0 or negative, in logarithms and quotients
SUM_ROUNDING = 1e-14  # 45 EPS: rounding of a sum of a few terms, relative to the largest one
VANISHING = 1e-13  # 450 EPS: a vector that is shorter, relative to its terms, is rounding; part of the problem, since its row is 0
RANK_TOL = 1e-12  # 4,500 EPS: eigenvalues, pivots and squared distances below this share of the largest count as 0
IDENTICAL = 1e-24  # the square of RANK_TOL: squared distance, relative to its terms, of points that agree in 12 digits
INDEFINITE = 1e-10  # times sqrt(n), relative to the largest diagonal entry: a more negative eigenvalue does not come from rounding
PERTURBATION = 1e-12  # change of the linear term, relative to its unit, that a bound of a program may assume
FEASIBLE = 1e-9  # relative violation of a hard row that counts as met: rounding of its value over its bound
HALF_DIGITS = 1e-8  # about the root of EPS: rounding of squares, of eigenvalues of data, and of figures computed twice
REPEATED = 1e-7  # distance of points that count as one, relative to their spread: its square is rounding
CANCELLED = 1e-6  # rounding of a quantity, relative to its unit, above which the quantity proves nothing
