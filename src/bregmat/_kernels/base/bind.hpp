// How arguments come from Python. An array must have the dtype, the dimension and the layout that the kernel takes, and be
// writable where the kernel writes; otherwise the call raises TypeError. Nothing is converted: a kernel would write to the copy.
// Whether the shapes of several arguments fit each other is the caller's business.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>

#include "base/arrays.hpp"

namespace nb = nanobind;

namespace bregmat {

// For kernels whose loops threads share.
using WithoutInterpreter = nb::call_guard<nb::gil_scoped_release>;

}  // namespace bregmat

namespace nanobind::detail {

template <class T> struct type_caster<bregmat::Vector<T>> {
    using Array = ndarray<T, ndim<1>, c_contig, device::cpu>;
    NB_TYPE_CASTER(bregmat::Vector<T>, make_caster<Array>::Name)
    make_caster<Array> array;

    bool from_python(handle source, uint8_t, cleanup_list *cleanup) noexcept {
        if (!array.from_python(source, 0, cleanup)) return false;
        value = {array.value.data(), bregmat::Index(array.value.shape(0))};
        return true;
    }
};

template <class T> struct type_caster<bregmat::Matrix<T>> {
    using Array = ndarray<T, ndim<2>, device::cpu>;
    NB_TYPE_CASTER(bregmat::Matrix<T>, make_caster<Array>::Name)
    make_caster<Array> array;

    bool from_python(handle source, uint8_t, cleanup_list *cleanup) noexcept {
        if (source.is_none()) {  // a matrix that is left out; Python passes None only where .none() allows it
            value = {};
            return true;
        }
        if (!array.from_python(source, 0, cleanup)) return false;
        const auto &a = array.value;
        const bregmat::Index rows = a.shape(0), columns = a.shape(1);
        const bregmat::Index stride = rows > 1 && columns > 0 ? a.stride(0) : columns;
        value = {a.data(), rows, columns, stride};
        return rows == 0 || ((columns <= 1 || a.stride(1) == 1) && stride >= columns);
    }
};

// A NamedTuple of Python as a struct whose member function fields() ties all its fields in their order.
template <class T> struct type_caster<T, enable_if_t<std::is_member_function_pointer_v<decltype(&T::fields)>>> {
    NB_TYPE_CASTER(T, const_name("NamedTuple"))

    bool from_python(handle source, uint8_t, cleanup_list *) noexcept {
        const auto read = [&](auto &...field) {
            if (!PyTuple_Check(source.ptr()) || PyTuple_GET_SIZE(source.ptr()) != sizeof...(field)) return false;
            Py_ssize_t i = 0;
            const auto take = [&](auto &one) {
                make_caster<std::remove_reference_t<decltype(one)>> caster;
                if (!caster.from_python(PyTuple_GET_ITEM(source.ptr(), i++), uint8_t(cast_flags::convert), nullptr))
                    return false;
                one = caster.value;
                return true;
            };
            return (take(field) && ...);
        };
        return std::apply(read, value.fields());
    }
};

}  // namespace nanobind::detail
