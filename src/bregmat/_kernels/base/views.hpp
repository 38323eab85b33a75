// Views of arrays that Python, or a Buffer, owns. Copying a view copies no entries.
//
// No header has a function that computes with floating-point numbers: it would be compiled under the flags of several files,
// and the linker keeps any one of the copies.
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>

// The next loop's iterations are independent. Only where the arrays that it writes overlap nothing that it reads.
#if defined(__clang__)
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define INDEPENDENT _Pragma("GCC ivdep")
#else
#define INDEPENDENT
#endif

namespace bregmat {

using Index = std::ptrdiff_t;

template <class T>
struct Vector {
    T *data = nullptr;
    Index size = 0;

    T &operator[](Index i) const { return data[i]; }
    Vector slice(Index start, Index stop) const { return {data + start, stop - start}; }
    Vector from(Index start) const { return slice(start, size); }
    explicit operator bool() const { return data != nullptr; }
    operator Vector<const T>() const { return {data, size}; }
};

// Rows of contiguous entries; row i starts at data + i * stride.
template <class T>
struct Matrix {
    T *data = nullptr;
    Index rows = 0, columns = 0, stride = 0;

    Matrix() = default;
    Matrix(T *data, Index rows, Index columns) : Matrix(data, rows, columns, columns) {}
    Matrix(T *data, Index rows, Index columns, Index stride)
        : data(data), rows(rows), columns(columns), stride(stride) {}

    Vector<T> operator[](Index i) const { return {data + i * stride, columns}; }
    T &operator()(Index i, Index j) const { return data[i * stride + j]; }
    Matrix slice(Index start, Index stop) const { return {data + start * stride, stop - start, columns, stride}; }
    explicit operator bool() const { return data != nullptr; }
    operator Matrix<const T>() const { return {data, rows, columns, stride}; }
};

}  // namespace bregmat
