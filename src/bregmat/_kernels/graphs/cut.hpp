// Kernighan-Lin passes on a balanced cut, and products of its relaxation in factor form.
//
// The graph of n vertices is a symmetric matrix A in compressed rows: indptr (n + 1,), indices and data (m,).
// The passes are our own: networkx, which is no dependency, took 5 to 34 times longer for cuts that were 5 to 31 % heavier
// (benchmarks/bench_cut.py), and 64 starts want refinement.
#pragma once
#include "base/views.hpp"

namespace bregmat::cut {

// By how much the cut falls when vertex i alone changes sides: sum_j w_ij over the other side minus over its own; gain, x (n,).
void swap_gains_inplace(Vector<double> gain, Vector<const double> x, Vector<const int32_t> indptr,
                        Vector<const int32_t> indices, Vector<const double> data);

// Kernighan-Lin: in every pass all vertices change sides once, best pair next; the best prefix of the pass is kept.
//
// x (n,) is +-1 with equal numbers of each. A pair is the best vertex of either side and then the best of the other, whose gain
// includes the effect of the first. A pass ends `patience` pairs after its best prefix, the search when a pass gains no more
// than `least`. Returns by how much the cut fell. O(m log n) a pass.
double refine_inplace(Vector<double> x, Vector<const int32_t> indptr, Vector<const int32_t> indices,
                      Vector<const double> data, double least, Index patience, Index max_passes);

// out = (diag(diagonal) - A) D and the inner products of its rows with those of R, along; out, D, R (n, k); along, diagonal (n,).
void curved_inplace(Matrix<double> out, Vector<double> along, Matrix<const double> D, Matrix<const double> R,
                    Vector<const double> diagonal, Vector<const int32_t> indptr, Vector<const int32_t> indices,
                    Vector<const double> data);

// U - a R - e b' with a = along - R b; U, R (n, k), along (n,), which becomes a, b (k,).
void project_inplace(Matrix<double> U, Vector<double> along, Matrix<const double> R, Vector<const double> b);

}  // namespace bregmat::cut
