#include "streams/streams.hpp"

namespace bregmat::lanczos {

using Complex = std::complex<double>;

template <class S> S inner(Vector<const S> u, Vector<const S> v) {
    const Index half = u.size / 2;
    S left = 0.0, right = 0.0;  // two sums: an addition need not wait for the one before it
    for (Index i = 0; i < half; i++) {
        left += conj(u[i]) * v[i];
        right += conj(u[half + i]) * v[half + i];
    }
    if (u.size % 2 == 1) left += conj(u[2 * half]) * v[2 * half];
    return left + right;
}

// Blocks of four rows; the rows that do not fill one come first, where they are shortest. Innermost loops are on the K = 1 or 2 real
// numbers of an entry: sums[k] are products of rows with right[k], and above[k] sums of rows with f[k]. The real and the imaginary
// part of a complex h q are the products of the real numbers of h with those of conj(q) and of i conj(q).
template <class S> void hermitian_product_inplace(Vector<S> out, Matrix<S> work, Matrix<const S> H, Vector<const S> q) {
    constexpr int K = sizeof(S) / sizeof(double);
    const auto reals = [](const S &x) { return reinterpret_cast<const double *>(&x); };
    const double *right[2] = {reals(q[0])};
    double *above[2] = {reinterpret_cast<double *>(out.data)};
    std::fill_n(out.data, q.size, 0.0);
    if constexpr (K == 2)
        for (int k = 0; k < K; k++) {
            right[k] = reals(work(k, 0)), above[k] = reinterpret_cast<double *>(&work(2 + k, 0));
            for (Index j = 0; j < q.size; j++) {
                work(k, j) = k == 0 ? conj(q[j]) : S(q[j].imag(), q[j].real());
                work(2 + k, j) = 0.0;
            }
        }
    const Index head = q.size % 4;
    for (Index m = 0; m < head; m++)
        for (Index k = 0; k < head; k++) out[m] += H(m, k) * q[k];
    for (Index i = head; i < q.size; i += 4) {
        const double *h[4];
        double f[K][4], sums[K][4] = {};
        for (int m = 0; m < 4; m++) {
            h[m] = reals(H(i + m, 0));
            for (int k = 0; k < K; k++) f[k][m] = reals(q[i + m])[k];
        }
        INDEPENDENT
        for (Index j = 0; j < K * (i + 4); j++) {
            const double a0 = h[0][j], a1 = h[1][j], a2 = h[2][j], a3 = h[3][j];
            double x[K];
            for (int k = 0; k < K; k++) x[k] = right[k][j];
            // first what is stored: gcc would otherwise load the rows twice
            for (int k = 0; k < K; k++) above[k][j] += (f[k][0] * a0 + f[k][1] * a1) + (f[k][2] * a2 + f[k][3] * a3);
            for (int k = 0; k < K; k++)
                sums[k][0] += a0 * x[k], sums[k][1] += a1 * x[k], sums[k][2] += a2 * x[k], sums[k][3] += a3 * x[k];
        }
        for (int k = 0; k < K; k++) {  // the diagonal block is in the sums as a whole, and counts once
            std::fill_n(above[k] + K * i, K * 4, 0.0);
            for (int m = 0; m < 4; m++) reinterpret_cast<double *>(&out[i + m])[k] = sums[k][m];
        }
    }
    if constexpr (K == 2)
        for (Index j = 0; j < q.size; j++) out[j] += conj(work(2, j)) + S(0.0, 1.0) * conj(work(3, j));
}

template <class S> void add_outer_inplace(Matrix<S> H, Vector<const S> v, double c) {
    for (Index i = 0; i < v.size; i++) {
        S *h = &H(i, 0);
        const S f = c * v[i];
        INDEPENDENT
        for (Index k = 0; k < v.size; k++) h[k] += f * conj(v[k]);
    }
}

template decltype(inner<double>) inner<double>;
template decltype(inner<Complex>) inner<Complex>;
template decltype(hermitian_product_inplace<double>) hermitian_product_inplace<double>;
template decltype(hermitian_product_inplace<Complex>) hermitian_product_inplace<Complex>;
template decltype(add_outer_inplace<double>) add_outer_inplace<double>;
template decltype(add_outer_inplace<Complex>) add_outer_inplace<Complex>;

}  // namespace bregmat::lanczos
