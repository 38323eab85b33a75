#pragma once
#include "base/vectors.hpp"

namespace bregmat {

// Rows A_i = shift_i I + sum_t coef_t v_t v_t' as flat arrays, and their scalar losses: what projections onto one row read.
// The arrays are described in arrays.py; the scalar functions are the compiled twins of those of bregmat.losses.
// Row i owns the terms ptr[i] ... ptr[i+1] - 1; the vector of a term is Z[a] + sign Z[b].
struct OuterRows {
    Vector<const int64_t> ptr;
    Vector<const double> coef;
    Matrix<const double> Z;
    Vector<const int32_t> a, b;
    Vector<const int8_t> sign;
    Vector<const double> shift;
    auto fields() { return std::tie(ptr, coef, Z, a, b, sign, shift); }
};

struct RowBounds {
    Vector<const double> bound;
    Vector<const int8_t> sense;
    Vector<const double> gamma, scale;
    Vector<const int8_t> loss;
    Vector<const double> unit;
    auto fields() { return std::tie(bound, sense, gamma, scale, loss, unit); }
};

namespace outer_rows {

enum Loss : int { HARD, ITAKURA_SAITO, RELATIVE_ENTROPY, QUADRATIC };  // ScalarLoss.projection_code

// Bound, loss and multiplier of one row.
struct Row {
    int loss, sense;
    double b, gamma, scale, mu, unit;
    auto fields() { return std::tie(loss, sense, b, gamma, scale, mu, unit); }
};

Row row_at(const RowBounds &bounds, Index i, double mu);
// By how much the value p of the row violates its bound; negative where it satisfies an inequality.
double excess(const Row &row, double p);
// The vector of term t into the first entries of v.
void load_inplace(Vector<double> v, const OuterRows &rows, Index t);
// Relaxed bound xi(mu) and its derivative (Kulis 2009, section 6.2.1: the bound that moves with its multiplier).
std::pair<double, double> relaxed(const Row &row, double mu);
// The step for a row with A_i = 0, whose value is 0 whatever the matrix: only its multiplier can move. The multiplier of a hard
// row that 0 does not satisfy grows without limit, which proves that no matrix satisfies it.
double null_step(const Row &row);
// The step, shortened so that the multiplier keeps its sign (Kulis 2009, eq. 8).
double corrected_step(double delta, double mu, int sense);

}  // namespace outer_rows

// LogDet projections onto one row, in factored form M = B B' with B lower triangular (Kulis 2009, Algorithms 1 and 2).
//
// B is stored by columns, Bt(j, i) = B(i, j), and its order is padded with zeros to a multiple of 8. Loops over a column then read
// neighbours in memory and have no remainder: a column starts at the multiple of 8 at or before its diagonal. The entries before
// the diagonal are 0 and stay 0. Multipliers are those of M^-1 = I + A*(mu); the papers' alpha is -delta.
namespace logdet {

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
    Vector<int64_t> counts, Matrix<double> W, const OuterRows &rows, const RowBounds &bounds, Index start, Index stop,
    bool corrected, double tol);

}  // namespace logdet

struct EigenWork {  // described in arrays.py
    Vector<int64_t> keep, origin, counters;
    Vector<double> d, z, z2, offset, theta, omega, U;
    Matrix<double> rows, scratch, rows_of_projections;
    auto fields() {
        return std::tie(keep, origin, counters, d, z, z2, offset, theta, omega, U, rows, scratch, rows_of_projections);
    }
};

// The secular equation: eigenvalues of diag(lam) + rho w w' between the poles lam.
//
// The roots (Golub 1973; Bunch, Nielsen and Sorensen 1978) are those of f(x) = 1 / rho + sum_i w_i^2 / (lam_i - x), where i runs over
// the poles that are not deflated. They are kept as a pole and an offset, so that every lam_i - x has full relative accuracy. The
// innermost loops run over roots: they vectorise although no sum is reordered. Products of four differences are formed: the
// magnitudes of a spectrum should be between about 1e-60 and 1e60.
namespace secular {

constexpr double EPS = 2.220446049250313e-16, DEFLATION = 8.0 * EPS;  // times max |lam|, as in LAPACK's dlaed2

// Eigenvalues of diag(lam) + rho w w' into work; returns K, the number of poles that move. lam (n,), ascending, w (n,). Poles with
// w != 0 must differ: see rotate_ties_inplace. A pole stays where |rho w_i| |w| <= DEFLATION max(|lam|, |rho| |w|^2).
Index solve_inplace(const EigenWork &work, Vector<const double> lam, Vector<const double> w, double rho);

// secular_contract.cpp: sums over i of t_i = z2_i / D_i, of t_i / D_i and of t_i / D_i^2 with D_i = (d_i - pole) - mu, without the
// pole itself. The fourth row of sums (4, m) is about sum |t_i|: the signs of four neighbours differ only where the root is among
// them. d, z2 (K,), padded to a multiple of 4; roots (2, m): pole and mu.
void sums_inplace(Matrix<double> sums, Vector<const double> d, Vector<const double> z2, Matrix<const double> roots);

}  // namespace secular

