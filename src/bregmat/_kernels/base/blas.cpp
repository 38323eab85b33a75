#include "base/blas.hpp"

#include "base/buffer.hpp"

namespace bregmat {

Blas blas;

static void gemm(char *ta, char *tb, int *m, int *n, int *k, double *one, const double *A, int *lda, const double *B,
                 int *ldb, double *zero, double *C, int *ldc) {
    blas.dgemm(ta, tb, m, n, k, one, const_cast<double *>(A), lda, const_cast<double *>(B), ldb, zero, C, ldc);
}
static void gemm(char *ta, char *tb, int *m, int *n, int *k, float *one, const float *A, int *lda, const float *B,
                 int *ldb, float *zero, float *C, int *ldc) {
    blas.sgemm(ta, tb, m, n, k, one, const_cast<float *>(A), lda, const_cast<float *>(B), ldb, zero, C, ldc);
}

template <class T>
void product_inplace(Matrix<T> out, Matrix<const T> A, Matrix<const T> B, Transposed a, Transposed b) {
    // BLAS stores matrices by columns: it is given out' = B' A'.
    int m = int(out.rows), n = int(out.columns), k = int(a == Transposed::YES ? A.rows : A.columns);
    int lda = int(A.stride), ldb = int(B.stride), ldc = int(out.stride);
    T one = 1, zero = 0;
    char ta = a == Transposed::YES ? 'T' : 'N', tb = b == Transposed::YES ? 'T' : 'N';
    if (m > 0 && n > 0) gemm(&tb, &ta, &n, &m, &k, &one, B.data, &ldb, A.data, &lda, &zero, out.data, &ldc);
}
template void product_inplace(Matrix<double>, Matrix<const double>, Matrix<const double>, Transposed, Transposed);
template void product_inplace(Matrix<float>, Matrix<const float>, Matrix<const float>, Transposed, Transposed);

void product_inplace(Vector<double> out, Matrix<const double> A, Vector<const double> v) {
    int m = int(A.rows), n = int(A.columns), lda = int(A.stride), step = 1;
    double one = 1.0, zero = 0.0;
    char t = 'T';
    blas.dgemv(&t, &n, &m, &one, const_cast<double *>(A.data), &lda, const_cast<double *>(v.data), &step, &zero,
               out.data, &step);
}

void eigh_inplace(Vector<double> values, Matrix<double> A, bool vectors) {
    int n = int(A.rows), stride = int(A.stride), info = 0;
    int lwork = vectors ? 1 + 6 * n + 2 * n * n : 2 * n + 1, liwork = vectors ? 3 + 5 * n : 1;
    Buffer<double> work(lwork);
    Buffer<int> iwork(liwork);
    char job = vectors ? 'V' : 'N', part = 'L';
    blas.dsyevd(&job, &part, &n, A.data, &stride, values.data, &work[0], &lwork, &iwork[0], &liwork, &info);
}

}  // namespace bregmat
