// DefiniteBoost's steps: the most violated row, an exact or an approximate projection (Tsuda 2004, section 4).
//
// W = exp(H) / tr exp(H) with H = Vt' diag(lam) Vt; C_j = s_j (A_j - b_j / total I), so that the row is tr(W C_j) <= 0. lam is
// shifted so that its largest entry is 0 (section 3.2).
#pragma once
#include "projections/outer_rows.hpp"
#include "projections/secular.hpp"

namespace bregmat {

struct Boosted {  // described in arrays.py
    Matrix<const double> V;
    Vector<const bool> usable;
    Vector<const double> low, high;
    double total;
    Matrix<double> Y;
    Vector<double> p;
    auto fields() { return std::tie(V, usable, low, high, total, Y, p); }
};

namespace boost {

// The minimiser of the bound of Theorem 4.1; low <= r <= high. Its eq. 13 is misprinted: as printed it holds only for high = -low.
double approximate_step(double r, double low, double high);
// Logarithm of ((high - r) e^(-alpha low) + (r - low) e^(-alpha high)) / (high - low), which bounds tr(W e^(-alpha C)); at the
// approximate step it is log rho(r) of Theorem 4.1.
double log_step_bound(double r, double low, double high, double alpha);

// Up to len(series) steps; returns how many, and the largest relative violation that the last one met. X (n, n) is a work array,
// left out if every row is a single one. level: taken off lam, log dual objective, log bound. series: per step row, step length, log
// dual objective, log bound, evaluations. A cyclic order passes every row once; a run without corrections ends at the violation stop.
std::pair<Index, double> steps_inplace(Vector<double> lam, Matrix<double> Vt, Vector<double> dual, Vector<double> level,
                                       Matrix<double> series, const EigenWork &work, Matrix<double> X,
                                       const OuterRows &rows, const RowBounds &bounds, const Boosted &cone, bool exact,
                                       bool greedy, bool corrected, double stop, double tol);

}  // namespace boost
}  // namespace bregmat
