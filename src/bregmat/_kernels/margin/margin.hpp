#pragma once
#include "base/vectors.hpp"

namespace bregmat {

// Greedy descent on quadratics with bounds: one coordinate, or a pair where the sum is fixed (SMO).
//
// Both solve min 1/2 x'K x - c'x, lower <= x <= upper, and keep the negative gradient e = c - K x; selection is by second-order
// gain. A step is two passes over rows of K, so it must run at the speed of memory: a maximum is found by a loop that vectorises,
// and its position is looked up afterwards. T, the type of e, may be a shorter one than TK, that of K.
namespace smo {

using Bounds = Vector<const double>;

// Sequential minimal optimisation: pairs move so that sum(x) stays what it is. x and e (n,) are overwritten, diagonal is that of
// K (>= n, >= n), bounds may be infinite. Stops when the largest e over x < upper minus the smallest over x > lower is at most tol.
// Returns the number of steps and those two values. Selection: Fan, Chen, Lin 2005, "WSS 2". A NaN runs to max_iter.
template <class T, class TK> std::tuple<Index, T, T> pair_descent_inplace(Vector<double> x, Vector<T> e,
    Matrix<const TK> K, Vector<const T> diagonal, Bounds lower, Bounds upper, double tol, Index max_iter);
// Coordinate descent by the largest second-order gain. For a quadratic program min 1/2 x'A x + b'x pass K = A and e = -(A x + b); A
// may be singular, and a zero on its diagonal sends the coordinate to its bound, which must be finite then. Stops when no feasible
// coordinate has a slope above tol. Returns the number of steps and the largest slope left. e drifts by rounding.
template <class T, class TK> std::pair<Index, T> greedy_descent_inplace(Vector<double> x, Vector<T> e,
    Matrix<const TK> K, Vector<const T> diagonal, Bounds lower, Bounds upper, double tol, Index max_iter);

// The slopes of all entries, and what is added to them for their extremes: 0 where x may rise, or fall. All vectors (n,).
template <class T, class TK> struct Slopes {
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

}  // namespace smo

// Blocks of a Gaussian kernel: matrix product and exponential chunk by chunk, in cache; sums of its rows.
//
// Threads may share a loop: each call does the part start ... stop - 1, which begins at a multiple of its unit. What is written does
// not depend on the parts.
namespace kernel_rows {

// Rows and columns of a chunk in float, which takes 1 MB, and in double.
constexpr Index CHUNK = 512, HALF = 256;

// out_ij = sA_i sB_j exp(scale A_i . B_j - hA_i - hB_j); symmetric where A is B: half the work. float and double
// out (>= m, >= n), A (m, d), hA and sA (m,), B (n, d), hB and sB (n,); empty sA and sB for ones; a part of the columns and its
// mirror image, unit CHUNK or HALF.
template <class T> void gaussian_block_inplace(Matrix<T> out, Matrix<const T> A, Vector<const T> hA, Vector<const T> sA,
    Matrix<const T> B, Vector<const T> hB, Vector<const T> sB, T scale, bool symmetric, Index start, Index stop);
// out_ij = exp(-|A_i - B_j|^2 / 2) from differences, for few features: A (m, d), BT (d, n); a part of the columns, unit CHUNK.
void gaussian_near_rows_inplace(
    Matrix<float> out, Matrix<const float> A, Matrix<const float> BT, Index start, Index stop);
// out_i += sum_j exp(scale A_i . B_j - hA_i - hB_j) weight_j, no matrix kept; symmetric where A is B: half the work.
// A (m, d), hA (m,), B (n, d), hB and weight (n,); entries start ... stop - 1 of out[0], out (1, m), unit HALF. Symmetric: vectors
// start ... stop - 1 of out (p, m), whose sum over p is wanted; vector k takes every p-th chunk of rows from the k-th on, about as
// long as any other.
void gaussian_sums_inplace(Matrix<double> out, Matrix<const double> A, Vector<const double> hA, Matrix<const double> B,
    Vector<const double> hB, Vector<const double> weight, double scale, bool symmetric, Index start, Index stop);

// kernel_rows_contract.cpp: target = exp(min(scale source - own - h, 0)), relative error below 2e-7 down to an exponent of -87, in
// double below 4e-16 down to -708; the exponent stops there.
template <class T> void exp_row_inplace(Vector<T> target, Vector<const T> source, T scale, T own, Vector<const T> h);
// Columns of one row of gaussian_near_rows_inplace from start on.
void near_row_inplace(Vector<float> target, Vector<const float> own, Matrix<const float> BT, Index start);

}  // namespace kernel_rows
}  // namespace bregmat
