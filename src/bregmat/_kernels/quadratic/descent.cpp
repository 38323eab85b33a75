#include "quadratic/quadratic.hpp"

namespace bregmat::descent {

std::pair<double, Index> sweep_inplace(
    Vector<double> x, Vector<double> g, Matrix<const double> A, Vector<const double> upper, double relaxation) {
    double gain = 0.0;
    Index changed = 0;
    for (Index i = 0; i < x.size; i++) {
        const double d = A(i, i);
        if (!(d > 0.0)) continue;
        const double next = std::min(std::max(x[i] - relaxation * g[i] / d, 0.0), upper[i]), move = next - x[i];
        if (move == 0.0) continue;
        gain -= move * (g[i] + 0.5 * move * d);
        changed += (x[i] == 0.0) != (next == 0.0) || (x[i] == upper[i]) != (next == upper[i]);
        x[i] = next;
        vectors::add_multiple_inplace(g, A[i], move);
    }
    return {gain, changed};
}

std::tuple<int, Index, Index> inspect(Matrix<const double> A, double tol, double slack) {
    constexpr Index width = 64;
    const Index n = A.rows;
    double largest = 0.0;
    for (Index i = 0; i < n; i++) {
        if (!std::isfinite(A(i, i))) return {NOT_FINITE, i, i};
        largest = std::max(largest, std::abs(A(i, i)));
    }
    const double floor = 1e-14 * largest;
    const Buffer<double> root(n);
    for (Index i = 0; i < n; i++) {
        if (A(i, i) < -floor) return {NOT_DEFINITE, i, i};
        root[i] = std::sqrt(std::max(A(i, i), 0.0));
    }
    for (Index top = 0; top < n; top += width)
        for (Index left = 0; left <= top; left += width)
            for (Index i = top; i < std::min(top + width, n); i++)
                for (Index j = left; j < std::min(left + width, i); j++) {
                    const double a = A(i, j), b = A(j, i), size = root[i] * root[j] + floor;
                    // written so that NaN and infinity fail
                    const bool is_symmetric = std::abs(a - b) <= tol * std::max(size, std::abs(a));
                    if (is_symmetric && std::abs(a) <= (1.0 + slack) * size) continue;
                    const bool is_finite = std::isfinite(a) && std::isfinite(b);
                    return {!is_finite ? NOT_FINITE : is_symmetric ? NOT_DEFINITE : NOT_SYMMETRIC, i, j};
                }
    return {FINE, 0, 0};
}

}  // namespace bregmat::descent
