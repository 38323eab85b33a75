#include "base/vectors.hpp"

namespace bregmat {

template <class T>
void product_inplace(Matrix<T> out, Matrix<const T> A, Matrix<const T> B, Transposed a, Transposed b) {
    // BLAS stores matrices by columns: it is given out' = B' A'.
    int m = int(out.rows), n = int(out.columns), k = int(a == Transposed::YES ? A.rows : A.columns);
    int lda = int(A.stride), ldb = int(B.stride), ldc = int(out.stride);
    T one = 1, zero = 0;
    const char *ta = a == Transposed::YES ? "T" : "N", *tb = b == Transposed::YES ? "T" : "N";
    if (m == 0 || n == 0) return;
    if constexpr (std::is_same_v<T, float>)
        blas().sgemm(tb, ta, &n, &m, &k, &one, B.data, &ldb, A.data, &lda, &zero, out.data, &ldc);
    else blas().dgemm(tb, ta, &n, &m, &k, &one, B.data, &ldb, A.data, &lda, &zero, out.data, &ldc);
}
template void product_inplace(Matrix<double>, Matrix<const double>, Matrix<const double>, Transposed, Transposed);
template void product_inplace(Matrix<float>, Matrix<const float>, Matrix<const float>, Transposed, Transposed);

void product_inplace(Vector<double> out, Matrix<const double> A, Vector<const double> v) {
    int m = int(A.rows), n = int(A.columns), lda = int(A.stride), step = 1;
    double one = 1.0, zero = 0.0;
    blas().dgemv("T", &n, &m, &one, A.data, &lda, v.data, &step, &zero, out.data, &step);
}

void eigh_inplace(Vector<double> values, Matrix<double> A, bool vectors) {
    int n = int(A.rows), stride = int(A.stride), info = 0;
    int lwork = vectors ? 1 + 6 * n + 2 * n * n : 2 * n + 1, liwork = vectors ? 3 + 5 * n : 1;
    Buffer<double> work(lwork);
    Buffer<int> iwork(liwork);
    char job = vectors ? 'V' : 'N', part = 'L';
    blas().dsyevd(&job, &part, &n, A.data, &stride, values.data, &work[0], &lwork, &iwork[0], &liwork, &info);
}

namespace vectors {

void add_multiple_inplace(Vector<double> out, Vector<const double> row, double c) {
    INDEPENDENT
#pragma GCC unroll 4
    for (Index t = 0; t < out.size; t++) out[t] += c * row[t];
}

double sum_of_exp(Vector<const double> lam) {
    double total = 0.0;
    for (Index i = 0; i < lam.size; i++) total += std::exp(lam[i]);
    return total;
}

template <class T, class S>
void gather_inplace(Matrix<T> out, Matrix<const S> A, Vector<const int64_t> rows, Vector<const int64_t> columns) {
    for (Index i = 0; i < rows.size; i++) {
        const auto target = out[i];
        const auto source = A[rows[i]];
        for (Index j = 0; j < columns.size; j++) target[j] = T(source[columns[j]]);
    }
}

void mirror_inplace(Matrix<float> K, Index old_size, Index new_size) {
    constexpr Index width = 64;
    float tile[width][width];  // columns of K share cache sets
    for (Index i0 = old_size; i0 < new_size; i0 += width)
        for (Index j0 = 0; j0 < old_size; j0 += width) {
            const Index i1 = std::min(i0 + width, new_size), j1 = std::min(j0 + width, old_size);
            for (Index i = i0; i < i1; i++)
                for (Index j = j0; j < j1; j++) tile[j - j0][i - i0] = K(i, j);
            for (Index j = j0; j < j1; j++) std::copy_n(tile[j - j0], i1 - i0, &K(j, i0));
        }
}

template decltype(gather_inplace<double, double>) gather_inplace<double, double>;
template decltype(gather_inplace<float, float>) gather_inplace<float, float>;
template decltype(gather_inplace<float, double>) gather_inplace<float, double>;
template decltype(gather_inplace<double, float>) gather_inplace<double, float>;

}  // namespace vectors
}  // namespace bregmat
