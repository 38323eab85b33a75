// Blocks of a Gaussian kernel: matrix product and exponential chunk by chunk, in cache; sums of its rows.
//
// Threads may share a loop: each call does the part start ... stop - 1, which begins at a multiple of its unit. What is written does
// not depend on the parts.
#pragma once
#include "base/views.hpp"

namespace bregmat::kernel_rows {

// Rows and columns of a chunk in float, which takes 1 MB, and in double.
constexpr Index CHUNK = 512, HALF = 256;

// out_ij = sA_i sB_j exp(scale A_i . B_j - hA_i - hB_j); symmetric where A is B: half the work. float and double
// out (>= m, >= n), A (m, d), hA and sA (m,), B (n, d), hB and sB (n,); empty sA and sB for ones; a part of the columns and its
// mirror image, unit CHUNK or HALF.
template <class T>
void gaussian_block_inplace(Matrix<T> out, Matrix<const T> A, Vector<const T> hA, Vector<const T> sA, Matrix<const T> B,
                            Vector<const T> hB, Vector<const T> sB, T scale, bool symmetric, Index start, Index stop);
// out_ij = exp(-|A_i - B_j|^2 / 2) from differences, for few features: A (m, d), BT (d, n); a part of the columns, unit CHUNK.
void gaussian_near_rows_inplace(Matrix<float> out, Matrix<const float> A, Matrix<const float> BT, Index start,
                                Index stop);
// out_i += sum_j exp(scale A_i . B_j - hA_i - hB_j) weight_j, no matrix kept; symmetric where A is B: half the work.
// A (m, d), hA (m,), B (n, d), hB and weight (n,); entries start ... stop - 1 of out[0], out (1, m), unit HALF. Symmetric: vectors
// start ... stop - 1 of out (p, m), whose sum over p is wanted; vector k takes every p-th chunk of rows from the k-th on, about as
// long as any other.
void gaussian_sums_inplace(Matrix<double> out, Matrix<const double> A, Vector<const double> hA, Matrix<const double> B,
                           Vector<const double> hB, Vector<const double> weight, double scale, bool symmetric,
                           Index start, Index stop);

// kernel_rows_contract.cpp: target = exp(min(scale source - own - h, 0)), relative error below 2e-7 down to an exponent of -87, in
// double below 4e-16 down to -708; the exponent stops there.
template <class T>
void exp_row_inplace(Vector<T> target, Vector<const T> source, T scale, T own, Vector<const T> h);
// Columns of one row of gaussian_near_rows_inplace from start on.
void near_row_inplace(Vector<float> target, Vector<const float> own, Matrix<const float> BT, Index start);

}  // namespace bregmat::kernel_rows
