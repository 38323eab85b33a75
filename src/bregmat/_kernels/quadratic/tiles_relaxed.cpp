#include "quadratic/quadratic.hpp"

namespace bregmat::tiles {

// Rows i ... i + N - 1, as halves of |A| v +- A v: long rows bear four streams at a time.
template <Index N> static void signed_rows_inplace(
    Vector<double> p, Vector<double> q, Matrix<const double> A, Vector<const double> v, Index i) {
    double s[N] = {}, t[N] = {};
    const double *rows[N];
    for (Index k = 0; k < N; k++) rows[k] = A[i + k].data;
    for (Index j = 0; j < v.size; j++)
        for (Index k = 0; k < N; k++) {
            const double x = rows[k][j] * v[j];
            s[k] += x;
            t[k] += std::abs(x);
        }
    for (Index k = 0; k < N; k++) p[i + k] = (t[k] + s[k]) / 2, q[i + k] = (t[k] - s[k]) / 2;
}

void signed_pass_inplace(
    Vector<double> p, Vector<double> q, Matrix<const double> A, Vector<const double> v, Index start, Index stop) {
    Index i = start;
    for (; i + 4 <= stop; i += 4) signed_rows_inplace<4>(p, q, A, v, i);
    for (; i < stop; i++) signed_rows_inplace<1>(p, q, A, v, i);
}

}  // namespace bregmat::tiles
