#include "margin/margin.hpp"

namespace bregmat::smo {

template <class T> static T larger(T a, T b) { return a > b ? a : b; }

template <class T, class TK> std::pair<T, T> Slopes<T, TK>::move_pair(Row Ki, Row Kj, T step) const {
    T high = T(-1e30), low = T(1e30);
    INDEPENDENT
    for (Index t = 0; t < e.size; t++) {
        const T v = e[t] - step * T(Ki[t] - Kj[t]), up = v + may_rise[t], down = v + may_fall[t];
        e[t] = v;
        gain[t] = up;
        high = larger(high, up);
        low = down < low ? down : low;
    }
    return {high, low};
}

template <class T, class TK>
T Slopes<T, TK>::pair_gain(Row Ki, Vector<const T> diagonal, T high, T own, T floor) const {
    T best = T(-1);
    INDEPENDENT
    for (Index t = 0; t < e.size; t++) {
        const T d = larger(high - e[t] - may_fall[t], T(0));
        const T g = d * d / larger(own + diagonal[t] - T(2) * T(Ki[t]), floor);
        gain[t] = g;
        best = larger(best, g);
    }
    return best;
}

template <class T, class TK> std::pair<T, T> Slopes<T, TK>::move_one(Row Ki, Vector<const T> inverse, T step) const {
    T best = T(-1), worst = T(0);
    INDEPENDENT
    for (Index t = 0; t < e.size; t++) {
        const T v = e[t] - step * T(Ki[t]);
        const T d = larger(larger(v + may_rise[t], T(0)), may_fall[t] - v), g = d * d * inverse[t];
        e[t] = v;
        gain[t] = g;
        best = larger(best, g);
        worst = larger(worst, d);
    }
    return {best, worst};
}

template <class T, class TK> Index Slopes<T, TK>::position(T value) const {
    for (Index start = 0; start < gain.size; start += 64) {
        const auto part = gain.slice(start, std::min(start + 64, gain.size));
        int hits = 0;
        for (Index t = 0; t < part.size; t++) hits += part[t] == value;
        for (Index t = 0; hits > 0 && t < part.size; t++)
            if (part[t] == value) return start + t;
    }
    return gain.size - 1;
}

template struct Slopes<float, float>;
template struct Slopes<float, double>;
template struct Slopes<double, double>;

}  // namespace bregmat::smo
