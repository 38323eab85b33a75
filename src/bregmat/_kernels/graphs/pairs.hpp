// Gathers over pairs of points. A pair stands for the vector z_a + s z_b; nothing of size c x r is formed.
// out_i depends on pair i alone, so that threads may share a loop. Z and Y (n, r); a, b and sign (c,).
#pragma once
#include "base/views.hpp"

namespace bregmat::pairs {

// pairs_relaxed.cpp: sums of r products in any order; benchmarks/bench_million.py measures the gain. double and float
// out_i = |z_a + s z_b|^2, out (c,)
template <class T>
void sq_norms_inplace(Vector<double> out, Matrix<const T> Z, Vector<const int32_t> a, Vector<const int32_t> b,
                      Vector<const int8_t> sign);
// out_i = (z_a + s z_b) . (y_a + s y_b), out (c,)
template <class T>
void bilinear_inplace(Vector<T> out, Matrix<const T> Z, Matrix<const T> Y, Vector<const int32_t> a,
                      Vector<const int32_t> b, Vector<const int8_t> sign);
// out_u = sum over terms at u of w (z_u + s z_other): rows start ... stop - 1 of the weighted graph matrix times Z, out (n, r).
// ptr (n + 1,), other, sign and w (m,) are in the order of adjacency_inplace.
template <class T>
void laplacian_product_inplace(Matrix<T> out, Vector<const int64_t> ptr, Vector<const int32_t> other,
                               Vector<const int8_t> sign, Vector<const T> w, Matrix<const T> Z, Index start,
                               Index stop);

// pairs.cpp
// Compressed rows of the pair graph: for each point its edges and the point at the other end, ptr (n + 1,), edge and other (m,).
// A term with sign 0 is the point alone and is listed once: m = c + the number of signs other than 0.
void adjacency_inplace(Vector<int64_t> ptr, Vector<int32_t> edge, Vector<int32_t> other, Vector<const int32_t> a,
                       Vector<const int32_t> b, Vector<const int8_t> sign);

}  // namespace bregmat::pairs
