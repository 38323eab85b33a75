// Matrix products and eigenvalues by the BLAS and LAPACK that SciPy brings.
#pragma once
#include "base/views.hpp"

namespace bregmat {

// Pointers that module.cpp takes from scipy.linalg.cython_blas and cython_lapack at import.
template <class T>
using Gemm = void(char *, char *, int *, int *, int *, T *, T *, int *, T *, int *, T *, T *, int *);
template <class T>
using Gemv = void(char *, int *, int *, T *, T *, int *, T *, int *, T *, T *, int *);
struct Blas {
    Gemm<double> *dgemm;
    Gemm<float> *sgemm;
    Gemv<double> *dgemv;
    void (*dsyevd)(char *, char *, int *, double *, int *, double *, double *, int *, int *, int *, int *);
};
extern Blas blas;

enum class Transposed { NO, YES };

// out = A B, or with the flags A' and B'; double and float
template <class T>
void product_inplace(Matrix<T> out, Matrix<const T> A, Matrix<const T> B, Transposed a = Transposed::NO,
                     Transposed b = Transposed::NO);
// out = A v
void product_inplace(Vector<double> out, Matrix<const double> A, Vector<const double> v);
// Eigenvalues, ascending, of a symmetric A (n, n), overwritten: by eigenvectors, in rows, if they are wanted.
void eigh_inplace(Vector<double> values, Matrix<double> A, bool vectors);

}  // namespace bregmat
