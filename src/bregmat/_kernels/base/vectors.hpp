// Small routines on vectors and rows that other kernels are made of; matrix products and eigenvalues by SciPy's BLAS and LAPACK.
#pragma once
#include "base/arrays.hpp"

namespace bregmat {

// Functions of scipy.linalg.cython_blas and cython_lapack, which module.cpp looks up at the first call.
template <class T> using Gemm = void(
    const char *, const char *, int *, int *, int *, T *, const T *, int *, const T *, int *, T *, T *, int *);
template <class T>
using Gemv = void(const char *, int *, int *, T *, const T *, int *, const T *, int *, T *, T *, int *);
struct Blas {
    Gemm<double> *dgemm;
    Gemm<float> *sgemm;
    Gemv<double> *dgemv;
    void (*dsyevd)(char *, char *, int *, double *, int *, double *, double *, int *, int *, int *, int *);
};
const Blas &blas();

enum class Transposed { NO, YES };

// out = A B, or with the flags A' and B'; double and float
template <class T> void product_inplace(
    Matrix<T> out, Matrix<const T> A, Matrix<const T> B, Transposed a = Transposed::NO, Transposed b = Transposed::NO);
// out = A v
void product_inplace(Vector<double> out, Matrix<const double> A, Vector<const double> v);
// Eigenvalues, ascending, of a symmetric A (n, n), overwritten: by eigenvectors, in rows, if they are wanted.
void eigh_inplace(Vector<double> values, Matrix<double> A, bool vectors);

namespace vectors {

// vectors_relaxed.cpp: sums in any order
double dot(Vector<const double> a, Vector<const double> b);
// out += weights' A[rows], out (n,), A (m, n), rows and weights (k,). Four rows at a time are added in the type of A and their sum in
// double: a quarter of the traffic of one by one.
template <class T>
void add_rows_inplace(Vector<double> out, Matrix<const T> A, Vector<const int64_t> rows, Vector<const T> weights);

// vectors.cpp
// out += c row, row (>= n,)
void add_multiple_inplace(Vector<double> out, Vector<const double> row, double c);
double sum_of_exp(Vector<const double> lam);
// out = A[rows][:, columns], out (k, l), A (m, n), rows (k,), columns (l,)
template <class T, class S>
void gather_inplace(Matrix<T> out, Matrix<const S> A, Vector<const int64_t> rows, Vector<const int64_t> columns);
// K[:old_size, old_size:new_size] = K[old_size:new_size, :old_size]', K (n, n)
void mirror_inplace(Matrix<float> K, Index old_size, Index new_size);

// out = row, which may be longer
template <class T> void copy_inplace(Vector<T> out, Vector<const T> row) { std::copy_n(row.data, out.size, out.data); }

}  // namespace vectors
}  // namespace bregmat
