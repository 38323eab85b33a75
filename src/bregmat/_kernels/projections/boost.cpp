#include "projections/projections.hpp"

namespace bregmat::boost {

using namespace outer_rows;
using vectors::sum_of_exp;

// A violation of this size, relative to value and bound, is rounding: of a copy of a row that was just projected onto.
static constexpr double ROUNDING = 1e-15;

double approximate_step(double r, double low, double high) {
    if (r == 0.0) return 0.0;
    if (!(low < 0.0)) return 10.0 / std::max(high - low, 1e-300);  // only singular matrices satisfy the row
    if (!(high > 0.0) || r <= low) return -INFINITY;
    r = std::min(r, high * (1.0 - 1e-15));  // as long as a step needs to be to leave nothing on the other eigenvalues
    return (std::log1p(-r / low) - std::log1p(-r / high)) / (high - low);
}

double log_step_bound(double r, double low, double high, double alpha) {
    if (!(high > low)) return -alpha * r;
    const double a = -alpha * low, b = -alpha * high, top = std::max(a, b);
    return top + std::log(((high - r) * std::exp(a - top) + (r - low) * std::exp(b - top)) / (high - low));
}

// tr(W A_j) of all rows into cone.p, multiples of the identity by their constant; e (r,) is overwritten.
static void values_inplace(const Boosted &cone, Vector<double> e, Matrix<const double> Vt, Vector<const double> lam,
                           const OuterRows &rows) {
    const auto Y = cone.Y;
    const double size = sum_of_exp(lam);
    for (Index k = 0; k < lam.size; k++) e[k] = std::exp(lam[k]) / size;
    product_inplace<double>(Y, cone.V, Vt, Transposed::NO, Transposed::YES);
    for (Index i = 0; i < cone.p.size; i++) {
        double total = rows.shift[i];
        for (Index t = rows.ptr[i]; t < rows.ptr[i + 1]; t++) {
            double q = 0.0;
            for (Index k = 0; k < lam.size; k++) q += e[k] * Y(t, k) * Y(t, k);
            total += rows.coef[t] * q;
        }
        cone.p[i] = total;
    }
}

// Sign, violation and the interval of the eigenvalues of C for a row A - b I; an equality takes the side that it violates.
struct Side {
    double s, r, low, high;
};
static Side side_of(const RowBounds &bounds, const Boosted &cone, Index i, double value) {
    const double b = bounds.bound[i] / cone.total, gap = value - b, low = cone.low[i], high = cone.high[i];
    if (bounds.sense[i] < 0 || (bounds.sense[i] == 0 && gap < 0.0)) return {-1.0, -gap, b - high, b - low};
    return {1.0, gap, low - b, high - b};
}

// The row to project onto, -1 if none is violated, and the largest relative violation. The choice is by the violation (as published)
// or, with corrections, by the gain of the quadratic model r delta - q delta^2 / 2, q the largest curvature ((high - low) / 2)^2.
static std::pair<Index, double> choose(const RowBounds &bounds, const Boosted &cone, Vector<const double> dual,
                                       bool corrected) {
    double best = 0.0, worst = 0.0;
    Index chosen = -1;
    for (Index i = 0; i < dual.size; i++) {
        if (!cone.usable[i]) continue;
        const auto [s, r, low, high] = side_of(bounds, cone, i, cone.p[i]);
        worst = std::max(worst, r * cone.total / bounds.unit[i]);
        double score = r;
        if (corrected) {
            const double width = cone.high[i] - cone.low[i], q = std::max(0.25 * (width * width), 1e-300);
            const double delta = corrected_step(s * r / q, dual[i], bounds.sense[i]);
            score = s * r * delta - 0.5 * q * delta * delta;
        }
        if (score > best) best = score, chosen = i;
    }
    return {chosen, worst};
}

std::pair<Index, double> steps_inplace(Vector<double> lam, Matrix<double> Vt, Vector<double> dual, Vector<double> level,
                                       Matrix<double> series, const EigenWork &work, Matrix<double> X,
                                       const OuterRows &rows, const RowBounds &bounds, const Boosted &cone, bool exact,
                                       bool greedy, bool corrected, double stop, double tol) {
    const Index n = lam.size;
    const auto w = work.rows_of_projections[1], e = work.rows_of_projections[2];
    // log dual = log tr exp H + rest, rest = sum mu b / total + constant
    double worst = 0.0, rest = level[1] - std::log(sum_of_exp(lam)) - level[0];
    Index steps = 0;
    for (Index tried = 0; steps < series.rows && (greedy || tried < dual.size); tried++) {
        Index i = tried;
        if (greedy) {
            values_inplace(cone, e, Vt, lam, rows);
            std::tie(i, worst) = choose(bounds, cone, dual, corrected);
            if (i < 0 || (!corrected && worst <= stop)) break;
        }
        if (!cone.usable[i]) continue;
        auto [form, value] = von_neumann::row_in_basis_inplace(work, X, Vt, lam, rows, i);
        value = greedy ? cone.p[i] : value / sum_of_exp(lam);
        Row row = row_at(bounds, i, dual[i]);
        row.loss = HARD;
        const double b = row.b / cone.total;
        const auto [s, r, low, high] = side_of(bounds, cone, i, value);
        if (!greedy) {
            worst = std::max(worst, r * cone.total / row.unit);
            const bool holds = r <= ROUNDING * (std::abs(value) + std::abs(b));
            if (holds && row.sense != 0 && (row.mu == 0.0 || !corrected)) continue;
        }
        double model = s * approximate_step(r, low, high);
        if (corrected) model = corrected_step(model, row.mu, row.sense);
        double delta = model;
        int64_t evaluations = 0;
        if (exact) {
            std::tie(delta, evaluations) =
                von_neumann::project_inplace(lam, Vt, work, X, form, 0.0, cone.total, row, corrected, tol);
        } else if (form == von_neumann::OUTER) {
            eigen_update::rank_one_update_inplace(lam, Vt, w, -delta, work);
        } else if (form == von_neumann::DENSE) {
            von_neumann::dense_along_inplace(work, lam, X, delta);
            eigen_update::rotate_rows_inplace(lam, Vt, work, n);
        }
        if (delta == 0.0 && greedy) break;  // nothing left to gain beyond the accuracy of a projection
        if (delta == 0.0) continue;
        dual[i] = delta == -row.mu ? 0.0 : row.mu + delta;
        rest += delta * b;
        const double shift = lam[n - 1];
        for (Index k = 0; k < n; k++) lam[k] -= shift;
        level[0] += shift;
        level[1] = std::log(sum_of_exp(lam)) + level[0] + rest;
        level[2] += log_step_bound(r, low, high, s * model);
        const double record[] = {double(i), delta, level[1], level[2], double(evaluations)};
        std::copy_n(record, 5, series[steps++].data);
    }
    return {steps, worst};
}

}  // namespace bregmat::boost
