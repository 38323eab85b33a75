// Symmetric elimination of the vertices of least degree from a sparse matrix, until what is left is nearly dense.
#pragma once
#include <memory>
#include <vector>

#include "base/views.hpp"

namespace bregmat::elimination {

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
// are left. Rows whose pivot is small or negative are left, too. Minimum degree with explicit fill: a list of neighbours that
// outgrows its place moves to the end of a pool. If the pool is full, all lists move to another pool.
//
// diagonal and border (n,) are overwritten; terms (n,) becomes the number of pivots that changed each row, without the
// border's. Entries of N off the diagonal, of both triangles: indptr (n + 1,), indices and data (m,).
Rest eliminate_inplace(Vector<double> diagonal, Vector<double> border, Vector<int64_t> terms,
                       Vector<const int32_t> indptr, Vector<const int32_t> indices, Vector<const double> data,
                       double share, double rounding);

}  // namespace bregmat::elimination
