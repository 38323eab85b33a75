// Greedy descent on quadratics with bounds: one coordinate, or a pair where the sum is fixed (SMO).
//
// Both solve min 1/2 x'K x - c'x, lower <= x <= upper, and keep the negative gradient e = c - K x; selection is by second-order
// gain. A step is two passes over rows of K, so it must run at the speed of memory: a maximum is found by a loop that vectorises,
// and its position is looked up afterwards. T, the type of e, may be a shorter one than TK, that of K.
#pragma once
#include <tuple>

#include "base/views.hpp"

namespace bregmat::smo {

using Bounds = Vector<const double>;

// Sequential minimal optimisation: pairs move so that sum(x) stays what it is. x and e (n,) are overwritten, diagonal is that of
// K (>= n, >= n), bounds may be infinite. Stops when the largest e over x < upper minus the smallest over x > lower is at most tol.
// Returns the number of steps and those two values. Selection: Fan, Chen, Lin 2005, "WSS 2". A NaN runs to max_iter.
template <class T, class TK>
std::tuple<Index, T, T> pair_descent_inplace(Vector<double> x, Vector<T> e, Matrix<const TK> K,
                                             Vector<const T> diagonal, Bounds lower, Bounds upper, double tol,
                                             Index max_iter);
// Coordinate descent by the largest second-order gain. For a quadratic program min 1/2 x'A x + b'x pass K = A and e = -(A x + b); A
// may be singular, and a zero on its diagonal sends the coordinate to its bound, which must be finite then. Stops when no feasible
// coordinate has a slope above tol. Returns the number of steps and the largest slope left. e drifts by rounding.
template <class T, class TK>
std::pair<Index, T> greedy_descent_inplace(Vector<double> x, Vector<T> e, Matrix<const TK> K, Vector<const T> diagonal,
                                           Bounds lower, Bounds upper, double tol, Index max_iter);

// The slopes of all entries, and what is added to them for their extremes: 0 where x may rise, or fall. All vectors (n,).
template <class T, class TK>
struct Slopes {
    Vector<T> e, may_rise, may_fall, gain;
    using Row = Vector<const TK>;

    // e -= step (Ki - Kj) and gain = e + may_rise; the largest of that, and the smallest of e + may_fall.
    std::pair<T, T> move_pair(Row Ki, Row Kj, T step) const;
    // Gain of pairing i with every t that may fall: (e_i - e_t)^2 / (K_ii + K_tt - 2 K_it), e_i = high, K_ii = own; the largest.
    T pair_gain(Row Ki, Vector<const T> diagonal, T high, T own, T floor) const;
    // e -= step Ki, then the gain of every coordinate; the largest gain and the largest violation.
    std::pair<T, T> move_one(Row Ki, Vector<const T> inverse, T step) const;
    // First index with that gain; the last one where there is none, as with NaN.
    Index position(T value) const;
};

}  // namespace bregmat::smo
