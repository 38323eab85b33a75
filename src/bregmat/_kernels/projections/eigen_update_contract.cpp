#include "projections/eigen_update.hpp"

namespace bregmat::eigen_update {

void differences_inplace(Vector<double> out, Vector<const double> v, Vector<const double> e, Vector<const double> t,
                         Vector<const double> half, Index shift, Index lanes) {
    const auto v_b = v.from(shift), e_b = e.from(shift), t_b = t.from(shift), half_b = half.from(shift);
    INDEPENDENT
    for (Index a = 0; a < lanes; a++) {
        const double x = v_b[a] - v[a], x2 = x * x;
        // 2 sinh(x / 2) / x, to rounding where the quotient would lose more than two digits
        const double series = 1.0 + x2 * (1.0 / 24.0 + x2 * (1.0 / 1920.0 + x2 * (1.0 / 322560.0)));
        const double near = half[a] * half_b[a] * series, far = t[a] * t_b[a] * ((e_b[a] - e[a]) / x);
        out[a] += x2 < 0.01 ? near : far;
    }
}

}  // namespace bregmat::eigen_update
