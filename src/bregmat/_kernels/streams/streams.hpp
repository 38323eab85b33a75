#pragma once
#include <complex>

#include "projections/projections.hpp"

namespace bregmat {

// Trials of the matrix exponentiated gradient learner without eigenvectors.
//
// The state is a Hermitian H = log W + const. A Lanczos run of about ten products with H, from a unit vector q, gives a tridiagonal T
// that tells the prediction and the new normaliser:
//     q* exp(H) q = [exp T]_11,        tr exp(H + rho q q*) - tr exp(H) = tr exp(T + rho e1 e1') - tr exp(T).
// The number of steps depends on what the last one contributed. Everything that decides how a trial is computed lies in `state`: a
// learner that is saved and loaded continues to the same bits. S is double or std::complex<double>.
namespace lanczos {

enum State : int { Z, PEAK, LOSS, CARRY, SLOPES, SEEN, SINCE, GUESS };
enum Setting : int { ETA, TRACE, TOL, REFRESH };
enum Why : int { DONE, NEEDS_REFRESH, NEEDS_ROOM, FAILED };
using Done = std::pair<Index, int>;  // how many trials of a block were done, and why no more

inline double conj(double x) { return x; }  // std::conj of a real number is complex

// lanczos_relaxed.cpp: sums in any order.  u* v
template <class S> S inner(Vector<const S> u, Vector<const S> v);
// out = H q from the lower triangle, which is half the memory traffic of a general product; work (4, n)
template <class S> void hermitian_product_inplace(Vector<S> out, Matrix<S> work, Matrix<const S> H, Vector<const S> q);
// H += c v v*
template <class S> void add_outer_inplace(Matrix<S> H, Vector<const S> v, double c);

// Eigenvalues of the symmetric tridiagonal (d, e) of order m into d, first and last components of its eigenvectors into z and w, all
// (m,) or longer, by implicit QL. e is overwritten; off-diagonals up to `small` count as 0. False if it does not converge, which has
// not been seen; NaN gives NaN.
bool tridiagonal_inplace(Vector<double> d, Vector<double> e, Vector<double> z, Vector<double> w, Index m, double small);

// Add one trial to the totals; the loss with Kahan's carry, so that a billion small ones do not get lost.
void account_inplace(Vector<double> state, double value, double slope);
// Whether H must be shifted and Z computed anew: after many trials, or where rounding or range suffered
bool is_due(Vector<const double> state, Vector<const double> settings);

// arrays.py describes the fields. For t trials predictions, y, rho, a and b (t,), V (t, n). Predictions are written before updates.
template <class S> struct Learner {
    Matrix<S> H, Q;
    Matrix<double> T;
    Vector<double> state;
    Vector<const double> settings;
    auto fields() { return std::tie(H, Q, T, state, settings); }

    // Trials on X_t = (e_a - e_b)(e_a - e_b)' / 2, a and b different, with the squared loss
    Done learn_pairs_inplace(
        Vector<double> predictions, Vector<const int64_t> a, Vector<const int64_t> b, Vector<const double> y);
    // Trials on X_t = v_t v_t* with the squared loss
    Done learn_vectors_inplace(Vector<double> predictions, Matrix<const S> V, Vector<const double> y);
    // v_t* W v_t
    Done predict_vectors_inplace(Vector<double> predictions, Matrix<const S> V);
    // H += sum_t rho_t v_t v_t*, one after the other, with the normaliser. For losses and instances of other kinds.
    Done add_vectors_inplace(Matrix<const S> V, Vector<const double> rho);

  private:
    Index steps;
    bool exact;                 // the Krylov space ended: further steps would add nothing
    double first, trace, last;  // q* exp(H) q, tr exp(T), and what the last step contributed

    double begin(Vector<const S> v);
    bool lengthen(Index target);
    void quadrature(double rho, double small);
    bool predict(double &p, double size);
    bool settle(double rho);
    template <class Begin, class Add>
    Done learn(Vector<double> predictions, Vector<const double> y, Begin begin, Add add);
};

// Per pair the number of labels (upper triangle of tally (n, n)) and their mean (lower); returns what the squares about it gained.
double tally_pairs_inplace(
    Matrix<double> tally, Vector<const int64_t> a, Vector<const int64_t> b, Vector<const double> y);

}  // namespace lanczos

// Trials of the online LogDet metric (Jain 2008) and of online PCA (Warmuth 2006), a block of examples to a call.
namespace online {

// Positions in the totals of the metric learner. RATIO holds k_t, or k_t / eta_t with the automatic rate; from LABELS on, sums of the
// labels of either sense, from COUNTS on how many they were, both by sense + 1; RATE and HIGHEST: of trials that moved.
enum Metric : int { SEEN, UPDATES, LOSS, RATIO, RATE, HIGHEST, LABELS, COUNTS = LABELS + 3, N_TOTALS = COUNTS + 3 };
// Positions in the totals of online PCA; ETA made the present W, LAST_ETA the W of the last prediction.
enum Pca : int { PAID, PRICE, ETA, LAST_ETA, PEAK };

// ybar - y and p / ybar for the positive root of eta p ybar^2 + (1 - eta p y) ybar - p = 0. Both without cancellation: the root itself,
// minus y, would lose all digits where eta is large.
std::pair<double, double> implicit_step(double p, double y, double eta);

// Predict z' A z, then A <- argmin D_ld(A', A) + eta / 2 excess(A')^2, for every row z of Z (t, d), y and sense (t,); returns rows done.
// A = B B', Bt (r, r) as in projections/logdet.hpp, r >= d; predictions (t,), totals (N_TOTALS,). fixed: eta; 0 for the automatic rate
// AUTO_SCALE / max(z' A z, y, mean label of this sense so far)^2. Stops before a trial that is not finite.
Index metric_trials_inplace(Matrix<double> Bt, Vector<double> predictions, Vector<double> totals,
    Matrix<const double> Z, Vector<const double> y, Vector<const int8_t> sense, double fixed);

// Logarithms of the weights nearest in relative entropy with sum 1 and none above 1 / m; returns how many are at 1 / m.
// lam (n,): logarithms, ascending, of any sum; sums (n,): work array. The largest are set to 1 / m, as few as possible, and the others
// keep their proportions (Warmuth 2006: capping).
Index cap_spectrum_inplace(Vector<double> lam, Vector<double> sums, Index m);

// Pay m x'Wx, then W <- cap(exp(log W - eta x x')), for every row x of X (t, d); W = Vt' diag(exp lam) Vt, lam (d,), Vt (d, d).
// totals (5,). fixed: eta; 0 for sqrt(reach / (B (B + L))), B the largest squared norm and L the loss so far, in which case log W first
// shrinks to the new rate (see bregmat.online.pca.OnlinePCA).
void pca_trials_inplace(Vector<double> lam, Matrix<double> Vt, Vector<double> totals, Matrix<const double> X, Index m,
    double fixed, double reach, const EigenWork &work);

}  // namespace online
}  // namespace bregmat
