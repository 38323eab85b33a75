// Trials of the online LogDet metric (Jain 2008) and of online PCA (Warmuth 2006), a block of examples to a call.
#pragma once
#include <utility>

#include "projections/secular.hpp"

namespace bregmat::online {

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

}  // namespace bregmat::online
