#include "margin/margin.hpp"

namespace bregmat::violators {

static double larger(double a, double b) { return a > b ? a : b; }
static double smaller(double a, double b) { return a < b ? a : b; }

Four slopes_inplace(Vector<double> slope, Values x, Values f, Values signs, Values ridge, Values lower, Values upper,
                    Vector<const bool> inside) {
    double high = -FAR, low = FAR, high_inside = -FAR, low_inside = FAR;
    INDEPENDENT
    for (Index t = 0; t < x.size; t++) {
        const double e = signs[t] - f[t] - ridge[t] * x[t];
        const double up = x[t] < upper[t] ? e : -FAR, down = x[t] > lower[t] ? e : FAR;
        slope[t] = e;
        high = larger(high, up);
        low = smaller(low, down);
        high_inside = larger(high_inside, up - FAR * (1 - inside[t]));
        low_inside = smaller(low_inside, down + FAR * (1 - inside[t]));
    }
    return {high, low, high_inside, low_inside};
}

Index violations_inplace(Vector<double> worse, Values slope, Values x, Values lower, Values upper,
                         Vector<const bool> inside, double shift, double least) {
    Index count = 0;
    INDEPENDENT
    for (Index t = 0; t < x.size; t++) {
        const double e = slope[t] - shift, up = x[t] < upper[t] ? e : -FAR, down = x[t] > lower[t] ? -e : -FAR;
        const double v = larger(larger(up, down) - FAR * inside[t], 0.0);
        worse[t] = v;
        count += v > least;
    }
    return count;
}

Six objectives(Values x, Values f, Values signs, Values upper, Values ridge, double shift) {
    double q = 0.0, total = 0.0, squares = 0.0, linear = 0.0, quadratic = 0.0, margin = FAR;
    for (Index t = 0; t < x.size; t++) {
        const double m = signs[t] * (f[t] + shift), slack = larger(1.0 - m, 0.0);
        q += x[t] * f[t];
        total += signs[t] * x[t];
        squares += ridge[t] * x[t] * x[t];
        linear += upper[t] * slack;
        quadratic += 0.5 * slack * slack / (ridge[t] > 0.0 ? ridge[t] : FAR);
        margin = smaller(margin, m);
    }
    return {q, total, squares, linear, quadratic, margin};
}

}  // namespace bregmat::violators
