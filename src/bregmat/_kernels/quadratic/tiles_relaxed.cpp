#include "quadratic/quadratic.hpp"

namespace bregmat::tiles {

template <class T> void packed_pass_inplace(Matrix<T> P, Matrix<T> Q, Matrix<const T> tiles,
    Matrix<const int64_t> places, Vector<const T> v, Index start, Index stop) {
    const Index size = tiles.columns, count = places.columns;
    for (Index part = start; part < stop; part++) {
        std::fill_n(P[part].data, P.columns, T(0));
        std::fill_n(Q[part].data, Q.columns, T(0));
        for (Index t = count * part / P.rows; t < count * (part + 1) / P.rows; t++) {
            const Index row = places(0, t) * size, column = places(1, t) * size;
            const auto out = (places(2, t) ? P : Q)[part];
            const T *rows = &v[row], *columns = &v[column];
            T *out_rows = &out[row], *out_columns = &out[column];
            // One row at a time: memory is read in a single stream, which is worth more than the registers that four would save.
            for (Index i = 0; i < size; i++) {
                const T *k = &tiles(t * size + i, 0), x = rows[i];
                T sum = 0;
                if (row == column) {
                    for (Index j = 0; j < size; j++) sum += k[j] * columns[j];
                } else {  // the entries, read once, serve their rows and their columns
                    INDEPENDENT
#pragma GCC unroll 4
                    for (Index j = 0; j < size; j++) {
                        sum += k[j] * columns[j];
                        out_columns[j] += k[j] * x;
                    }
                }
                out_rows[i] += sum;
            }
        }
    }
}

// Rows i ... i + N - 1, as halves of |A| v +- A v: long rows bear four streams at a time.
template <Index N, class T>
static void signed_rows_inplace(Vector<T> p, Vector<T> q, Matrix<const T> A, Vector<const T> v, Index i) {
    T s[N] = {}, t[N] = {};
    const T *rows[N];
    for (Index k = 0; k < N; k++) rows[k] = A[i + k].data;
    for (Index j = 0; j < v.size; j++)
        for (Index k = 0; k < N; k++) {
            const T x = rows[k][j] * v[j];
            s[k] += x;
            t[k] += std::abs(x);
        }
    for (Index k = 0; k < N; k++) p[i + k] = (t[k] + s[k]) / 2, q[i + k] = (t[k] - s[k]) / 2;
}

template <class T>
void signed_pass_inplace(Vector<T> p, Vector<T> q, Matrix<const T> A, Vector<const T> v, Index start, Index stop) {
    Index i = start;
    for (; i + 4 <= stop; i += 4) signed_rows_inplace<4>(p, q, A, v, i);
    for (; i < stop; i++) signed_rows_inplace<1>(p, q, A, v, i);
}

template decltype(packed_pass_inplace<double>) packed_pass_inplace<double>;
template decltype(packed_pass_inplace<float>) packed_pass_inplace<float>;
template decltype(signed_pass_inplace<double>) signed_pass_inplace<double>;
template decltype(signed_pass_inplace<float>) signed_pass_inplace<float>;

}  // namespace bregmat::tiles
