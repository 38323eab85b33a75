#include "graphs/graphs.hpp"

namespace bregmat::pairs {

// Two pairs at a time, the last one twice where their number is odd: an addition does not wait for the one before it.
template <class Sum, class T> static void sums_of_squares_inplace(Vector<double> out, Matrix<const T> Z,
    Vector<const int32_t> a, Vector<const int32_t> b, Vector<const int8_t> sign) {
    for (Index i = 0; i < a.size; i += 2) {
        const Index j = std::min(i + 1, a.size - 1);
        const T *za = Z[a[i]].data, *zb = Z[b[i]].data, *ya = Z[a[j]].data, *yb = Z[b[j]].data;
        const T s = sign[i], t = sign[j];
        Sum first = 0, second = 0;
        for (Index k = 0; k < Z.columns; k++) {
            const T d = za[k] + s * zb[k], e = ya[k] + t * yb[k];
            first += d * d;
            second += e * e;
        }
        out[i] = first, out[j] = second;
    }
}
template <class T> void sq_norms_inplace(Vector<double> out, Matrix<const T> Z, Vector<const int32_t> a,
    Vector<const int32_t> b, Vector<const int8_t> sign) {
    (Z.columns <= 128 ? sums_of_squares_inplace<T, T> : sums_of_squares_inplace<double, T>)(out, Z, a, b, sign);
}

template <class T> void bilinear_inplace(Vector<T> out, Matrix<const T> Z, Matrix<const T> Y, Vector<const int32_t> a,
    Vector<const int32_t> b, Vector<const int8_t> sign) {
    for (Index i = 0; i < a.size; i++) {
        const T *za = Z[a[i]].data, *zb = Z[b[i]].data, *ya = Y[a[i]].data, *yb = Y[b[i]].data, s = sign[i];
        T total = 0;
        for (Index k = 0; k < Z.columns; k++) total += (za[k] + s * zb[k]) * (ya[k] + s * yb[k]);
        out[i] = total;
    }
}

// Four terms at a time, the last ones filled up with weight 0: a row of the sum is loaded and stored once for all of them.
template <class T> void laplacian_product_inplace(Matrix<T> out, Vector<const int64_t> ptr, Vector<const int32_t> other,
    Vector<const int8_t> sign, Vector<const T> w, Matrix<const T> Z, Index start, Index stop) {
    for (Index u = start; u < stop; u++) {
        T *row = out[u].data;
        const T *zu = Z[u].data;
        const int64_t last = ptr[u + 1];
        std::fill_n(row, out.columns, T(0));
        for (int64_t q = ptr[u]; q < last; q += 4) {
            T f[4], g[4];
            const T *z[4];
            for (int64_t t = 0; t < 4; t++) {
                const int64_t at = std::min(q + t, last - 1);
                f[t] = q + t < last ? w[at] : T(0);
                g[t] = f[t] * T(sign[at]);
                z[t] = Z[other[at]].data;
            }
            const T f0 = f[0], f1 = f[1], f2 = f[2], f3 = f[3], g0 = g[0], g1 = g[1], g2 = g[2], g3 = g[3];
            const T *z0 = z[0], *z1 = z[1], *z2 = z[2], *z3 = z[3];
            INDEPENDENT
            for (Index k = 0; k < out.columns; k++) {
                const T x = zu[k];
                row[k] +=
                    ((f0 * x + g0 * z0[k]) + (f1 * x + g1 * z1[k])) + ((f2 * x + g2 * z2[k]) + (f3 * x + g3 * z3[k]));
            }
        }
    }
}

template decltype(sq_norms_inplace<double>) sq_norms_inplace<double>;
template decltype(sq_norms_inplace<float>) sq_norms_inplace<float>;
template decltype(bilinear_inplace<double>) bilinear_inplace<double>;
template decltype(bilinear_inplace<float>) bilinear_inplace<float>;
template decltype(laplacian_product_inplace<double>) laplacian_product_inplace<double>;
template decltype(laplacian_product_inplace<float>) laplacian_product_inplace<float>;

}  // namespace bregmat::pairs
