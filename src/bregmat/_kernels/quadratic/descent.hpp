// Coordinate descent on 1/2 x'Ax + b'x in the box 0 <= x <= upper, and what is asked of A before anything else.
// x, g = A x + b, upper (n,), A (n, n); x and g are changed.
#pragma once
#include <tuple>

#include "base/views.hpp"

namespace bregmat::descent {

enum Inspection : int { FINE, NOT_FINITE, NOT_SYMMETRIC, NOT_DEFINITE };

// One coordinate after another, `relaxation` times the way to its minimum; the decrease of the objective and how many
// coordinates went to a bound or left one.
std::pair<double, Index> sweep_inplace(Vector<double> x, Vector<double> g, Matrix<const double> A,
                                       Vector<const double> upper, double relaxation);
// Minimise over the coordinate that gains most, until no condition is violated by more than tol; the number of steps.
Index greedy_inplace(Vector<double> x, Vector<double> g, Matrix<const double> A, Vector<const double> upper, double tol,
                     Index most);
// Upper triangle of A[rows][:, rows] in the precision of M; M (k, k), A (n, n), rows (k,)
template <class T>
void gather_triangle_inplace(Matrix<T> M, Matrix<const double> A, Vector<const int64_t> rows);
// First reason why A is not finite, symmetric and positive semidefinite that its 2 x 2 minors show, with the entry.
std::tuple<int, Index, Index> inspect(Matrix<const double> A, double tol, double slack);

}  // namespace bregmat::descent
