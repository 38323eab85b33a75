#include "projections/secular.hpp"

#include <algorithm>
#include <cmath>

namespace bregmat::secular {

static constexpr double STEP = 1e-7;  // relative: the iteration is of third order, so the next step is below rounding
static constexpr int MAX_SWEEPS =
    100;  // five suffice; a bisection of the whole range of exponents fits in, and NaN ends here

// Rows of work.scratch while roots are sought; a column is one root that has not converged.
enum { POLE, MU, Y, GAP, SIGN, NEAR, OTHER, LOW, HIGH, INDEX, S1, S2, S3, SIZE, NEXT, SLOPE };

// std::min and std::max return references, with which loops do not vectorise.
static double smaller(double a, double b) {
    return b < a ? b : a;
}
static double larger(double a, double b) {
    return b > a ? b : a;
}

// Root in (0, gap) of c - s / y + S / (gap - y), s > 0, S >= 0: no difference of like quantities under the root.
static double two_poles(double c, double s, double S, double gap) {
    const double b = c * gap + s + S, e = c * gap - s + S;
    const double r = std::sqrt(e * e + 4.0 * s * S);
    const double numerator = b >= 0.0 ? 2.0 * s * gap : r - b;
    return numerator / (b >= 0.0 ? b + r : -2.0 * c);
}

// Root h of f + s h / (y + h) + S h / (rest - h) in (-y, rest), s > 0, S >= 0: as accurate, relatively, as f is.
static double third_order_step(double f, double s, double S, double y, double rest) {
    const double b = f * (rest - y) + s * rest + S * y, e = f * (rest + y) + s * rest - S * y;
    const double r = std::sqrt(e * e + 4.0 * s * S * y * rest);
    const double numerator = b >= 0.0 ? -2.0 * f * y * rest : r - b;
    return numerator / (b >= 0.0 ? b + r : 2.0 * (S - s - f));
}

// First distance from the nearer pole, and the side (sign) of it, from the sums in the middle of the interval.
static void guess_inplace(Matrix<double> scratch, double rinv, Index m) {
    const auto y = scratch[Y], sign = scratch[SIGN], s1 = scratch[S1], s2 = scratch[S2], s3 = scratch[S3];
    const auto gap = scratch[GAP], near = scratch[NEAR], other = scratch[OTHER];
    INDEPENDENT
    for (Index a = 0; a < m; a++) {
        const double g = gap[a], left = near[a], right = other[a], side = sign[a], inv = 2.0 / g;
        // the rest of f, without the two poles of the interval: value, slope and half the curvature
        const double t = right * inv * side, u = right * inv * inv;
        const double c0 = rinv + s1[a] - t, c1 = larger(s2[a] - u, 0.0), c2 = s3[a] - t * inv * inv;
        // f < 0 in the middle: the root is in the right half, unless the right end is artificial
        const bool swap = (c0 + (right - left) * inv < 0.0) & (right > 0.0) & (side > 0.0);
        const double sg = swap ? -1.0 : side, s = swap ? right : left, S = swap ? left : right;
        const double ratio = c2 / (c1 + 1e-300);
        // twice: the rest as one pole with these three numbers, at the last guess
        double q = two_poles(sg * c0, s, S, g);
        double h = sg * (smaller(larger(q, 0.0), 0.5 * g) - 0.5 * g);
        q = two_poles(sg * (c0 + c1 * h / (1.0 - smaller(larger(ratio * h, -2.0), 0.5))), s, S, g);
        h = sg * (smaller(larger(q, 0.0), 0.5 * g) - 0.5 * g);
        q = two_poles(sg * (c0 + c1 * h / (1.0 - smaller(larger(ratio * h, -2.0), 0.5))), s, S, g);
        sign[a] = sg;
        y[a] = (q > 0.0) & (q < 0.5 * g) ? q : 0.25 * g;
    }
}

// New distances and slopes of f there. SIZE becomes 1 where the distance is that of the root, else 0; S1 becomes f.
// All poles but the nearest, which stays exact, are interpolated to second order by the two that enclose the root.
static void step_inplace(Matrix<double> scratch, double rinv, Index m) {
    const auto next = scratch[NEXT], slope = scratch[SLOPE], size = scratch[SIZE], y = scratch[Y], gap = scratch[GAP];
    const auto s1 = scratch[S1], s2 = scratch[S2], s3 = scratch[S3], sign = scratch[SIGN], near = scratch[NEAR];
    INDEPENDENT
    for (Index a = 0; a < m; a++) {
        const double q = y[a], g = gap[a], sg = sign[a], rest = g - q;
        const double c = sg * (rinv + s1[a]), d = s2[a];
        const double A = q * (d - sg * s3[a] * rest) / g, B = d - A;
        const double pull = near[a] / q, f = c - pull;
        const double s = pull + A * q, S = B * rest;
        const double h = third_order_step(f, s, S, q, rest);
        const double bound = 4.0 * EPS * (std::abs(rinv) + size[a] + 2.0 * pull);
        const double t = q + h, u = rest - h;
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
    sums_inplace(x[S1], x[S2], x[S3], x[SIZE], work.d, work.z2, x[POLE], x[MU], K, end);
    return end;
}

// All K roots into work; returns the number of evaluations of f. Gragg's iteration (Borges and Gragg 1993), with the nearest pole
// exact: of third order, every iterate inside its interval. Beyond the outermost pole the interval ends at an artificial pole of
// weight 0, twice as far away as the root can be.
static int64_t roots_inplace(const EigenWork &work, double rho, Index K) {
    const auto d = work.d, z2 = work.z2;
    const auto x = work.scratch;
    const auto pole = x[POLE], mu = x[MU], y = x[Y], gap = x[GAP], sign = x[SIGN], near = x[NEAR], low = x[LOW],
               high = x[HIGH], index = x[INDEX];
    double total = 0.0;
    for (Index i = 0; i < K; i++) total += z2[i];
    const double far = 2.0 * std::abs(rho) * total, rinv = 1.0 / rho;
    const Index shift = rho > 0.0 ? 0 : -1;  // root j is between poles j + shift and j + shift + 1
    for (Index j = 0; j < K; j++) {
        const Index left = j + shift, right = left + 1, o = std::max<Index>(left, 0);
        const bool inside = left >= 0 && right < K;
        pole[j] = d[o], near[j] = z2[o], x(OTHER, j) = inside ? z2[right] : 0.0;
        gap[j] = inside ? d[right] - d[left] : far;
        sign[j] = left >= 0 ? 1.0 : -1.0;
        mu[j] = sign[j] * 0.5 * gap[j];
        index[j] = double(j);
    }
    guess_inplace(x, rinv, padded_sums_inplace(work, K, K));
    for (Index j = 0; j < K; j++) {
        const Index o = j + shift + (sign[j] > 0.0 ? 0 : 1);
        work.origin[j] = o, pole[j] = d[o], near[j] = z2[o];
        mu[j] = sign[j] * y[j];
        low[j] = 0.0, high[j] = 0.51 * gap[j];
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
                const Index j = Index(index[a]);
                work.offset[j] = sign[a] * q;
                work.theta[j] = pole[a] + work.offset[j];
                // the slope is interpolated: its error is of second order in a step below STEP
                work.omega[j] = rinv * (rinv / x(SLOPE, a));
                continue;
            }
            double lo = low[a], hi = high[a];
            (x(S1, a) > 0.0 ? hi : lo) = y[a];
            if (!(q > lo && q < hi)) q = lo > 0.0 ? std::sqrt(lo * hi) : 0.0625 * hi;
            pole[left] = pole[a], mu[left] = sign[a] * q, y[left] = q, gap[left] = gap[a], sign[left] = sign[a];
            near[left] = near[a], low[left] = lo, high[left] = hi, index[left] = index[a];
            left++;
        }
    }
    return count;
}

