#include "projections/eigen_update.hpp"

#include <algorithm>
#include <cmath>

#include "base/blas.hpp"

namespace bregmat::eigen_update {

static void copy_inplace(Vector<double> out, Vector<const double> row) {
    std::copy_n(row.data, out.size, out.data);
}

int64_t rotate_ties_inplace(Vector<double> lam, Matrix<double> Vt, Vector<double> w) {
    const Index n = lam.size;
    if (n == 0) return 0;
    const double tol = secular::DEFLATION * std::max(std::abs(lam[0]), std::abs(lam[n - 1]));
    int64_t count = 0;
    Index last = -1;
    for (Index i = 0; i < n; i++) {
        if (w[i] == 0.0) continue;
        if (last >= 0) {
            // (lam_i - lam_last) c s with c = w_last / |.|, s = w_i / |.|
            const double tau = std::hypot(w[last], w[i]);
            double c = w[last] / tau, s = w[i] / tau;
            if ((lam[i] - lam[last]) * std::abs(c * s) <= tol) {
                Index keep = last, drop = i;
                if (!(std::abs(w[last]) >=
                      std::abs(w[i]))) {  // the larger one stays, so that rows hardly move when the other is tiny
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
                continue;
            }
        }
        last = i;
    }
    return count;
}

static double gap(double a, double b) {
    const double g = a - b;
    return g == 0.0 ? 1.0 : g;
}

// Rows of U, of shape (K, K): unit eigenvectors zhat_i / (d_i - theta_j) (Gu and Eisenstat 1994).
// zhat_i^2 = prod_j (d_i - theta_j) / prod_{j != i} (d_i - d_j) up to a common factor, four roots to a division.
static void vectors_inplace(const EigenWork &work, Index K) {
    const auto d = work.d, offset = work.offset, pole = work.scratch[0], zhat = work.scratch[1];
    for (Index j = 0; j < K; j++) pole[j] = d[work.origin[j]];
    for (Index j = K; j < K + 4; j++) pole[j] = d[j], offset[j] = 0.0;  // a factor of 1
    const Index P = 8 * ((K + 7) / 8);
    std::fill_n(zhat.data, P, 1.0);
    for (Index j = 0; j < K; j += 4) {
        const double o0 = pole[j], o1 = pole[j + 1], o2 = pole[j + 2], o3 = pole[j + 3];
        const double x0 = offset[j], x1 = offset[j + 1], x2 = offset[j + 2], x3 = offset[j + 3];
        const double d0 = d[j], d1 = d[j + 1], d2 = d[j + 2], d3 = d[j + 3];
        INDEPENDENT
        for (Index i = 0; i < P; i++) {
            const double di = d[i];
            const double left = ((di - o0) - x0) * ((di - o1) - x1), right = ((di - o2) - x2) * ((di - o3) - x3);
            zhat[i] *= (left * right) / ((gap(di, d0) * gap(di, d1)) * (gap(di, d2) * gap(di, d3)));
        }
    }
    for (Index i = 0; i < K; i++) zhat[i] = std::copysign(std::sqrt(std::abs(zhat[i])), work.z[i]);
    std::fill(&zhat[K], &zhat[P], 0.0);
    for (Index j = 0; j < K; j++) {
        const double o = pole[j], x = offset[j];
        double *const row = &work.U[j * K];  // padded: it runs into the next row, which is written later
        INDEPENDENT
        for (Index i = 0; i < P; i++) row[i] = zhat[i] / ((d[i] - o) - x);
        normalise_inplace({row, K});
    }
}

// Ascending lam; rows of Vt follow. Overwrites work.origin.
static void sort_inplace(Vector<double> lam, Matrix<double> Vt, const EigenWork &work) {
    const Index n = lam.size;
    if (std::is_sorted(lam.data, lam.data + n)) return;
    // what stayed and what moved are ascending already, so that insertion has little to do beside the copies
    const auto order = work.origin;
    const auto value = work.scratch[0];
    const Matrix<double> rows(work.rows.data, n, n);
    for (Index i = 0; i < n; i++) {
        Index j = i;
        for (; j > 0 && lam[order[j - 1]] > lam[i]; j--) order[j] = order[j - 1];
        order[j] = i;
    }
    for (Index i = 0; i < n; i++) {
        value[i] = lam[order[i]];
        copy_inplace(rows[i], Vt[order[i]]);
    }
    copy_inplace(lam, value);
    for (Index i = 0; i < n; i++) copy_inplace(Vt[i], rows[i]);
}

void rotate_rows_inplace(Matrix<double> Vt, Matrix<const double> Q, const EigenWork &work) {
    const Matrix<double> product(work.rows[1].data, Vt.rows, Vt.rows);
    product_inplace<double>(product, Q, Vt);
    for (Index i = 0; i < Vt.rows; i++) copy_inplace(Vt[i], product[i]);
}

void apply_secular_inplace(Vector<double> lam, Matrix<double> Vt, const EigenWork &work, Index K) {
    if (K == 0) return;
    const Index n = lam.size;
    if (K > 1) {
        vectors_inplace(work, K);
        const Matrix<double> U(work.U.data, K, K), rows(work.rows[0].data, K, n), product(work.rows[1].data, K, n);
        if (K == n) {
            rotate_rows_inplace(Vt, U, work);
        } else {
            for (Index j = 0; j < K; j++) copy_inplace(rows[j], Vt[work.keep[j]]);
            product_inplace<double>(product, U, rows);
            for (Index j = 0; j < K; j++) copy_inplace(Vt[work.keep[j]], product[j]);
        }
    }
    for (Index j = 0; j < K; j++) lam[work.keep[j]] = work.theta[j];
    sort_inplace(lam, Vt, work);
}

Index rank_one_update_inplace(Vector<double> lam, Matrix<double> Vt, Vector<double> w, double rho,
                              const EigenWork &work) {
    rotate_ties_inplace(lam, Vt, w);
    const Index K = secular::solve_inplace(work, lam, w, rho);
    apply_secular_inplace(lam, Vt, work, K);
    return K;
}

std::tuple<double, double, double> exp_along_inplace(const EigenWork &work, Vector<const double> lam,
                                                     Vector<const double> w, Index K) {
    const Index n = lam.size;
    const auto x = work.scratch;
    const auto value = x[0], weight = x[1], power = x[2], half = x[3], pair = x[4];
    double p = 0.0, trace = 0.0, slope = 0.0;
    Index m = 0, j = 0;
    for (Index i = 0; i < n; i++) {
        const bool moved = j < K && work.keep[j] == i;
        const double v = moved ? work.theta[j] : lam[i], t = moved ? work.omega[j] : w[i] * w[i];
        j += moved;
        const double h = std::exp(0.5 * v), e = h * h;
        trace += e;
        if (t == 0.0) continue;
        p += t * e;
        slope += t * t * e;
        value[m] = v, weight[m] = t, power[m] = e, half[m] = t * h;
        m++;
    }
    // every pair once, as (a, a + r) around a circle: loops of one length, without remainder
    const Index lanes = 8 * ((m + 7) / 8);
    for (Index a = 0, b = m; b < lanes + m / 2; a++, b++)
        value[b] = value[a], weight[b] = weight[a], power[b] = power[a], half[b] = half[a];
    std::fill_n(pair.data, lanes, 0.0);
    for (Index r = 1; r < (m + 1) / 2; r++) differences_inplace(pair, value, power, weight, half, r, lanes);
    for (Index a = 0; a < m; a++) slope += 2.0 * pair[a], pair[a] = 0.0;
    if (m % 2 == 0 && m > 0) {
        differences_inplace(pair, value, power, weight, half, m / 2, lanes);
        for (Index a = 0; a < m; a++) slope += pair[a];
    }
    return {p, trace, slope};
}

}  // namespace bregmat::eigen_update
