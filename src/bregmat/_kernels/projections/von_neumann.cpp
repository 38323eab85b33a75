#include "projections/projections.hpp"

namespace bregmat::von_neumann {

using namespace outer_rows;
using eigen_update::Along;
using vectors::sum_of_exp;

static constexpr double LONGEST = 30.0;  // largest change of the exponent in one Newton step

// f, its derivative in delta and its relative size, from the value p of the row, the trace S and -dp / ddelta.
static Along row_residual(double p, double S, double dp, double total, const Row &row) {
    const auto [xi, slope] = relaxed(row, row.mu);
    double change = -dp;
    if (total > 0.0) {
        change = total * (p * p / S - dp) / S;
        p = total * p / S;
    }
    if (p > 0.0 && xi > 0.0) {
        const double f = std::log(p) - std::log(xi);
        return {f, change / p - slope / xi, std::abs(f)};
    }
    const double f = p - xi;
    return {f, change - slope, std::abs(f) / (std::abs(p) + std::abs(xi) + 1e-300)};
}

Along dense_along_inplace(const EigenWork &work, Vector<const double> lam, Matrix<const double> X, double delta) {
    const Index n = lam.size;
    const auto theta = work.theta;
    const Matrix<double> Qt(work.U.data, n, n), T(work.rows[0].data, n, n), Y(work.rows[1].data, n, n);
    for (Index k = 0; k < n; k++) {
        work.keep[k] = k;
        for (Index l = 0; l < n; l++) Qt(k, l) = -delta * X(k, l);
        Qt(k, k) += lam[k];
    }
    eigh_inplace(theta, Qt, true);
    product_inplace<double>(T, Qt, X);
    product_inplace<double>(Y, T, Qt, Transposed::NO, Transposed::YES);
    double p = 0.0, S = 0.0, dp = 0.0;
    for (Index k = 0; k < n; k++) {
        const double e = std::exp(theta[k]), value = Y(k, k);
        p += e * value;
        S += e;
        dp += e * value * value;
        for (Index l = 0; l < k; l++) {
            const double gap = theta[k] - theta[l];  // >= 0
            const double F = gap > 1e-12 ? e * (-std::expm1(-gap) / gap) : e;
            dp += 2.0 * F * Y(k, l) * Y(k, l);
        }
    }
    return {p, S, dp};
}

std::pair<int, double> row_in_basis_inplace(const EigenWork &work, Matrix<double> X, Matrix<const double> Vt,
    Vector<const double> lam, const OuterRows &rows, Index i) {
    const auto v = work.rows_of_projections[0], w = work.rows_of_projections[1];
    const Index first = rows.ptr[i], n = lam.size, k = rows.ptr[i + 1] - first;
    if (k == 0) return {IDENTITY, rows.shift[i] * sum_of_exp(lam)};
    double p = 0.0;
    if (k == 1 && rows.coef[first] > 0.0) {
        load_inplace(v, rows, first);
        product_inplace(w, Vt, v);
        const double root = std::sqrt(rows.coef[first]);
        for (Index t = 0; t < n; t++) {
            w[t] *= root;
            p += std::exp(lam[t]) * w[t] * w[t];
        }
        return {OUTER, p};
    }
    const Buffer<double> memory(2 * k * n);
    const auto W = memory.matrix(2 * k, n).slice(0, k), C = memory.matrix(2 * k, n).slice(k, 2 * k);
    for (Index t = 0; t < k; t++) {
        load_inplace(v, rows, first + t);
        product_inplace(W[t], Vt, v);
        for (Index l = 0; l < n; l++) C(t, l) = rows.coef[first + t] * W(t, l);
    }
    product_inplace<double>(X, C, W, Transposed::YES);
    for (Index t = 0; t < n; t++) p += std::exp(lam[t]) * X(t, t);
    return {DENSE, p};
}

std::pair<double, int64_t> project_inplace(Vector<double> lam, Matrix<double> Vt, const EigenWork &work,
    Matrix<const double> X, int form, double kappa, double total, Row row, bool corrected, double tol) {
    const auto w = work.rows_of_projections[1];
    const double mu = row.mu, sense = row.sense;
    double size = std::abs(kappa), lo = -INFINITY, hi = INFINITY, delta = 0.0, p, S, dp;
    if (form == OUTER) {
        eigen_update::rotate_ties_inplace(lam, Vt, w);
        size = vectors::dot(w, w);
    } else if (form == DENSE) {
        size = 0.0;
        for (Index k = 0; k < X.rows; k++) size += vectors::dot(X[k], X[k]);
        size = std::sqrt(size);
    }
    if (size == 0.0) {
        delta = null_step(row);
        return {corrected ? corrected_step(delta, mu, row.sense) : delta, 0};
    }
    Index K = 0;
    int64_t evaluations = 0;
    for (;;) {
        if (form == OUTER) {
            K = secular::solve_inplace(work, lam, w, -delta);
            std::tie(p, S, dp) = eigen_update::exp_along_inplace(work, lam, w, K);
        } else if (form == DENSE) {
            std::tie(p, S, dp) = dense_along_inplace(work, lam, X, delta);
        } else {
            S = sum_of_exp(lam) * std::exp(-delta * kappa);
            p = kappa * S, dp = kappa * kappa * S;
        }
        row.mu = mu + delta;
        const auto [f, slope, error] = row_residual(p, S, dp, total, row);
        evaluations++;
        if (error <= tol || evaluations >= 60 || !(slope < 0.0)) break;
        // the row holds with multiplier 0 (Kulis 2009, eq. 8)
        if (corrected && sense != 0.0 && delta == -mu && mu != 0.0 && sense * f <= 0.0) break;
        (f > 0.0 ? lo : hi) = delta;
        double next = delta + std::max(-LONGEST / size, std::min(LONGEST / size, -f / slope));
        if (!(lo < next && next < hi)) next = 0.5 * (lo + hi);
        if (corrected) next = corrected_step(next, mu, row.sense);
        if (next == delta || std::abs(next) * size > 20.0 * LONGEST) break;
        delta = next;
    }
    if (delta == 0.0) return {0.0, evaluations};
    if (form == OUTER) eigen_update::apply_secular_inplace(lam, Vt, work, K);
    else if (form == DENSE) eigen_update::rotate_rows_inplace(lam, Vt, work, lam.size);
    else
        for (Index k = 0; k < lam.size; k++) lam[k] -= delta * kappa;
    return {delta, evaluations};
}

void sweep_inplace(Vector<double> lam, Matrix<double> Vt, Vector<double> dual, Vector<double> totals,
    Vector<int64_t> counts, const EigenWork &work, Matrix<double> X, const OuterRows &rows, const RowBounds &bounds,
    Index start, Index stop, bool corrected, double tol) {
    for (Index i = start; i < stop; i++) {
        const Row row = row_at(bounds, i, dual[i]);
        const auto [form, p] = row_in_basis_inplace(work, X, Vt, lam, rows, i);
        const double violation = excess(row, p);
        totals[3] = std::max(totals[3], violation / row.unit);
        double delta = 0.0;
        if ((row.mu != 0.0 && corrected) || row.sense == 0 || !(violation <= 0.0)) {
            int64_t used;
            std::tie(delta, used) = project_inplace(lam, Vt, work, X, form, rows.shift[i], 0.0, row, corrected, tol);
            counts[3] += used;
        }
        counts[delta == 0.0 ? 1 : 2]++;
        totals[4] += delta * delta;
        dual[i] = delta == -row.mu ? 0.0 : row.mu + delta;
    }
}

}  // namespace bregmat::von_neumann
