#pragma once
#include <memory>
#include <vector>

#include "base/vectors.hpp"

namespace bregmat {

// Gathers over pairs of points. A pair stands for the vector z_a + s z_b; nothing of size c x r is formed.
// out_i depends on pair i alone, so that threads may share a loop. Z and Y (n, r); a, b and sign (c,).
namespace pairs {

// pairs_relaxed.cpp: sums of r products in any order; benchmarks/bench_million.py measures the gain. double and float
// out_i = |z_a + s z_b|^2, out (c,)
template <class T> void sq_norms_inplace(
    Vector<double> out, Matrix<const T> Z, Vector<const int32_t> a, Vector<const int32_t> b, Vector<const int8_t> sign);
// out_i = (z_a + s z_b) . (y_a + s y_b), out (c,)
template <class T> void bilinear_inplace(Vector<T> out, Matrix<const T> Z, Matrix<const T> Y, Vector<const int32_t> a,
    Vector<const int32_t> b, Vector<const int8_t> sign);
// out_u = sum over terms at u of w (z_u + s z_other): rows start ... stop - 1 of the weighted graph matrix times Z, out (n, r).
// ptr (n + 1,), other, sign and w (m,) are in the order of adjacency_inplace.
template <class T> void laplacian_product_inplace(Matrix<T> out, Vector<const int64_t> ptr, Vector<const int32_t> other,
    Vector<const int8_t> sign, Vector<const T> w, Matrix<const T> Z, Index start, Index stop);

// pairs.cpp
// Compressed rows of the pair graph: for each point its edges and the point at the other end, ptr (n + 1,), edge and other (m,).
// A term with sign 0 is the point alone and is listed once: m = c + the number of signs other than 0.
void adjacency_inplace(Vector<int64_t> ptr, Vector<int32_t> edge, Vector<int32_t> other, Vector<const int32_t> a,
    Vector<const int32_t> b, Vector<const int8_t> sign);

}  // namespace pairs

// Kernighan-Lin passes on a balanced cut, and products of its relaxation in factor form.
//
// The graph of n vertices is a symmetric matrix A in compressed rows: indptr (n + 1,), indices and data (m,).
// The passes are our own: networkx, which is no dependency, took 5 to 34 times longer for cuts that were 5 to 31 % heavier
// (benchmarks/bench_cut.py), and 64 starts want refinement.
namespace cut {

// Kernighan-Lin: in every pass all vertices change sides once, best vertex next; the best prefix of the pass is kept.
//
// x (n,) is +-1. The first m vertices may change sides; their weights (m,) keep the sum of weight x in range (2,) = least, largest.
// Next is the best vertex of the side whose change leaves the smaller excess over the range; if the excesses are equal, the better
// one. For equal weights and halves, these are the pairs of Kernighan and Lin. A pass ends `2 patience` vertices after its best
// prefix, the search when a pass gains no more than `least`. Returns by how much the cut fell. O(m log n) a pass.
double refine_inplace(Vector<double> x, Vector<const double> weight, Vector<const double> range,
    Vector<const int32_t> indptr, Vector<const int32_t> indices, Vector<const double> data, double least,
    Index patience, Index max_passes);

// out = (diag(diagonal) - A) D and the inner products of its rows with those of R, along; out, D, R (n, k); along, diagonal (n,).
void curved_inplace(Matrix<double> out, Vector<double> along, Matrix<const double> D, Matrix<const double> R,
    Vector<const double> diagonal, Vector<const int32_t> indptr, Vector<const int32_t> indices,
    Vector<const double> data);

}  // namespace cut

// Symmetric elimination of the vertices of least degree from a sparse matrix, until what is left is nearly dense.
namespace elimination {

// What remains of [[N, border], [border', -corner]] = LDL' after the pivots d_k, whose columns of L are l_k.
struct Rest {
    std::vector<int64_t> left;  // ascending numbers of the k rows that are left
    // Their Schur complement as LAPACK packs it ("rectangular full packed", transposed): rows of its upper triangle, and
    // in the places that these leave free, rows of the lower triangle of its last corner.
    Index rows = 0, columns = 0;  // of block: (k + 1) / 2 and k + 1 - k % 2
    std::unique_ptr<double[]> block;
    double corner = 0.0, pivot = 0.0;  // pivot: minus that of the border
    double trace = 0.0, total = 0.0;   // sum |d_k| |l_k|^2, and the trace of the Schur complement
};

// The pivots are the rows of least degree, and then the border. The corner is chosen after all other pivots: it is small,
// but a few times what `rounding` may change in the sizes of the pivots.
//
// The method stops when the entries of the rows that a pivot changes exceed `share` of the square of the number of rows that
// are left. Rows whose pivot is small or negative are left, too. Minimum degree with explicit fill.
//
// diagonal and border (n,) are overwritten; terms (n,) becomes the number of pivots that changed each row, without the
// border's. Entries of N off the diagonal, of both triangles: indptr (n + 1,), indices and data (m,).
Rest eliminate_inplace(Vector<double> diagonal, Vector<double> border, Vector<int64_t> terms,
    Vector<const int32_t> indptr, Vector<const int32_t> indices, Vector<const double> data, double share,
    double rounding);

}  // namespace elimination
}  // namespace bregmat
