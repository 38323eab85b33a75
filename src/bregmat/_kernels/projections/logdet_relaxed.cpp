#include "projections/projections.hpp"

namespace bregmat::logdet {

void transposed_product_inplace(Vector<double> w, Matrix<const double> Bt, Vector<const double> v) {
    for (Index j = 0; j + 4 <= v.size; j += 4) {  // four columns at a time share the loads of v
        const Index k = j / 8 * 8;
        const auto column0 = Bt[j].from(k), column1 = Bt[j + 1].from(k), column2 = Bt[j + 2].from(k),
                   column3 = Bt[j + 3].from(k);
        const auto tail = v.from(k);
        double total0 = 0.0, total1 = 0.0, total2 = 0.0, total3 = 0.0;
        for (Index i = 0; i < tail.size; i++) {
            const double x = tail[i];
            total0 += column0[i] * x;
            total1 += column1[i] * x;
            total2 += column2[i] * x;
            total3 += column3[i] * x;
        }
        w[j] = total0, w[j + 1] = total1, w[j + 2] = total2, w[j + 3] = total3;
    }
}

// The page takes the rows of B one by one and runs down the columns of each with one sum. Here the sums s of all rows run side by
// side: the same operations in another order, of which the processor can do several at a time.
void chol_update_mult_inplace(Matrix<double> Bt, Vector<double> w, double alpha, Vector<const double> x,
    Vector<const double> v, Vector<double> h, Vector<double> g, Vector<double> s) {
    const Index r = x.size;
    double a = alpha;
    for (Index j = 0; j < r; j++) {
        const double t = 1.0 + a * x[j] * x[j];
        a /= t;
        h[j] = std::sqrt(t);
        g[j] = a * x[j];
        s[j] = 0.0;
    }
    for (Index j = r - 2; j >= 0; j -= 2) {
        const Index k = j / 8 * 8;
        const auto left = Bt[j].from(k), right = Bt[j + 1].from(k), sums = s.from(k);
        const auto tail = v.from(k);
        const double g0 = g[j], g1 = g[j + 1], h0 = h[j], h1 = h[j + 1], x0 = x[j], x1 = x[j + 1];
        double total0 = 0.0, total1 = 0.0;
        INDEPENDENT
        for (Index i = 0; i < tail.size; i++) {
            const double old0 = left[i], old1 = right[i], before = sums[i];
            const double after = before + old1 * x1;
            const double new1 = (old1 + g1 * before) * h1;
            const double new0 = (old0 + g0 * after) * h0;
            right[i] = new1, left[i] = new0;
            sums[i] = after + old0 * x0;
            total0 += new0 * tail[i];
            total1 += new1 * tail[i];
        }
        w[j] = total0, w[j + 1] = total1;
    }
}

}  // namespace bregmat::logdet
