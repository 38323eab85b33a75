// Views of arrays that Python, or a Buffer, owns. Copying a view copies no entries.
//
// No header has a function that computes with floating-point numbers: it would be compiled under the flags of several files,
// and the linker keeps any one of the copies.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <new>
#include <tuple>
#include <utility>

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
constexpr double inf = std::numeric_limits<double>::infinity();

template <class T> struct Vector {
    T *data = nullptr;
    Index size = 0;

    T &operator[](Index i) const { return data[i]; }
    Vector slice(Index start, Index stop) const { return {data + start, stop - start}; }
    Vector from(Index start) const { return slice(start, size); }
    explicit operator bool() const { return data != nullptr; }
    operator Vector<const T>() const { return {data, size}; }
};

// Rows of contiguous entries; row i starts at data + i * stride.
template <class T> struct Matrix {
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

// Work memory of a kernel: zeros, aligned to a cache line, so that no vector load crosses one; released at the end of the scope.
template <class T> class Buffer {
  public:
    explicit Buffer(Index size) : size_(size), data_(static_cast<T *>(::operator new(size * sizeof(T), line))) {
        std::memset(static_cast<void *>(data_), 0, size * sizeof(T));
    }
    Buffer(const Buffer &) = delete;
    Buffer &operator=(const Buffer &) = delete;
    ~Buffer() { ::operator delete(data_, line); }

    T &operator[](Index i) const { return data_[i]; }
    Vector<T> vector() const { return {data_, size_}; }
    Matrix<T> matrix(Index rows, Index columns) const { return {data_, rows, columns}; }

  private:
    static constexpr std::align_val_t line{64};
    Index size_;
    T *data_;
};

}  // namespace bregmat
