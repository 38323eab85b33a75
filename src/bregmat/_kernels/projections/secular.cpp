#include "projections/projections.hpp"

namespace bregmat::secular {

static constexpr double STEP = 1e-7;  // relative: the iteration is of third order, so the next step is below rounding
static constexpr int MAX_SWEEPS =
    100;  // five suffice; a bisection of the whole range of exponents fits in, and NaN ends here

// Rows of work.scratch while roots are sought; a column is one root that has not converged.
enum { POLE, MU, Y, GAP, SIGN, NEAR, OTHER, LOW, HIGH, INDEX, S1, S2, S3, SIZE, NEXT, SLOPE };

// First distance Y from the nearer pole, and the side SIGN of it, from the sums in the middle of the interval.
static void guess_inplace(Matrix<double> x, double rinv, Index m) {
    const auto y = x[Y], sign = x[SIGN], s1 = x[S1], s2 = x[S2], s3 = x[S3], gap = x[GAP], near = x[NEAR],
               other = x[OTHER];
    // std::clamp returns a reference, with which loops do not vectorise
    const auto clamped = [](double t, double low, double high) { return t < low ? low : high < t ? high : t; };
    INDEPENDENT
    for (Index a = 0; a < m; a++) {
        const double g = gap[a], left = near[a], right = other[a], side = sign[a], inv = 2.0 / g;
        // the rest of f, without the two poles of the interval: value, slope and half the curvature
        const double t = right * inv * side, c0 = rinv + s1[a] - t, c2 = s3[a] - t * inv * inv;
        const double c1 = clamped(s2[a] - right * inv * inv, 0.0, INFINITY);
        // f < 0 in the middle: the root is in the right half, unless the right end is artificial
        const bool swap = (c0 + (right - left) * inv < 0.0) & (right > 0.0) & (side > 0.0);
        const double sg = swap ? -1.0 : side, s = swap ? right : left, S = swap ? left : right;
        const double ratio = c2 / (c1 + 1e-300);
        double q = 0.0, c = c0;
        for (int turn = 0; turn < 3; turn++) {
            // q is the root in (0, g) of sg c - s / q + S / (g - q): no difference of like quantities under the root
            const double b = sg * c * g + s + S, e = sg * c * g - s + S, r = std::sqrt(e * e + 4.0 * s * S);
            q = (b >= 0.0 ? 2.0 * s * g : r - b) / (b >= 0.0 ? b + r : -2.0 * (sg * c));
            // c is the rest there, as one pole with these three numbers
            const double h = sg * (clamped(q, 0.0, 0.5 * g) - 0.5 * g);
            c = c0 + c1 * h / (1.0 - clamped(ratio * h, -2.0, 0.5));
        }
        sign[a] = sg;
        y[a] = (q > 0.0) & (q < 0.5 * g) ? q : 0.25 * g;
    }
}

// Distances NEXT and slopes of f there. SIZE becomes 1 where NEXT is that of the root, else 0; S1 becomes f. All poles but the
// nearest, which stays exact, are interpolated to second order by the two that enclose the root.
static void step_inplace(Matrix<double> x, double rinv, Index m) {
    const auto next = x[NEXT], slope = x[SLOPE], size = x[SIZE], s1 = x[S1], s2 = x[S2], s3 = x[S3];
    const auto y = x[Y], gap = x[GAP], sign = x[SIGN], near = x[NEAR];
    INDEPENDENT
    for (Index a = 0; a < m; a++) {
        const double q = y[a], g = gap[a], sg = sign[a], rest = g - q, d = s2[a];
        const double A = q * (d - sg * s3[a] * rest) / g, pull = near[a] / q, f = sg * (rinv + s1[a]) - pull;
        const double s = pull + A * q, S = (d - A) * rest;
        // root h of f + s h / (q + h) + S h / (rest - h) in (-q, rest): as accurate, relatively, as f is
        const double b = f * (rest - q) + s * rest + S * q, e = f * (rest + q) + s * rest - S * q;
        const double r = std::sqrt(e * e + 4.0 * s * S * q * rest);
        const double h = (b >= 0.0 ? -2.0 * f * q * rest : r - b) / (b >= 0.0 ? b + r : 2.0 * (S - s - f));
        const double bound = 4.0 * EPS * (std::abs(rinv) + size[a] + 2.0 * pull), t = q + h, u = rest - h;
        next[a] = t;
        slope[a] = s * q / (t * t) + S * rest / (u * u);
        size[a] = (std::abs(h) <= STEP * q) | (std::abs(f) <= bound) ? 1.0 : 0.0;
        s1[a] = f;
    }
}

// The sums for the first m columns, after copies of the last one have filled up a multiple of 8; returns that multiple.
static Index padded_sums_inplace(const EigenWork &work, Index K, Index m) {
    const auto x = work.scratch;
    const Index end = 8 * ((m + 7) / 8);
    for (int q = POLE; q <= OTHER; q++) std::fill(&x(q, m), &x(q, end), x(q, m - 1));
    sums_inplace({&x(S1, 0), 4, end, x.stride}, work.d.slice(0, K), work.z2, x.slice(POLE, MU + 1));
    return end;
}

// All K roots into work; returns the number of evaluations of f. Gragg's iteration (Borges and Gragg 1993), with the nearest pole
// exact: of third order, every iterate inside its interval. Beyond the outermost pole the interval ends at an artificial pole of
// weight 0, twice as far away as the root can be.
static int64_t roots_inplace(const EigenWork &work, double rho, double total, Index K) {
    const auto x = work.scratch;
    const auto pole = x[POLE], mu = x[MU], y = x[Y], gap = x[GAP], sign = x[SIGN], low = x[LOW], high = x[HIGH];
    const double rinv = 1.0 / rho;
    const Index shift = rho > 0.0 ? 0 : -1;  // root j is between poles j + shift and j + shift + 1
    for (Index j = 0; j < K; j++) {
        const Index left = j + shift, right = left + 1, o = std::max<Index>(left, 0);
        const bool inside = left >= 0 && right < K;
        pole[j] = work.d[o], x(NEAR, j) = work.z2[o], x(OTHER, j) = inside ? work.z2[right] : 0.0;
        gap[j] = inside ? work.d[right] - work.d[left] : 2.0 * std::abs(rho) * total;
        sign[j] = left >= 0 ? 1.0 : -1.0;
        mu[j] = sign[j] * 0.5 * gap[j];
        x(INDEX, j) = double(j);
    }
    guess_inplace(x, rinv, padded_sums_inplace(work, K, K));
    for (Index j = 0; j < K; j++) {
        const Index o = j + shift + (sign[j] > 0.0 ? 0 : 1);
        work.origin[j] = o, pole[j] = work.d[o], x(NEAR, j) = work.z2[o];
        mu[j] = sign[j] * y[j], low[j] = 0.0, high[j] = 0.51 * gap[j];
    }
    int64_t count = K;
    Index left = K;
    for (int sweep = 1; sweep <= MAX_SWEEPS && left > 0; sweep++) {
        const Index active = left;
        step_inplace(x, rinv, padded_sums_inplace(work, K, active));
        count += active;
        left = 0;
        for (Index a = 0; a < active; a++) {
            double q = x(NEXT, a);
            if (x(SIZE, a) > 0.0 || sweep == MAX_SWEEPS) {
                const Index j = Index(x(INDEX, a));
                work.offset[j] = sign[a] * q;
                work.theta[j] = pole[a] + work.offset[j];
                // the slope is interpolated: its error is of second order in a step below STEP
                work.omega[j] = rinv * (rinv / x(SLOPE, a));
                continue;
            }
            (x(S1, a) > 0.0 ? high : low)[a] = y[a];
            if (!(q > low[a] && q < high[a])) q = low[a] > 0.0 ? std::sqrt(low[a] * high[a]) : 0.0625 * high[a];
            y[a] = q, mu[a] = sign[a] * q;
            for (int row = POLE; row <= INDEX; row++) x(row, left) = x(row, a);
            left++;
        }
    }
    return count;
}

Index solve_inplace(const EigenWork &work, Vector<const double> lam, Vector<const double> w, double rho) {
    const auto d = work.d, z = work.z, z2 = work.z2;
    double total = 0.0, kept = 0.0;
    for (Index i = 0; i < w.size; i++) total += w[i] * w[i];
    work.counters[0]++;
    if (rho == 0.0 || total == 0.0) return 0;
    const double size = std::abs(rho), scale = size * std::sqrt(total);
    const double tol = DEFLATION * std::max({std::abs(lam[0]), std::abs(lam[lam.size - 1]), size * total});
    Index K = 0;
    for (Index i = 0; i < w.size; i++) {
        if (!(scale * std::abs(w[i]) > tol)) continue;
        work.keep[K] = i, d[K] = lam[i], z[K] = w[i], z2[K] = w[i] * w[i];
        kept += z2[K++];
    }
    if (K == 1) {
        work.origin[0] = 0, work.offset[0] = rho * z2[0], work.theta[0] = d[0] + rho * z2[0], work.omega[0] = z2[0];
        work.counters[1]++;
    } else if (K > 1) {
        // a pole of weight 0 that no root is close to
        const double beyond = d[K - 1] + 2.0 * (d[K - 1] - d[0]) + 4.0 * size * total;
        for (Index i = K; i < K + 16; i++) d[i] = beyond, z[i] = z2[i] = 0.0;
        work.counters[1] += roots_inplace(work, rho, kept, K);
    }
    return K;
}

}  // namespace bregmat::secular
