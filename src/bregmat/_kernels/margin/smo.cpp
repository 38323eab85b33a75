#include "margin/margin.hpp"

namespace bregmat::smo {

// Records whether entry t may rise, or fall; closed is what is added to its slope where it may not fall.
template <class T, class TK>
static void open_inplace(const Slopes<T, TK> &slopes, Vector<double> x, Bounds lower, Bounds upper, Index t, T closed) {
    slopes.may_rise[t] = x[t] < upper[t] ? T(0) : T(-1e30);
    slopes.may_fall[t] = x[t] > lower[t] ? T(0) : closed;
}

// What stands for a curvature that is zero, or negative, but for rounding: a few units of that of the largest entry.
template <class T> static T least_curvature(Vector<const T> diagonal) {
    T largest = T(1e-20);
    for (Index t = 0; t < diagonal.size; t++) largest = std::max(largest, std::abs(diagonal[t]));
    return largest * std::numeric_limits<T>::epsilon() * T(4);
}

template <class T, class TK> std::tuple<Index, T, T> pair_descent_inplace(Vector<double> x, Vector<T> e,
    Matrix<const TK> K, Vector<const T> diagonal, Bounds lower, Bounds upper, double tol, Index max_iter) {
    const Buffer<T> memory(3 * x.size);
    const auto rows = memory.matrix(3, x.size);
    const Slopes<T, TK> slopes{e, rows[0], rows[1], rows[2]};
    const T floor = least_curvature(diagonal);
    for (Index t = 0; t < x.size; t++) open_inplace(slopes, x, lower, upper, t, T(1e30));
    Index i = 0, j = 0;
    double step = 0.0;
    for (Index steps = 0;; steps++) {
        const auto [high, low] = slopes.move_pair(K[i], K[j], T(step));
        if (steps >= max_iter || high - low <= tol || high < T(-1e29) || low > T(1e29)) return {steps, high, low};
        i = slopes.position(high);
        j = slopes.position(slopes.pair_gain(K[i], diagonal, high, diagonal[i], floor));
        const T curvature = std::max(diagonal[i] + diagonal[j] - T(2) * T(K(i, j)), floor);
        const double room_i = upper[i] - x[i], room_j = x[j] - lower[j];
        step = std::min({double(high - e[j]) / double(curvature), room_i, room_j});
        x[i] = step == room_i ? upper[i] : x[i] + step;
        x[j] = step == room_j ? lower[j] : x[j] - step;
        for (const Index t : {i, j}) open_inplace(slopes, x, lower, upper, t, T(1e30));
    }
}

template <class T, class TK> std::pair<Index, T> greedy_descent_inplace(Vector<double> x, Vector<T> e,
    Matrix<const TK> K, Vector<const T> diagonal, Bounds lower, Bounds upper, double tol, Index max_iter) {
    const Buffer<T> memory(4 * x.size);
    const auto rows = memory.matrix(4, x.size);
    const Slopes<T, TK> slopes{e, rows[0], rows[1], rows[2]};
    const auto inverse = rows[3];
    const T floor = least_curvature(diagonal);
    for (Index t = 0; t < x.size; t++) {
        open_inplace(slopes, x, lower, upper, t, T(-1e30));
        inverse[t] = T(1) / std::max(diagonal[t], floor);
    }
    Index i = 0;
    double step = 0.0;
    for (Index steps = 0;; steps++) {
        const auto [best, worst] = slopes.move_one(K[i], inverse, T(step));
        if (steps >= max_iter || worst <= tol) return {steps, worst};
        i = slopes.position(best);
        const double target = std::min(std::max(x[i] + double(e[i]) * double(inverse[i]), lower[i]), upper[i]);
        step = target - x[i];
        x[i] = target;
        open_inplace(slopes, x, lower, upper, i, T(-1e30));
    }
}

template decltype(pair_descent_inplace<float, float>) pair_descent_inplace<float, float>;
template decltype(pair_descent_inplace<float, double>) pair_descent_inplace<float, double>;
template decltype(pair_descent_inplace<double, double>) pair_descent_inplace<double, double>;
template decltype(greedy_descent_inplace<float, float>) greedy_descent_inplace<float, float>;
template decltype(greedy_descent_inplace<float, double>) greedy_descent_inplace<float, double>;
template decltype(greedy_descent_inplace<double, double>) greedy_descent_inplace<double, double>;

}  // namespace bregmat::smo