// Eigenpairs of H + rho z z' from those of H, and of the exponential along that line.
//
// H = Vt' diag(lam) Vt with eigenvectors in the rows of Vt (n, n) and lam (n,), ascending; w = Vt z (n,). The new eigenvalues are
// roots of the secular equation. The new eigenvectors follow Gu and Eisenstat (1994): for their weights the computed roots are
// exact, hence the vectors are orthogonal to working accuracy.
namespace eigen_update {

// Rotate rows of equal eigenvalue so that w vanishes on all but one of them; returns the number of rotations. Two eigenvalues are
// equal if the off-diagonal entry that the rotation leaves is below DEFLATION * max |lam| (LAPACK, dlaed2); neighbours of which one
// has a tiny w count as well. That entry and the change of the diagonal, no larger, are dropped: lam stays.
int64_t rotate_ties_inplace(Vector<double> lam, Matrix<double> Vt, Vector<double> w);

// The K eigenvectors in the rows work.keep <- work.U (K, K) times these, with eigenvalues work.theta; then sorted.
void rotate_rows_inplace(Vector<double> lam, Matrix<double> Vt, const EigenWork &work, Index K);
// lam and Vt of H + rho z z' from the last solve of the secular equation, which moved K poles.
void apply_secular_inplace(Vector<double> lam, Matrix<double> Vt, const EigenWork &work, Index K);
// H <- H + rho z z', w is overwritten; returns the number of poles that moved. About 2 K^2 n operations.
Index rank_one_update_inplace(
    Vector<double> lam, Matrix<double> Vt, Vector<double> w, double rho, const EigenWork &work);

using Along = std::tuple<double, double, double>;
// w'Mw, tr M and d(w'Mw) / d rho of M = exp(diag(lam) + rho w w') from the last solve (K = 0: rho = 0). The derivative is
// sum_jk omega_j omega_k F(theta_j, theta_k) (Daleckii and Krein), F the divided difference of exp. Poles that stayed enter with
// lam_i and w_i^2. Values above 700 overflow: shift lam.
Along exp_along_inplace(const EigenWork &work, Vector<const double> lam, Vector<const double> w, Index K);

}  // namespace eigen_update

// Von Neumann projections onto one row, in spectral form M = Vt' diag(exp lam) Vt (Kulis 2009, Algorithm 3).
//
// lam (n,) is ascending and the rows of Vt (n, n) are its eigenvectors. Multipliers are those of log M = log M0 - A*(mu); the papers'
// alpha is -delta. With total > 0 the trace is eliminated: everything refers to total M / tr M (Tsuda 2004).
//
// No closed form exists: delta is the zero of log p(delta) - log xi(mu + delta), which is nearly linear, by Newton's method between
// bounds. Each evaluation takes the spectrum along the step: from the secular equation, or from a dense eigenproblem.
namespace von_neumann {

enum Form : int { OUTER, DENSE, IDENTITY };  // of a row in the eigenbasis: w w', a symmetric matrix X, a multiple of I

// The eigenvalues of diag(lam) - delta X into work.theta and its eigenvectors into the rows of work.U. Of its exponential, the
// value of X, the trace, and -d value / d delta.
eigen_update::Along dense_along_inplace(
    const EigenWork &work, Vector<const double> lam, Matrix<const double> X, double delta);

// Form and value at exp(lam) of row i in the eigenbasis, which goes into w = work.rows_of_projections[1] or X (n, n). X may have no
// entries if every row is a single one: see OuterRows.are_single.
std::pair<int, double> row_in_basis_inplace(const EigenWork &work, Matrix<double> X, Matrix<const double> Vt,
    Vector<const double> lam, const OuterRows &rows, Index i);

// Project onto one row: w w' (w as above is overwritten), X, or kappa I. Returns delta and the number of evaluations.
std::pair<double, int64_t> project_inplace(Vector<double> lam, Matrix<double> Vt, const EigenWork &work,
    Matrix<const double> X, int form, double kappa, double total, outer_rows::Row row, bool corrected, double tol);

// Project onto the rows start ... stop - 1 in turn; X as above, totals and counts as for LogDet (the running bound is not used).
void sweep_inplace(Vector<double> lam, Matrix<double> Vt, Vector<double> dual, Vector<double> totals,
    Vector<int64_t> counts, const EigenWork &work, Matrix<double> X, const OuterRows &rows, const RowBounds &bounds,
    Index start, Index stop, bool corrected, double tol);

}  // namespace von_neumann

struct Boosted {  // described in arrays.py
    Matrix<const double> V;
    Vector<const bool> usable;
    Vector<const double> low, high;
    double total;
    Matrix<double> Y;
    Vector<double> p;
    auto fields() { return std::tie(V, usable, low, high, total, Y, p); }
};

}  // namespace bregmat
