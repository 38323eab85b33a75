#include "projections/projections.hpp"

namespace bregmat::eigen_update {

int64_t rotate_ties_inplace(Vector<double> lam, Matrix<double> Vt, Vector<double> w) {
    const Index n = lam.size;
    const double tol = n > 0 ? secular::DEFLATION * std::max(std::abs(lam[0]), std::abs(lam[n - 1])) : 0.0;
    int64_t count = 0;
    Index last = -1;
    for (Index i = 0; i < n; i++) {
        if (w[i] == 0.0) continue;
        Index keep = last, drop = i;
        last = i;
        if (keep < 0) continue;
        const double tau = std::hypot(w[keep], w[i]);
        double c = w[keep] / tau, s = w[i] / tau;
        if (!((lam[i] - lam[keep]) * std::abs(c * s) <= tol)) continue;
        if (!(std::abs(w[keep]) >= std::abs(w[i]))) {  // the larger one stays: rows hardly move when the other is tiny
            std::swap(keep, drop);
            std::swap(c, s);
        }
        const auto a = Vt[keep], b = Vt[drop];
        INDEPENDENT
        for (Index k = 0; k < n; k++) {
            const double va = a[k], vb = b[k];
            a[k] = c * va + s * vb;
            b[k] = c * vb - s * va;
        }
        w[keep] = tau, w[drop] = 0.0;
        last = keep;
        count++;
    }
    return count;
}

// Rows of U, of shape (K, K): unit eigenvectors zhat_i / (d_i - theta_j) (Gu and Eisenstat 1994).
// zhat_i^2 = prod_j (d_i - theta_j) / prod_{j != i} (d_i - d_j) up to a common factor, four roots to a division.
static void vectors_inplace(const EigenWork &work, Index K) {
    const auto d = work.d, x = work.offset, o = work.scratch[0], zhat = work.scratch[1];
    for (Index j = 0; j < K; j++) o[j] = d[work.origin[j]];
    for (Index j = K; j < K + 4; j++) o[j] = d[j], x[j] = 0.0;  // a factor of 1
    const Index P = 8 * ((K + 7) / 8);
    const auto nonzero = [](double gap) { return gap == 0.0 ? 1.0 : gap; };
    std::fill_n(zhat.data, P, 1.0);
    for (Index j = 0; j < K; j += 4) {
        const double o0 = o[j], o1 = o[j + 1], o2 = o[j + 2], o3 = o[j + 3];
        const double x0 = x[j], x1 = x[j + 1], x2 = x[j + 2], x3 = x[j + 3];
        const double d0 = d[j], d1 = d[j + 1], d2 = d[j + 2], d3 = d[j + 3];
        INDEPENDENT
        for (Index i = 0; i < P; i++) {
            const double p = d[i], left = ((p - o0) - x0) * ((p - o1) - x1), right = ((p - o2) - x2) * ((p - o3) - x3);
            const double below = (nonzero(p - d0) * nonzero(p - d1)) * (nonzero(p - d2) * nonzero(p - d3));
            zhat[i] *= (left * right) / below;
        }
    }
    for (Index i = 0; i < P; i++) zhat[i] = i < K ? std::copysign(std::sqrt(std::abs(zhat[i])), work.z[i]) : 0.0;
    for (Index j = 0; j < K; j++) {
        const double oj = o[j], xj = x[j];
        double *const row = &work.U[j * K];  // padded: it runs into the next row, which is written later
        INDEPENDENT
        for (Index i = 0; i < P; i++) row[i] = zhat[i] / ((d[i] - oj) - xj);
        const double scale = 1.0 / std::sqrt(vectors::dot({row, K}, {row, K}));
        for (Index i = 0; i < K; i++) row[i] *= scale;
    }
}

void rotate_rows_inplace(Vector<double> lam, Matrix<double> Vt, const EigenWork &work, Index K) {
    const Index n = lam.size;
    const auto keep = work.keep, order = work.origin;
    const auto value = work.scratch[0];
    const Matrix<double> rows(work.rows[0].data, n, n), product(work.rows[1].data, K, n);
    for (Index j = 0; K < n && j < K; j++) std::copy_n(Vt[keep[j]].data, n, rows[j].data);
    product_inplace<double>(product, {work.U.data, K, K}, K < n ? rows.slice(0, K) : Vt);
    for (Index j = 0; j < K; j++) {
        std::copy_n(product[j].data, n, Vt[keep[j]].data);
        lam[keep[j]] = work.theta[j];
    }
    if (std::is_sorted(lam.data, lam.data + n)) return;
    // what stayed and what moved are ascending already, so that insertion has little to do beside the copies
    for (Index i = 0; i < n; i++) {
        Index j = i;
        for (; j > 0 && lam[order[j - 1]] > lam[i]; j--) order[j] = order[j - 1];
        order[j] = i;
    }
    for (Index i = 0; i < n; i++) {
        value[i] = lam[order[i]];
        std::copy_n(Vt[order[i]].data, n, rows[i].data);
    }
    vectors::copy_inplace<double>(lam, value);
    for (Index i = 0; i < n; i++) vectors::copy_inplace<double>(Vt[i], rows[i]);
}

void apply_secular_inplace(Vector<double> lam, Matrix<double> Vt, const EigenWork &work, Index K) {
    if (K == 1) work.U[0] = 1.0;
    if (K > 1) vectors_inplace(work, K);
    if (K > 0) rotate_rows_inplace(lam, Vt, work, K);
}

Index rank_one_update_inplace(
    Vector<double> lam, Matrix<double> Vt, Vector<double> w, double rho, const EigenWork &work) {
    rotate_ties_inplace(lam, Vt, w);
    const Index K = secular::solve_inplace(work, lam, w, rho);
    apply_secular_inplace(lam, Vt, work, K);
    return K;
}

// out_a += t_a t_b F(v_a, v_b), b = a + shift, F the divided difference of exp. The rows of x, longer than out by shift, are v,
// exp(v), t and t exp(v / 2).
static void differences_inplace(Vector<double> out, Matrix<const double> x, Index shift) {
    const auto v = x[0], e = x[1], t = x[2], half = x[3];
    INDEPENDENT
    for (Index a = 0; a < out.size; a++) {
        const Index b = a + shift;
        const double gap = v[b] - v[a], x2 = gap * gap;
        // 2 sinh(gap / 2) / gap, to rounding where the quotient would lose more than two digits
        const double series = 1.0 + x2 * (1.0 / 24.0 + x2 * (1.0 / 1920.0 + x2 * (1.0 / 322560.0)));
        const double near = half[a] * half[b] * series, far = t[a] * t[b] * ((e[b] - e[a]) / gap);
        out[a] += x2 < 0.01 ? near : far;
    }
}

Along exp_along_inplace(const EigenWork &work, Vector<const double> lam, Vector<const double> w, Index K) {
    const auto x = work.scratch;
    const auto value = x[0], power = x[1], weight = x[2], half = x[3];
    double p = 0.0, trace = 0.0, slope = 0.0;
    Index m = 0, j = 0;
    for (Index i = 0; i < lam.size; i++) {
        const bool moved = j < K && work.keep[j] == i;
        const double v = moved ? work.theta[j] : lam[i], t = moved ? work.omega[j] : w[i] * w[i];
        j += moved;
        const double h = std::exp(0.5 * v), e = h * h;
        trace += e;
        if (t == 0.0) continue;
        p += t * e;
        slope += t * t * e;
        value[m] = v, power[m] = e, weight[m] = t, half[m] = t * h;
        m++;
    }
    // every pair once, as (a, a + r) around a circle: loops of one length, without remainder
    const Vector<double> pair{x[4].data, 8 * ((m + 7) / 8)};
    for (Index a = 0; a + m < pair.size + m / 2; a++)
        for (int row = 0; row < 4; row++) x(row, m + a) = x(row, a);
    std::fill_n(pair.data, pair.size, 0.0);
    for (Index r = 1; r < (m + 1) / 2; r++) differences_inplace(pair, x, r);
    for (Index a = 0; a < m; a++) slope += 2.0 * pair[a], pair[a] = 0.0;
    if (m % 2 == 0) differences_inplace(pair, x, m / 2);
    for (Index a = 0; a < m; a++) slope += pair[a];
    return {p, trace, slope};
}

}  // namespace bregmat::eigen_update
