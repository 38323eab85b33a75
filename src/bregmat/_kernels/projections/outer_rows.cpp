#include "projections/projections.hpp"

namespace bregmat::outer_rows {

Row row_at(const RowBounds &bounds, Index i, double mu) {
    return {bounds.loss[i], bounds.sense[i], bounds.bound[i], bounds.gamma[i], bounds.scale[i], mu, bounds.unit[i]};
}

double excess(const Row &row, double p) { return row.sense == 0 ? std::abs(p - row.b) : row.sense * (p - row.b); }

void load_inplace(Vector<double> v, const OuterRows &rows, Index t) {
    const auto za = rows.Z[rows.a[t]], zb = rows.Z[rows.b[t]];
    const double s = rows.sign[t];
    for (Index k = 0; k < za.size; k++) v[k] = za[k] + s * zb[k];
}

std::pair<double, double> relaxed(const Row &row, double mu) {
    const double b = row.b, gamma = row.gamma;
    if (row.loss == HARD) return {b, 0.0};
    if (row.loss == ITAKURA_SAITO) {
        const double xi = b / (1.0 - mu * b / gamma);
        return {xi, xi * xi / gamma};
    }
    if (row.loss == RELATIVE_ENTROPY) {
        const double xi = b * std::exp(std::min(mu / gamma, 700.0));
        return {xi, xi / gamma};
    }
    const double d = row.scale * row.scale / gamma;
    return {b + mu * d, d};
}

double null_step(const Row &row) {
    if (row.loss == QUADRATIC) return -row.b * row.gamma / (row.scale * row.scale) - row.mu;
    if (row.loss == HARD && (row.sense * row.b < 0.0 || (row.sense == 0 && row.b != 0.0)))
        return std::copysign(std::max(1.0 / row.unit, std::abs(row.mu)), -row.b);
    return 0.0;
}

double corrected_step(double delta, double mu, int sense) {
    if (sense > 0) return std::max(delta, -mu);
    if (sense < 0) return std::min(delta, -mu);
    return delta;
}

}  // namespace bregmat::outer_rows
