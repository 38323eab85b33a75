// Eigenpairs of H + rho z z' from those of H, and of the exponential along that line.
//
// H = Vt' diag(lam) Vt with eigenvectors in the rows of Vt (n, n) and lam (n,), ascending; w = Vt z (n,). The new eigenvalues are
// roots of the secular equation. The new eigenvectors follow Gu and Eisenstat (1994): for their weights the computed roots are
// exact, hence the vectors are orthogonal to working accuracy.
#pragma once
#include "projections/secular.hpp"

namespace bregmat::eigen_update {

// Rotate rows of equal eigenvalue so that w vanishes on all but one of them; returns the number of rotations. Two eigenvalues are
// equal if the off-diagonal entry that the rotation leaves is below DEFLATION * max |lam| (LAPACK, dlaed2); neighbours of which one
// has a tiny w count as well. That entry and the change of the diagonal, no larger, are dropped: lam stays.
int64_t rotate_ties_inplace(Vector<double> lam, Matrix<double> Vt, Vector<double> w);

// The K eigenvectors in the rows work.keep <- work.U (K, K) times these, with eigenvalues work.theta; then sorted.
void rotate_rows_inplace(Vector<double> lam, Matrix<double> Vt, const EigenWork &work, Index K);
// lam and Vt of H + rho z z' from the last solve of the secular equation, which moved K poles.
void apply_secular_inplace(Vector<double> lam, Matrix<double> Vt, const EigenWork &work, Index K);
// H <- H + rho z z', w is overwritten; returns the number of poles that moved. About 2 K^2 n operations.
Index rank_one_update_inplace(Vector<double> lam, Matrix<double> Vt, Vector<double> w, double rho,
                              const EigenWork &work);

using Along = std::tuple<double, double, double>;
// w'Mw, tr M and d(w'Mw) / d rho of M = exp(diag(lam) + rho w w') from the last solve (K = 0: rho = 0). The derivative is
// sum_jk omega_j omega_k F(theta_j, theta_k) (Daleckii and Krein), F the divided difference of exp. Poles that stayed enter with
// lam_i and w_i^2. Values above 700 overflow: shift lam.
Along exp_along_inplace(const EigenWork &work, Vector<const double> lam, Vector<const double> w, Index K);

}  // namespace bregmat::eigen_update
