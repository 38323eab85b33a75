#include "streams/streams.hpp"

namespace bregmat::online {

using vectors::dot;

static constexpr double TINY = 1e-200;  // squared norms below it move nothing
// eta times the square of the largest of label, prediction and mean label; chosen by trial
static constexpr double AUTO_SCALE = 0.1;
// of z'Az in one factor update: it loses about as many digits as this has
static constexpr double LARGEST_SHRINK = 1e4;

std::pair<double, double> implicit_step(double p, double y, double eta) {
    const double c = 1.0 - eta * p * y, root = std::hypot(c, 2.0 * std::sqrt(eta) * p);
    return {2.0 * (p - y) / (1.0 + eta * p * y + root), c >= 0.0 ? 0.5 * (c + root) : 2.0 * eta * p * p / (root - c)};
}

Index metric_trials_inplace(Matrix<double> Bt, Vector<double> predictions, Vector<double> totals,
    Matrix<const double> Z, Vector<const double> y, Vector<const int8_t> sense, double fixed) {
    const Index r = Bt.rows;
    const Buffer<double> memory(6 * r);
    const auto arrays = memory.matrix(6, r);
    const auto v = arrays[0], h = arrays[3], g = arrays[4], sums = arrays[5];
    auto w = arrays[1], x = arrays[2];
    for (Index t = 0; t < y.size; t++) {
        vectors::copy_inplace<double>(v.slice(0, Z.columns), Z[t]);
        // not taken over from the last update, which could do it on the way: calls of any length give the same bits
        logdet::transposed_product_inplace(w, Bt, v);
        double p = dot(w, w), eta = fixed;
        double &all_labels = totals[LABELS + sense[t] + 1], &all_counts = totals[COUNTS + sense[t] + 1];
        const double labels = all_labels + y[t], count = all_counts + 1.0;
        if (fixed == 0.0 && p > 0.0) {
            const double largest = std::max(std::max(p, y[t]), labels / count);
            eta = AUTO_SCALE / (largest * largest);
            if (!(eta > 0.0)) return t;  // the square overflows: no step would ever be made again
        }
        auto [error, shrink] = implicit_step(p, y[t], eta);
        double alpha = -eta * error / shrink;
        const double excess = p - y[t];
        if (!(std::abs(alpha) < inf && shrink > 0.0 && excess * excess < inf)) return t;
        predictions[t] = p;
        totals[SEEN] += 1.0;
        if (p > 0.0) all_labels = labels, all_counts = count;  // identical points, which move nothing, are no measure
        if (excess == 0.0 || sense[t] * excess < 0.0) continue;
        if (!(eta > 0.0)) return t;  // p underflows with a label that is not met
        const double target = p / shrink;
        double ratio = 1.0 + eta * p * target;
        if (excess > 0.0) ratio *= ratio / (1.0 + eta * target * target);
        totals[RATIO] = std::max(totals[RATIO], fixed > 0.0 ? ratio : ratio / eta);
        totals[RATE] = eta;
        totals[HIGHEST] = std::max(totals[HIGHEST], eta);
        totals[LOSS] += 0.5 * excess * excess;
        totals[UPDATES] += 1.0;
        const auto update = [&](double a) {
            std::swap(w, x);
            logdet::chol_update_mult_inplace(Bt, w, a, x, v, h, g, sums);
        };
        for (int turns = 0; shrink > LARGEST_SHRINK && turns < 100; turns++) {
            update((1.0 / LARGEST_SHRINK - 1.0) / p);
            p = dot(w, w);
            shrink = p / target;
            alpha = (target - p) / (p * p);
        }
        update(alpha);
    }
    return y.size;
}

Index cap_spectrum_inplace(Vector<double> lam, Vector<double> sums, Index m) {
    const Index n = lam.size;
    double total = sums[0] = lam[0];
    for (Index i = 1; i < n; i++) sums[i] = total = lam[i] + std::log1p(std::exp(total - lam[i]));
    Index c = 0;
    while (c < m - 1 && lam[n - 1 - c] - sums[n - 1 - c] + std::log(double(m - c)) > 0.0) c++;
    const double shift = std::log(double(m - c) / double(m)) - sums[n - c - 1];
    for (Index i = 0; i < n - c; i++) lam[i] += shift;
    for (Index i = n - c; i < n; i++) lam[i] = -std::log(double(m));
    return c;
}

void pca_trials_inplace(Vector<double> lam, Matrix<double> Vt, Vector<double> totals, Matrix<const double> X, Index m,
    double fixed, double reach, const EigenWork &work) {
    const auto w = work.rows_of_projections[1], sums = work.rows_of_projections[2];
    double &eta = totals[ETA], &peak = totals[PEAK];
    for (Index t = 0; t < X.rows; t++) {
        double b = 0.0, loss = 0.0;
        for (Index i = 0; i < lam.size; i++) b += X(t, i) * X(t, i);
        product_inplace(w, Vt, X[t]);
        for (Index i = 0; i < lam.size; i++) loss += std::exp(lam[i]) * w[i] * w[i];
        loss *= double(m);
        totals[PAID] += loss;
        if (!(b > TINY)) continue;
        peak = std::max(peak, b);
        if (eta == 0.0) eta = fixed > 0.0 ? fixed : std::sqrt(reach) / peak;
        totals[LAST_ETA] = eta;
        totals[PRICE] += loss * (1.0 + std::expm1(-eta * b) / (eta * b));
        if (fixed == 0.0) {
            const double before = eta;
            eta = std::sqrt(reach / peak / (peak + totals[PAID]));
            for (Index i = 0; i < lam.size; i++) lam[i] *= eta / before;
        }
        eigen_update::rank_one_update_inplace(lam, Vt, w, -eta, work);
        cap_spectrum_inplace(lam, sums, m);
    }
}

}  // namespace bregmat::online
