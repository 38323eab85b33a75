// Work memory of a kernel: zeros, aligned to a cache line, so that no vector load crosses one; released at the end of the scope.
#pragma once
#include <cstring>
#include <new>

#include "base/views.hpp"

namespace bregmat {

template <class T>
class Buffer {
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
