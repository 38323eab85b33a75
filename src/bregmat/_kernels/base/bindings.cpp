#include "base/bind.hpp"
#include "base/vectors.hpp"

namespace bregmat {

void bind_base(nb::module_ module) {
    auto m = module.def_submodule("vectors");
    m.def("dot", vectors::dot);
    m.def("add_rows_inplace", vectors::add_rows_inplace<double>);
    m.def("add_rows_inplace", vectors::add_rows_inplace<float>);
    m.def("gather_inplace", vectors::gather_inplace<double, double>);
    m.def("gather_inplace", vectors::gather_inplace<float, float>);
    m.def("gather_inplace", vectors::gather_inplace<float, double>);
    m.def("gather_inplace", vectors::gather_inplace<double, float>);
    m.def("mirror_inplace", vectors::mirror_inplace);
}

}  // namespace bregmat
