#include "margin/margin.hpp"

#include "base/bind.hpp"

namespace bregmat {

void bind_margin(nb::module_ module) {
    auto m = module.def_submodule("smo");
    m.def("pair_descent_inplace", smo::pair_descent_inplace<float, float>);
    m.def("pair_descent_inplace", smo::pair_descent_inplace<float, double>);
    m.def("pair_descent_inplace", smo::pair_descent_inplace<double, double>);
    m.def("greedy_descent_inplace", smo::greedy_descent_inplace<float, float>);
    m.def("greedy_descent_inplace", smo::greedy_descent_inplace<float, double>);
    m.def("greedy_descent_inplace", smo::greedy_descent_inplace<double, double>);

    m = module.def_submodule("kernel_rows");
    m.attr("CHUNK") = kernel_rows::CHUNK;
    m.attr("HALF") = kernel_rows::HALF;
    m.def("exp_row_inplace", kernel_rows::exp_row_inplace<float>);
    m.def("exp_row_inplace", kernel_rows::exp_row_inplace<double>);
    m.def("gaussian_block_inplace", kernel_rows::gaussian_block_inplace<float>, WithoutInterpreter{});
    m.def("gaussian_block_inplace", kernel_rows::gaussian_block_inplace<double>, WithoutInterpreter{});
    m.def("gaussian_near_rows_inplace", kernel_rows::gaussian_near_rows_inplace, WithoutInterpreter{});
    m.def("gaussian_sums_inplace", kernel_rows::gaussian_sums_inplace, WithoutInterpreter{});
}

}  // namespace bregmat
