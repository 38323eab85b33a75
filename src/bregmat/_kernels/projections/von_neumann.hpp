// Von Neumann projections onto one row, in spectral form M = Vt' diag(exp lam) Vt (Kulis 2009, Algorithm 3).
//
// lam (n,) is ascending and the rows of Vt (n, n) are its eigenvectors. Multipliers are those of log M = log M0 - A*(mu); the papers'
// alpha is -delta. With total > 0 the trace is eliminated: everything refers to total M / tr M (Tsuda 2004).
//
// No closed form exists: delta is the zero of log p(delta) - log xi(mu + delta), which is nearly linear, by Newton's method between
// bounds. Each evaluation takes the spectrum along the step: from the secular equation, or from a dense eigenproblem.
#pragma once
#include "projections/eigen_update.hpp"
#include "projections/outer_rows.hpp"

namespace bregmat::von_neumann {

enum Form : int { OUTER, DENSE, IDENTITY };  // of a row in the eigenbasis: w w', a symmetric matrix X, a multiple of I

// The eigenvalues of diag(lam) - delta X into work.theta and its eigenvectors into the rows of work.U. Of its exponential, the
// value of X, the trace, and -d value / d delta.
eigen_update::Along dense_along_inplace(const EigenWork &work, Vector<const double> lam, Matrix<const double> X,
                                        double delta);

// Form and value at exp(lam) of row i in the eigenbasis, which goes into w = work.rows_of_projections[1] or X (n, n). X may have no
// entries if every row is a single one: see OuterRows.are_single.
std::pair<int, double> row_in_basis_inplace(const EigenWork &work, Matrix<double> X, Matrix<const double> Vt,
                                            Vector<const double> lam, const OuterRows &rows, Index i);

// Project onto one row: w w' (w as above is overwritten), X, or kappa I. Returns delta and the number of evaluations.
std::pair<double, int64_t> project_inplace(Vector<double> lam, Matrix<double> Vt, const EigenWork &work,
                                           Matrix<const double> X, int form, double kappa, double total,
                                           outer_rows::Row row, bool corrected, double tol);

// Project onto the rows start ... stop - 1 in turn; X as above, totals and counts as for LogDet (the running bound is not used).
void sweep_inplace(Vector<double> lam, Matrix<double> Vt, Vector<double> dual, Vector<double> totals,
                   Vector<int64_t> counts, const EigenWork &work, Matrix<double> X, const OuterRows &rows,
                   const RowBounds &bounds, Index start, Index stop, bool corrected, double tol);

}  // namespace bregmat::von_neumann
