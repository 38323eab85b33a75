#include "projections/projections.hpp"

namespace bregmat::secular {

void sums_inplace(Matrix<double> sums, Vector<const double> d, Vector<const double> z2, Matrix<const double> roots) {
    const auto s1 = sums[0], s2 = sums[1], s3 = sums[2], size = sums[3];
    const auto pole = roots[0], mu = roots[1];
    for (Index a = 0; a < sums.columns; a++) s1[a] = s2[a] = s3[a] = size[a] = 0.0;
    for (Index i = 0; i < d.size; i += 4) {
        const double d0 = d[i], d1 = d[i + 1], d2 = d[i + 2], d3 = d[i + 3];
        const double w0 = z2[i], w1 = z2[i + 1], w2 = z2[i + 2], w3 = z2[i + 3];
        INDEPENDENT
        for (Index a = 0; a < sums.columns; a++) {
            const double o = pole[a], x = mu[a];
            const double g0 = d0 - o, g1 = d1 - o, g2 = d2 - o, g3 = d3 - o;
            const double r0 = 1.0 / (g0 - x), r1 = 1.0 / (g1 - x), r2 = 1.0 / (g2 - x), r3 = 1.0 / (g3 - x);
            const double t0 = g0 != 0.0 ? w0 * r0 : 0.0, t1 = g1 != 0.0 ? w1 * r1 : 0.0;
            const double t2 = g2 != 0.0 ? w2 * r2 : 0.0, t3 = g3 != 0.0 ? w3 * r3 : 0.0;
            const double u0 = t0 * r0, u1 = t1 * r1, u2 = t2 * r2, u3 = t3 * r3, t = (t0 + t1) + (t2 + t3);
            s1[a] += t;
            s2[a] += (u0 + u1) + (u2 + u3);
            s3[a] += (u0 * r0 + u1 * r1) + (u2 * r2 + u3 * r3);
            size[a] += std::abs(t);
        }
    }
}

}  // namespace bregmat::secular
