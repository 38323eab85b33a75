#include "streams/streams.hpp"

namespace bregmat::lanczos {

static constexpr double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
static constexpr Index SHORTEST = 3;        // Lanczos steps before the last one says anything
static constexpr double BREAKDOWN = 1e-14;  // off-diagonal of T, in units of log W, that ends the Krylov space
static constexpr double COUPLING = 1e-9;    // off-diagonal of T that a trace feels by its square only
static constexpr double SAFE = 300.0;       // exponents above it are left to the next refresh

bool tridiagonal_inplace(
    Vector<double> d, Vector<double> e, Vector<double> z, Vector<double> w, Index m, double small) {
    for (Index i = 0; i < m; i++) z[i] = w[i] = 0.0;
    z[0] = w[m - 1] = 1.0, e[m - 1] = 0.0;
    for (Index l = 0; l < m; l++)
        for (int sweep = 0;; sweep++) {
            Index k = l;
            while (k < m - 1 && std::abs(e[k]) > 1.1e-16 * (std::abs(d[k]) + std::abs(d[k + 1])) + small) k++;
            if (k == l) break;
            if (sweep == 59) return false;
            double g = (d[l + 1] - d[l]) / (2.0 * e[l]);
            double r = std::sqrt(g * g + 1.0);
            g = d[k] - d[l] + e[l] / (g + (g >= 0.0 ? r : -r));
            double s = 1.0, c = 1.0, p = 0.0;
            Index i = k - 1;
            for (; i >= l; i--) {
                const double f = s * e[i], b = c * e[i];
                r = std::sqrt(f * f + g * g);
                e[i + 1] = r;
                if (r == 0.0) {
                    d[i + 1] -= p;
                    e[k] = 0.0;
                    break;
                }
                const double t = 1.0 / r;
                s = f * t, c = g * t;
                g = d[i + 1] - p;
                r = (d[i] - g) * s + 2.0 * c * b;
                p = s * r;
                d[i + 1] = g + p;
                g = c * r - b;
                const double z0 = z[i], z1 = z[i + 1], w0 = w[i], w1 = w[i + 1];
                z[i] = c * z0 - s * z1, z[i + 1] = s * z0 + c * z1;
                w[i] = c * w0 - s * w1, w[i + 1] = s * w0 + c * w1;
            }
            if (i >= l) continue;
            d[l] -= p;
            e[l] = g;
            e[k] = 0.0;
        }
    return true;
}

void account_inplace(Vector<double> state, double value, double slope) {
    const double part = value - state[CARRY], total = state[LOSS] + part;
    state[CARRY] = (total - state[LOSS]) - part;
    state[LOSS] = total;
    state[SLOPES] += slope * slope;
    state[SEEN] += 1.0;
}

static bool is_in_range(Vector<const double> state) { return state[Z] > 1e-2 * state[PEAK] && state[Z] < 1e10; }

bool is_due(Vector<const double> state, Vector<const double> settings) {
    return !(state[SINCE] < settings[REFRESH] && is_in_range(state));
}

// Start a run from v: the first two rows of Q; returns |v|^2 (0: nothing to do).
template <class S> double Learner<S>::begin(Vector<const S> v) {
    const double size = std::real(inner(v, v)), inverse = 1.0 / std::sqrt(size);
    if (size > 0.0) {
        for (Index i = 0; i < v.size; i++) Q(0, i) = v[i] * inverse;
        hermitian_product_inplace<S>(Q[1], Q.slice(Q.rows - 4, Q.rows), H, Q[0]);
    }
    return size;
}

// Lanczos up to `target` steps, or to the end of the Krylov space; false without room. Q[steps] holds the raw product of H with the last
// vector. Every new vector is made orthogonal to all others once: a tenth of the time at order 52, nothing at 2000, and H with any
// spectrum is done after n steps.
template <class S> bool Learner<S>::lengthen(Index target) {
    if (target > T.columns - 1) return false;
    exact = target >= H.rows;
    for (; steps < target; steps++) {
        const Vector<S> u = Q[steps];
        for (Index k = steps - 1; k >= 0; k--) {
            const S *row = Q[k].data, c = -inner<S>(Q[k], u);
            INDEPENDENT
            for (Index i = 0; i < u.size; i++) u[i] += c * row[i];
        }
        const double beta = std::sqrt(std::real(inner<S>(u, u))), inverse = 1.0 / beta;
        if (!(beta > BREAKDOWN)) return exact = true;
        T(1, steps - 1) = beta;
        for (Index i = 0; i < u.size; i++) u[i] *= inverse;
        hermitian_product_inplace<S>(Q[steps + 1], Q.slice(Q.rows - 4, Q.rows), H, u);
        T(0, steps) = std::real(inner<S>(u, Q[steps + 1]));
    }
    return true;
}

// For T + rho e1 e1' of order `steps`. The first entry is the squared length of exp(T / 2) e1. What the last step contributed is about
// the square of its last component, relative to the first entry. NaN if the iteration fails, inf if the exponential is too large.
template <class S> void Learner<S>::quadrature(double rho, double small) {
    const auto d = T[2], e = T[3], z = T[4], w = T[5];
    std::copy_n(T[0].data, steps, d.data);
    std::copy_n(T[1].data, steps, e.data);
    d[0] += rho;
    const bool converged = tridiagonal_inplace(d, e, z, w, steps, small);
    const double top = *std::max_element(d.data, d.data + steps), size = std::exp(top);
    first = trace = last = 0.0;
    // relative to the largest, so that a start far below the top of H is not taken for nothing
    for (Index i = 0; i < steps; i++) {
        const double x = std::exp(0.5 * (d[i] - top)), y = x * z[i];
        first += y * y;
        trace += x * x;
        last += y * w[i];
    }
    last = last * last / first;
    first *= size, trace *= size;
    if (!converged) first = trace = last = nan;
    else if (top > SAFE) first = nan, trace = last = inf;
}

// p = v* W v from the run that was started, size = |v|^2; false without room
template <class S> bool Learner<S>::predict(double &p, double size) {
    p = 0.0;
    if (size == 0.0) return true;
    T(0, 0) = std::real(inner<S>(Q[0], Q[1]));
    steps = 1;
    Index target = std::max(Index(state[GUESS]), SHORTEST);
    do {
        if (!lengthen(std::min(target, H.rows))) return false;
        quadrature(0.0, 0.0);
        target = steps + 1;
    } while (!(exact || last <= settings[TOL]));
    p = first * size * settings[TRACE] / state[Z];
    return true;
}

// The normaliser after H += rho q q*, from the run of the prediction; false without room. Up to |rho| = 1 its steps are enough. Above, they
// are checked in the same way. The next run starts with as many steps, or with one fewer where these were plenty.
template <class S> bool Learner<S>::settle(double rho) {
    const bool plenty = last <= 1e-4 * settings[TOL] && steps > SHORTEST;
    const double guess = double(steps - plenty);
    double before = trace;
    if (exact || std::abs(rho) <= 1.0) quadrature(rho, COUPLING);
    else {
        for (quadrature(rho, 0.0); !(exact || trace == inf || last <= settings[TOL]); quadrature(rho, 0.0))
            if (!lengthen(std::min(steps + 1, H.rows))) return false;
        const double after = trace;
        quadrature(0.0, COUPLING);
        before = std::exchange(trace, after);
    }
    state[GUESS] = guess;
    state[Z] += trace - before;
    state[PEAK] = std::max(state[PEAK], state[Z]);
    return true;
}

// begin(t) starts a run and returns the size of X_t, add(t, rho) is the change of H.
template <class S> template <class Begin, class Add>
Done Learner<S>::learn(Vector<double> predictions, Vector<const double> y, Begin begin, Add add) {
    for (Index t = 0; t < y.size; t++) {
        if (is_due(state, settings)) return {t, NEEDS_REFRESH};
        const double size = begin(t);
        double &p = predictions[t];
        if (!predict(p, size)) return {t, NEEDS_ROOM};
        const double gap = p - y[t], rho = -settings[ETA] * 2.0 * gap;  // of the squared loss
        if (!(std::abs(rho * size) < inf && p < inf)) return {t, FAILED};
        if (size > 0.0 && !settle(rho * size)) return {t, NEEDS_ROOM};
        state[SINCE] += 1.0;
        account_inplace(state, gap * gap, 2.0 * gap);
        add(t, rho);
    }
    return {y.size, DONE};
}

template <class S> Done Learner<S>::learn_pairs_inplace(
    Vector<double> predictions, Vector<const int64_t> a, Vector<const int64_t> b, Vector<const double> y) {
    const double half = std::sqrt(0.5);
    const auto q = Q[0], u = Q[1];
    const auto begin = [&](Index t) {
        const S *hi = H[a[t]].data, *hj = H[b[t]].data;
        std::fill_n(q.data, q.size, S(0.0));
        q[a[t]] = half, q[b[t]] = -half;
        INDEPENDENT
        for (Index k = 0; k < u.size; k++) u[k] = half * conj(hi[k] - hj[k]);
        return 1.0;
    };
    const auto add = [&](Index t, double rho) {
        const Index i = a[t], j = b[t];
        H(i, i) += 0.5 * rho, H(j, j) += 0.5 * rho;
        H(i, j) -= 0.5 * rho, H(j, i) -= 0.5 * rho;
    };
    return learn(predictions, y, begin, add);
}

template <class S>
Done Learner<S>::learn_vectors_inplace(Vector<double> predictions, Matrix<const S> V, Vector<const double> y) {
    return learn(
        predictions, y, [&](Index t) { return begin(V[t]); },
        [&](Index t, double rho) { add_outer_inplace(H, V[t], rho); });
}

template <class S> Done Learner<S>::predict_vectors_inplace(Vector<double> predictions, Matrix<const S> V) {
    for (Index t = 0; t < predictions.size; t++)
        if (!predict(predictions[t], begin(V[t]))) return {t, NEEDS_ROOM};
    return {predictions.size, DONE};
}

template <class S> Done Learner<S>::add_vectors_inplace(Matrix<const S> V, Vector<const double> rho) {
    for (Index t = 0; t < rho.size; t++) {
        if (!is_in_range(state)) return {t, NEEDS_REFRESH};
        const double size = begin(V[t]);
        if (!(size > 0.0 && rho[t] != 0.0)) continue;
        double p;
        if (!predict(p, size) || !settle(rho[t] * size)) return {t, NEEDS_ROOM};
        add_outer_inplace(H, V[t], rho[t]);
    }
    return {rho.size, DONE};
}

template struct Learner<double>;
template struct Learner<std::complex<double>>;

double tally_pairs_inplace(
    Matrix<double> tally, Vector<const int64_t> a, Vector<const int64_t> b, Vector<const double> y) {
    double gained = 0.0;
    for (Index t = 0; t < y.size; t++) {
        const auto [i, j] = std::minmax(a[t], b[t]);
        tally(i, j) += 1.0;
        const double off = y[t] - tally(j, i);
        tally(j, i) += off / tally(i, j);
        gained += off * (y[t] - tally(j, i));
    }
    return gained;
}

}  // namespace bregmat::lanczos
