#include "graphs/graphs.hpp"

namespace bregmat::simplex {

std::pair<double, double> log_side(Vector<const double> u, Vector<const double> a, Vector<const double> w,
                                   double constant, double t) {
    double shift = constant > 0.0 ? 0.0 : -inf;
    for (Index k = 0; k < u.size; k++)
        if (w[k] > 0.0) shift = std::max(shift, u[k] - t * a[k]);
    if (shift == -inf) return {-inf, 0.0};
    double total = constant * std::exp(-shift), moment = 0.0;
    for (Index k = 0; k < u.size; k++)
        if (w[k] > 0.0) {
            const double e = w[k] * std::exp(u[k] - t * a[k] - shift);
            total += e;
            moment += e * a[k];
        }
    return {shift + std::log(total), -moment / total};
}

std::pair<double, int64_t> balance(Vector<const double> u, Vector<const double> a, Vector<const double> up,
                                   double up_constant, Vector<const double> down, double down_constant, double tol) {
    double left = -inf, right = inf, t = 0.0, last = inf, size = 1e-300, top = -inf, bottom = inf;
    for (Index k = 0; k < a.size; k++) {
        size = std::max(size, std::abs(a[k]));
        top = std::max(top, u[k]);
        bottom = std::min(bottom, u[k]);
    }
    double reach = (10.0 + top - bottom) / size;
    constexpr int64_t most = 300;
    for (int64_t evaluations = 1; evaluations <= most; evaluations++) {
        const auto [above, rise] = log_side(u, a, up, up_constant, t);
        const auto [below, fall] = log_side(u, a, down, down_constant, t);
        if (above == -inf || below == -inf) return {below == -inf ? inf : -inf, evaluations};
        const double value = above - below, slope = rise - fall;
        if (value == 0.0) return {t, evaluations};
        (value > 0.0 ? left : right) = t;
        double change = slope < 0.0 ? -value / slope : std::copysign(inf, value);
        if (std::abs(change) > reach) {
            change = std::copysign(reach, value);
            reach *= 4.0;
        }
        double next = t + change;
        const bool slow = std::abs(value) > 0.5 * last;
        last = std::abs(value);
        if (right - left < inf && (slow || !(left < next && next < right))) next = 0.5 * (left + right);
        if (std::abs(next - t) * size <= tol || next == t) return {next, evaluations};
        t = next;
    }
    return {t, most};
}

}  // namespace bregmat::simplex
