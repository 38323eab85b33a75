// A+ v and A- v in one pass over a matrix: packed lower tiles of a nonnegative kernel, or full rows of any matrix; float and double.
//
// Threads may share a pass. Both read memory in few long streams: that, and not the arithmetic, limits their speed.
#pragma once
#include "base/views.hpp"

namespace bregmat::tiles {

// Sums within the classes P and across them Q, (parts, n), from square lower tiles: parts start ... stop - 1. Tile t is the rows
// t s ... t s + s - 1 of tiles (count s, s); one on the diagonal is stored whole. The rows of places (3, count) are the row and the
// column of blocks at which each tile is, and whether it lies within a class.
template <class T>
void packed_pass_inplace(Matrix<T> P, Matrix<T> Q, Matrix<const T> tiles, Matrix<const int64_t> places,
                         Vector<const T> v, Index start, Index stop);

// p = A+ v, q = A- v for any square A (n, n) and v >= 0, each (n,): rows start ... stop - 1, start a multiple of 4.
template <class T>
void signed_pass_inplace(Vector<T> p, Vector<T> q, Matrix<const T> A, Vector<const T> v, Index start, Index stop);

}  // namespace bregmat::tiles
