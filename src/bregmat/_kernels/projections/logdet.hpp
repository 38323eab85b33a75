// LogDet projections onto one row, in factored form M = B B' with B lower triangular (Kulis 2009, Algorithms 1 and 2).
//
// B is stored by columns, Bt(j, i) = B(i, j), and its order is padded with zeros to a multiple of 8. Loops over a column then read
// neighbours in memory and have no remainder: a column starts at the multiple of 8 at or before its diagonal. The entries before
// the diagonal are 0 and stay 0. Multipliers are those of M^-1 = I + A*(mu); the papers' alpha is -delta.
#pragma once
#include "projections/outer_rows.hpp"

namespace bregmat::logdet {

// w = B' v, w and v (r,), Bt (r, r): r^2 operations. The length of v is a multiple of 4.
void transposed_product_inplace(Vector<double> w, Matrix<const double> Bt, Vector<const double> v);

// B <- B L with L L' = I + alpha x x' (Kulis 2009, Algorithm 1: CHOLUPDATEMULT), which needs 1 + alpha |x|^2 > 0: 3 r^2 + O(r)
// operations. On the way, while each column is in the cache, w = B' v for the new B and the vector v of the next row.
// Bt (r, r), all others (r,); h, g and s are work arrays.
void chol_update_mult_inplace(Matrix<double> Bt, Vector<double> w, double alpha, Vector<const double> x,
                              Vector<const double> v, Vector<double> h, Vector<double> g, Vector<double> s);

double rank_one_step(const outer_rows::Row &row, double p);
double rank_two_step(double d0, double d1, double b);
// The step and the number of evaluations.
std::pair<double, int64_t> spectral_step(Vector<const double> d, const outer_rows::Row &row, double tol);
void spectrum_of_row_inplace(Vector<double> d, Matrix<const double> W, Vector<const double> coef);

// Project onto the rows start ... stop - 1 in turn; Bt (r, r), dual and limit (c,), W (most terms of a row, r) a work array, left out
// if no row has more than one term.
//
// limit: how far totals may grow, or shrink, before a row that held with multiplier 0 can be violated. A rank-one update
// multiplies every v' M v by at least min(1, 1 + beta p) and at most max(1, 1 + beta p).
// totals: logdet M; the sum of the positive and of the negative logarithms of these factors; worst relative violation met;
// squared movement of the duals. counts: rows skipped, rows that held, projections, evaluations.
void sweep_inplace(Matrix<double> Bt, Vector<double> dual, Vector<double> limit, Vector<double> totals,
                   Vector<int64_t> counts, Matrix<double> W, const OuterRows &rows, const RowBounds &bounds,
                   Index start, Index stop, bool corrected, double tol);

}  // namespace bregmat::logdet