Index solve_inplace(const EigenWork &work, Vector<const double> lam, Vector<const double> w, double rho) {
    const Index n = lam.size;
    double total = 0.0;
    for (Index i = 0; i < n; i++) total += w[i] * w[i];
    work.counters[0]++;
    if (rho == 0.0 || total == 0.0) return 0;
    const double scale = std::abs(rho) * std::sqrt(total);
    const double tol = DEFLATION * std::max({std::abs(lam[0]), std::abs(lam[n - 1]), std::abs(rho) * total});
    const auto d = work.d, z = work.z, z2 = work.z2;
    Index K = 0;
    for (Index i = 0; i < n; i++) {
        if (!(scale * std::abs(w[i]) > tol)) continue;
        work.keep[K] = i, d[K] = lam[i], z[K] = w[i], z2[K] = w[i] * w[i];
        K++;
    }
    if (K == 0) return 0;
    if (K == 1) {
        work.origin[0] = 0, work.offset[0] = rho * z2[0];
        work.theta[0] = d[0] + work.offset[0], work.omega[0] = z2[0];
        work.counters[1]++;
        return 1;
    }
    // a pole of weight 0 that no root is close to
    const double beyond = d[K - 1] + 2.0 * (d[K - 1] - d[0]) + 4.0 * std::abs(rho) * total;
    for (Index i = K; i < K + PAD; i++) d[i] = beyond, z[i] = z2[i] = 0.0;
    work.counters[1] += roots_inplace(work, rho, K);
    return K;
}

}  // namespace bregmat::secular
