#include "projections/projections.hpp"

namespace bregmat::logdet {

using namespace outer_rows;
using vectors::dot;

// The delta with p / (1 + delta p) = xi(mu + delta), in closed form (Kulis 2009, eq. 19 and section 6.2.1).
double rank_one_step(const Row &row, double p) {
    const double b = row.b, gamma = row.gamma, mu = row.mu;
    if (row.loss == HARD) return b > 0.0 ? 1.0 / b - 1.0 / p : 1e3 / p;  // no matrix meets b <= 0: shrink
    if (row.loss == ITAKURA_SAITO) return gamma / (gamma + 1.0) * (1.0 / b - mu / gamma - 1.0 / p);
    const double d = row.scale * row.scale / gamma;  // the quadratic loss: a quadratic equation
    const double q = b + mu * d, t = q * p + d;
    return 2.0 * (p - q) / (t + std::sqrt(t * t + 4.0 * d * p * (p - q)));
}

// The delta with d0 / (1 + delta d0) + d1 / (1 + delta d1) = b inside the cone: one root of a quadratic.
double rank_two_step(double d0, double d1, double b) {
    const double T = d0 + d1, D = d0 * d1;
    const double qa = b * D, qb = b * T - 2.0 * D, qc = b - T;
    const double q = -0.5 * (qb + std::copysign(std::sqrt(b * (d0 - d1) * (b * (d0 - d1)) + 4.0 * D * D), qb));
    const double first = q != 0.0 ? qc / q : inf;
    if (std::abs(first) < inf && 1.0 + first * d0 > 0.0 && 1.0 + first * d1 > 0.0) return first;
    return q / qa;
}

// The delta with sum d / (1 + delta d) = xi(mu + delta) by safeguarded Newton.
std::pair<double, int64_t> spectral_step(Vector<const double> d, const Row &row, double tol) {
    double lo = -inf, hi = inf, size = 0.0, delta = 0.0;
    for (Index i = 0; i < d.size; i++) {
        size += std::abs(d[i]);
        if (d[i] > 0.0) lo = std::max(lo, -1.0 / d[i]);
        else if (d[i] < 0.0) hi = std::min(hi, -1.0 / d[i]);
    }
    if (row.loss == ITAKURA_SAITO) hi = std::min(hi, row.gamma / row.b - row.mu);
    int64_t evaluations = 0;
    while (size > 0.0 && evaluations < 100) {
        const auto [xi, slope] = relaxed(row, row.mu + delta);
        double f = -xi, df = -slope;
        for (Index i = 0; i < d.size; i++) {
            const double x = d[i] / (1.0 + delta * d[i]);
            f += x;
            df -= x * x;
        }
        evaluations++;
        if (std::abs(f) <= tol * (std::abs(xi) + size)) break;
        (f > 0.0 ? lo : hi) = delta;
        double next = delta - f / df;
        if (!(lo < next && next < hi)) {
            if (lo == -inf) next = 2.0 * hi - 1.0 / size;
            else if (hi == inf) next = 2.0 * lo + 1.0 / size;
            else next = 0.5 * (lo + hi);
        }
        if (next == delta || std::abs(next) * size > 1e6) break;  // a bound that no matrix meets
        delta = next;
    }
    return {delta, evaluations};
}

// Eigenvalues of sum_t coef_t w_t w_t' other than 0, from the k rows of W (>= k, r), coef (k,).
void spectrum_of_row_inplace(Vector<double> d, Matrix<const double> W, Vector<const double> coef) {
    const Index k = coef.size;
    const Buffer<double> memory(2 * k * k);
    const Matrix<double> H = memory.matrix(2 * k, k).slice(0, k), C = memory.matrix(2 * k, k).slice(k, 2 * k);
    product_inplace<double>(H, W.slice(0, k), W.slice(0, k), Transposed::NO, Transposed::YES);
    if (k == 2) {  // those of diag(coef) H
        const double c0 = coef[0], c1 = coef[1], a = c0 * H(0, 0), b = c1 * H(1, 1);
        const double T = a + b, D = c0 * c1 * (H(0, 0) * H(1, 1) - H(0, 1) * H(0, 1));
        const double root = std::sqrt(std::max(0.0, (a - b) * (a - b) + 4.0 * c0 * c1 * (H(0, 1) * H(0, 1))));
        d[0] = 0.5 * (T + std::copysign(root, T));
        d[1] = d[0] != 0.0 ? D / d[0] : 0.0;
        return;
    }
    const Vector<double> values = d.slice(0, k);
    eigh_inplace(values, H, true);
    for (Index i = 0; i < k; i++)
        for (Index t = 0; t < k; t++) H(i, t) *= std::sqrt(std::max(values[i], 0.0));
    for (Index i = 0; i < k; i++)
        for (Index j = 0; j < k; j++)
            for (Index t = 0; t < k; t++) C(i, j) += H(i, t) * coef[t] * H(j, t);
    eigh_inplace(values, C, false);
}

// Project onto the rows start ... stop - 1 in turn.
void sweep_inplace(Matrix<double> Bt, Vector<double> dual, Vector<double> limit, Vector<double> totals,
    Vector<int64_t> counts, Matrix<double> W, const OuterRows &rows, const RowBounds &bounds, Index start, Index stop,
    bool corrected, double tol) {
    const Index r = Bt.rows;
    const Buffer<double> memory(7 * r), spectrum(W ? W.rows : 1);
    const auto arrays = memory.matrix(7, r);
    const auto d = spectrum.vector(), v = arrays[0], ahead = arrays[1], h = arrays[4], g = arrays[5], s = arrays[6];
    auto w = arrays[2], x = arrays[3];
    Index ready = -1;  // the row whose w is at hand
    for (Index i = start; i < stop; i++) {
        const Row row = row_at(bounds, i, dual[i]);
        const int sense = row.sense;
        const bool idle = row.mu == 0.0 || !corrected;
        double &moved = totals[sense > 0 ? 1 : 2];
        if (idle && sense != 0 && sense * moved <= sense * limit[i]) {
            counts[0]++;
            continue;
        }
        const Index first = rows.ptr[i], last = rows.ptr[i + 1], k = last - first;
        double p = 0.0, size = 0.0;
        bool definite = true;
        for (Index t = first; t < last; t++) {
            if (ready != i) {
                load_inplace(v, rows, t);
                transposed_product_inplace(w, Bt, v);
            }
            const double q = dot(w, w);
            p += rows.coef[t] * q;
            size += std::abs(rows.coef[t]) * q;
            definite = definite && rows.coef[t] > 0.0;
            if (W) vectors::copy_inplace<double>(W[t - first], w);
        }
        const double violation = excess(row, p);
        totals[3] = std::max(totals[3], violation / row.unit);
        if (idle && sense != 0 && violation <= 0.0) {
            counts[1]++;
            if (definite && row.b > 0.0) limit[i] = moved + std::log(row.b / p);
            continue;
        }
        double delta;
        if (size == 0.0) {
            delta = null_step(row);
        } else if (k == 1 && definite) {
            delta = rank_one_step(row, p);
        } else {
            d[0] = p;
            if (W && k > 1) spectrum_of_row_inplace(d.slice(0, k), W, rows.coef.slice(first, last));
            if (k == 2 && row.loss == HARD && (d[0] * d[1] < 0.0 || row.b * (d[0] + d[1]) > 0.0))  // there is a root
                delta = rank_two_step(d[0], d[1], row.b);
            else {
                int64_t evaluations;
                std::tie(delta, evaluations) = spectral_step(d.slice(0, k), row, tol);
                counts[3] += evaluations;
            }
        }
        if (corrected) delta = corrected_step(delta, row.mu, sense);
        if (delta == 0.0 || !(std::abs(delta) < inf)) {
            counts[1]++;
            continue;
        }
        counts[2]++;
        totals[4] += delta * delta;
        // the zero is exact where a correction removes the multiplier altogether
        dual[i] = delta == -row.mu ? 0.0 : row.mu + delta;
        limit[i] = sense > 0 ? -inf : inf;
        if (size == 0.0) continue;
        if (i + 1 < stop && rows.ptr[i + 2] - last == 1) {
            load_inplace(ahead, rows, last);
            ready = i + 1;
        }
        for (const bool shrinks : {true, false})  // what shrinks M comes first, so that no update leaves the cone
            for (Index t = first; t < last; t++) {
                const double e = delta * rows.coef[t];
                if ((e > 0.0) != shrinks) continue;
                if (k > 1) {
                    load_inplace(v, rows, t);
                    transposed_product_inplace(w, Bt, v);
                }
                const double factor = 1.0 + e * dot(w, w);
                // M <- M + beta M v v' M with beta = -e / factor  (Kulis 2009, eq. 20-21)
                std::swap(w, x);
                chol_update_mult_inplace(Bt, w, -e / factor, x, ahead, h, g, s);
                const double change = -std::log(factor);
                totals[0] += change;
                totals[change > 0.0 ? 1 : 2] += change;
            }
    }
}

}  // namespace bregmat::logdet
