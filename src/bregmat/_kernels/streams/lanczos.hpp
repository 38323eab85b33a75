// Trials of the matrix exponentiated gradient learner without eigenvectors.
//
// The state is a Hermitian H = log W + const. A Lanczos run of about ten products with H, from a unit vector q, gives a tridiagonal T
// that tells the prediction and the new normaliser:
//     q* exp(H) q = [exp T]_11,        tr exp(H + rho q q*) - tr exp(H) = tr exp(T + rho e1 e1') - tr exp(T).
// The number of steps depends on what the last one contributed. Everything that decides how a trial is computed lies in `state`: a
// learner that is saved and loaded continues to the same bits. S is double or std::complex<double>.
#pragma once
#include <complex>
#include <tuple>
#include <utility>

#include "base/views.hpp"

namespace bregmat::lanczos {

enum State : int { Z, PEAK, SHIFT, LOSS, CARRY, SLOPES, SEEN, SINCE, GUESS };
enum Setting : int { ETA, TRACE, LOSS_CODE, LOSS_PARAMETER, TOL, REFRESH, NORMALIZED };
enum Loss : int { SQUARED, ABSOLUTE, LOGISTIC, ENTROPIC };
enum Why : int { DONE, NEEDS_REFRESH, NEEDS_ROOM, FAILED };
using Done = std::pair<Index, int>;  // how many trials of a block were done, and why no more

inline double conj(double x) {
    return x;
}  // std::conj of a real number is complex

// lanczos_relaxed.cpp: sums in any order.  u* v
template <class S>
S inner(Vector<const S> u, Vector<const S> v);
// out = H q from the lower triangle, which is half the memory traffic of a general product; work (4, n)
template <class S>
void hermitian_product_inplace(Vector<S> out, Matrix<S> work, Matrix<const S> H, Vector<const S> q);
// H += c v v*
template <class S>
void add_outer_inplace(Matrix<S> H, Vector<const S> v, double c);

// Eigenvalues of the symmetric tridiagonal (d, e) of order m into d, first and last components of its eigenvectors into z and w, all
// (m,) or longer, by implicit QL. e is overwritten; off-diagonals up to `small` count as 0. False if it does not converge, which has
// not been seen; NaN gives NaN.
bool tridiagonal_inplace(Vector<double> d, Vector<double> e, Vector<double> z, Vector<double> w, Index m, double small);

// Values and derivatives of a built-in loss for predictions p and labels y, all (n,)
void losses_inplace(Vector<double> values, Vector<double> slopes, Vector<const double> p, Vector<const double> y,
                    int code, double parameter);
// Add one trial to the totals; the loss with Kahan's carry, so that a billion small ones do not get lost.
void account_inplace(Vector<double> state, double value, double slope);
// Whether H must be shifted and Z computed anew: after many trials, or where rounding or range suffered
bool is_due(Vector<const double> state, Vector<const double> settings);

// arrays.py describes the fields. For t trials predictions, y, rho, a and b (t,), V (t, n). Predictions are written before updates.
template <class S>
struct Learner {
    Matrix<S> H, Q;
    Matrix<double> T;
    Vector<double> state;
    Vector<const double> settings;
    auto fields() { return std::tie(H, Q, T, state, settings); }

    // Trials on X_t = (e_a - e_b)(e_a - e_b)' / 2, a and b different, with a built-in loss
    Done learn_pairs_inplace(Vector<double> predictions, Vector<const int64_t> a, Vector<const int64_t> b,
                             Vector<const double> y);
    // Trials on X_t = v_t v_t*
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
double tally_pairs_inplace(Matrix<double> tally, Vector<const int64_t> a, Vector<const int64_t> b,
                           Vector<const double> y);

}  // namespace bregmat::lanczos
