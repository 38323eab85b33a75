// Von Neumann projections onto one row, in spectral form M = Vt' diag(exp lam) Vt (Kulis 2009, Algorithm 3).
//
// lam (n,) is ascending and the rows of Vt (n, n) are its eigenvectors. Multipliers are those of log M = log M0 - A*(mu); the papers'
// alpha is -delta. With total > 0 the trace is eliminated: everything refers to total M / tr M (Tsuda 2004).
//
// No closed form exists: delta is the zero of log p(delta) - log xi(mu + delta), which is nearly linear, by Newton's method between
// bounds. Each evaluation takes the spectrum along the step: the secular equation for a row of rank one, a dense eigenproblem for
// others.
#pragma once
#include "projections/outer_rows.hpp"
#include "projections/secular.hpp"

namespace bregmat::von_neumann {

enum Form : int { OUTER, DENSE, IDENTITY };  // of a row in the eigenbasis: w w', a symmetric matrix X, a multiple of I

// f, its derivative in delta and its relative size, from the value p of the row, the trace S and -dp / ddelta.
std::tuple<double, double, double> row_residual(double p, double S, double dp, double total,
                                                const outer_rows::Row &row);

// Spectrum of diag(lam) - delta X into work.theta and the rows of work.U; of its exponential the value of X, the trace and
// -d value / d delta.
std::tuple<double, double, double> dense_along_inplace(const EigenWork &work, Vector<const double> lam,
                                                       Matrix<const double> X, double delta);
// lam and Vt of that spectrum.
void apply_dense_inplace(Vector<double> lam, Matrix<double> Vt, const EigenWork &work);

// Project onto one row: w w' (w is overwritten), X (n, n), or kappa I. Moves lam and Vt; returns delta and the number of evaluations.
std::pair<double, int64_t> project_inplace(Vector<double> lam, Matrix<double> Vt, const EigenWork &work,
                                           Vector<double> w, Matrix<const double> X, int form, double kappa,
                                           double total, const outer_rows::Row &row, bool corrected, double tol);

// The row in the eigenbasis into w or X, through v; returns its form and its value at exp(lam). X (n, n) may be left out if every
// row is a single one: see OuterRows.are_single. w, v (n,).
std::pair<int, double> row_in_basis_inplace(Vector<double> w, Matrix<double> X, Vector<double> v,
                                            Matrix<const double> Vt, Vector<const double> lam, const OuterRows &rows,
                                            Index i);

// Project onto the rows start ... stop - 1 in turn; totals and counts as for LogDet (the running bound is not used), X a work array
// as above.
void sweep_inplace(Vector<double> lam, Matrix<double> Vt, Vector<double> dual, Vector<double> totals,
                   Vector<int64_t> counts, const EigenWork &work, Matrix<double> X, const OuterRows &rows,
                   const RowBounds &bounds, Index start, Index stop, bool corrected, double tol);

}  // namespace bregmat::von_neumann
