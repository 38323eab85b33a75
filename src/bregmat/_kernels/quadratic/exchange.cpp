#include "quadratic/quadratic.hpp"

namespace bregmat::exchange {

using namespace free_factor;

static constexpr double least = 1e-13;  // pivot, relative to the diagonal entry, up to which a variable stays outside
static constexpr double far = 1e13;     // times the largest variable: only rounding ends a step that is longer

// Entry i of g + E' multiplier
static double reduced_gradient(const RunPoint &place, const Quadratic &problem, Index i) {
    double h = place.g[i];
    for (Index r = 0; r < problem.E.rows; r++) h += problem.E(r, i) * place.multiplier[r];
    return h;
}

// The variable outside the free set whose condition is violated most for its weight (-1: none), and its reduced gradient.
static std::pair<Index, double> worst_outside(const RunPoint &place, const FreeSet &free, const Quadratic &problem) {
    double worst = 0.0, at = 0.0;
    Index j = -1;
    for (Index i = 0; i < place.x.size; i++) {
        if (free.position[i] >= 0) continue;
        const double h = reduced_gradient(place, problem, i), size = std::abs(h) * problem.weight[i];
        if (size > worst && ((h < 0.0 && place.x[i] < problem.upper[i]) || (h > 0.0 && place.x[i] > 0.0)))
            worst = size, j = i, at = h;
    }
    return {j, at};
}

// The longest step along d (k,), at most `most`, that keeps x in the box, and the place that blocks it (-1: none). E_F d = 0 says
// that d is 0, but for rounding, on a variable without which E_F would lose its rank: it becomes 0 if it is at most `rounding`.
static std::pair<double, Index> first_blocked_inplace(Vector<double> d, Vector<const double> x, const FreeSet &free,
    const Quadratic &problem, double most, double rounding) {
    while (true) {
        double t = most;
        Index p = -1;
        for (Index i = 0; i < d.size; i++) {
            const Index v = free.order[i];
            if (!(d[i] < 0.0 || d[i] > 0.0)) continue;
            const double room = ((d[i] < 0.0 ? 0.0 : problem.upper[v]) - x[v]) / d[i];
            if (room < t || (room == t && p >= 0 && std::abs(d[i]) > std::abs(d[p]))) t = std::max(room, 0.0), p = i;
        }
        if (p < 0 || problem.E.rows == 0 || std::abs(d[p]) > rounding || !is_needed(free, p)) return {t, p};
        d[p] = 0.0;
    }
}

// x_F += t d inside the box
static void move_inplace(
    Vector<double> x, Vector<const double> d, double t, const FreeSet &free, Vector<const double> upper) {
    for (Index i = 0; i < d.size; i++) {
        const Index v = free.order[i];
        x[v] = std::min(std::max(x[v] + t * d[i], 0.0), upper[v]);
    }
}

// To the minimum on the free set, as far as the box allows; what blocks leaves. False where E_F lost its rank.
static bool centre_inplace(const RunPoint &place, const FreeSet &free, const Quadratic &problem) {
    const Index m = problem.E.rows;
    const Buffer<double> residual(m), memory(free.size[0]);
    for (Index round = 0; round <= free.order.size; round++) {
        if (!constrain_inplace(free, problem)) return false;
        const auto F = free.variables();
        const auto d = memory.vector().slice(0, F.size);
        for (Index r = 0; r < m; r++) residual[r] = place.target[r] - vectors::dot(problem.E[r], place.x);
        for (Index i = 0; i < F.size; i++) d[i] = -place.g[F[i]];
        constrained_solve_inplace(d, place.multiplier, residual.vector(), free, problem);
        for (Index r = 0; r < m; r++) place.multiplier[r] += problem.rho * residual[r];
        const auto [t, p] = first_blocked_inplace(d, place.x, free, problem, 1.0, inf);
        if (t > 0.0) {
            move_inplace(place.x, d, t, free, problem.upper);
            for (Index i = 0; i < F.size; i++) d[i] *= t;
            vectors::add_rows_inplace<double>(place.g, problem.A, F, d);
        }
        if (p < 0) break;
        place.x[F[p]] = d[p] < 0.0 ? 0.0 : problem.upper[F[p]];
        leave_inplace(free, p);
    }
    return true;
}

int run_inplace(const RunPoint &place, Vector<double> direction, Vector<int64_t> counts, const FreeSet &free,
    const Quadratic &problem, double tol, Index most) {
    const auto [x, g, multiplier, target] = place;
    const auto [A, E, upper, weight, rho] = problem;
    const Index m = E.rows, n = x.size, room = free.order.size;
    const Buffer<double> residual(m), mu(m), memory(room), step(n);
    const auto violation = [&](Index i) { return std::abs(reduced_gradient(place, problem, i)) * problem.weight[i]; };
    bool is_central = false;
    for (Index steps = 0; steps < most; steps++) {
        if (!is_central && !centre_inplace(place, free, problem)) return DEFICIENT;
        is_central = true;
        double drift = 0.0;
        for (Index i = 0; i < free.size[0]; i++) drift = std::max(drift, violation(free.order[i]));
        if (drift > tol && !centre_inplace(place, free, problem)) return DEFICIENT;
        counts[0]++;
        auto [j, h] = worst_outside(place, free, problem);
        if (j < 0 || std::abs(h) * weight[j] <= tol) return OPTIMAL;
        if (free.size[0] == room) return FULL;
        const double sign = h > 0.0 ? -1.0 : 1.0;
        bool has_left = false, joins = false, is_kept = false;
        while (true) {
            if (!constrain_inplace(free, problem)) {
                if (!has_left) return DEFICIENT;
                // E_F needs a variable in place of the one that left: j moves along with it, so j is one
                joins = true, is_central = false;
                break;
            }
            if (has_left) {
                h = reduced_gradient(place, problem, j);
                if (!(-sign * h * weight[j] > tol)) {
                    joins = 0.0 < x[j] && x[j] < upper[j];
                    break;
                }
            }
            const auto F = free.variables();
            const auto z = memory.vector().slice(0, F.size);
            entries_inplace(z, F, problem, j);
            for (Index i = 0; i < z.size; i++) z[i] = -z[i];
            for (Index r = 0; r < m; r++) residual[r] = -E(r, j);
            constrained_solve_inplace(z, mu.vector(), residual.vector(), free, problem);
            // curvature along (z, 1) from A itself: that of the factor loses digits where it matters
            vectors::copy_inplace<double>(step.vector(), A[j]);
            vectors::add_rows_inplace<double>(step.vector(), A, F, z);
            double curvature = step[j], size = std::sqrt(A(j, j)), longest = 1.0, reach = 0.0;
            for (Index i = 0; i < z.size; i++) {
                curvature += z[i] * step[F[i]];
                size += std::abs(z[i]) * std::sqrt(A(F[i], F[i]));
                longest = std::max(longest, std::abs(z[i]));
                z[i] *= sign;
            }
            const bool is_falling = curvature < -1e-9 * size * size;
            const double own = sign > 0.0 ? upper[j] - x[j] : x[j];
            const double newton = curvature > 1e-15 * size * size ? std::abs(h) / curvature : inf;
            const auto [t, p] = first_blocked_inplace(z, x, free, problem, std::min(own, newton), 1e-11 * longest);
            for (Index i = 0; i < n; i++) {
                reach = std::max(reach, x[i]);
                is_kept |= direction[i] != 0.0;
            }
            if (is_falling || t == inf || (!is_kept && t * longest > far * reach && far * reach > 0.0)) {
                std::fill_n(direction.data, n, 0.0);
                direction[j] = sign;
                for (Index i = 0; i < z.size; i++) direction[F[i]] = z[i];
                if (is_falling || t == inf) return is_falling ? INDEFINITE : UNBOUNDED;
            }
            if (t > 0.0) {
                move_inplace(x, z, t, free, upper);
                x[j] += sign * t;
                vectors::add_multiple_inplace(g, step.vector(), sign * t);
                for (Index r = 0; r < m; r++) multiplier[r] += sign * t * mu[r];
            }
            if (p < 0) {
                joins = own > newton;
                if (!joins) x[j] = sign > 0.0 ? upper[j] : 0.0;
                break;
            }
            x[F[p]] = z[p] < 0.0 ? 0.0 : upper[F[p]];
            counts[0]++;
            leave_inplace(free, p);
            has_left = true;
        }
        if (joins && !join_inplace(free, problem, j, least) && !is_central) return DEFICIENT;
    }
    return PAUSED;
}

}  // namespace bregmat::exchange
