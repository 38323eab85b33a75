#include "quadratic/quadratic.hpp"

#include "base/bind.hpp"

namespace bregmat {

void bind_quadratic(nb::module_ module) {
    auto m = module.def_submodule("free_factor");
    m.def("gather_upper_inplace", free_factor::gather_upper_inplace);
    m.def("join_inplace", free_factor::join_inplace);
    m.def("leave_inplace", free_factor::leave_inplace);
    m.def("constrain_inplace", free_factor::constrain_inplace);
    m.def("is_needed", free_factor::is_needed);
    m.def("constrained_solve_inplace", free_factor::constrained_solve_inplace);
    m = module.def_submodule("exchange");
    m.attr("OPTIMAL") = int(exchange::OPTIMAL);
    m.attr("DEFICIENT") = int(exchange::DEFICIENT);
    m.attr("FULL") = int(exchange::FULL);
    m.attr("PAUSED") = int(exchange::PAUSED);
    m.attr("UNBOUNDED") = int(exchange::UNBOUNDED);
    m.attr("INDEFINITE") = int(exchange::INDEFINITE);
    m.def("run_inplace", exchange::run_inplace);
    m = module.def_submodule("descent");
    m.attr("NOT_FINITE") = int(descent::NOT_FINITE);
    m.attr("NOT_SYMMETRIC") = int(descent::NOT_SYMMETRIC);
    m.attr("NOT_DEFINITE") = int(descent::NOT_DEFINITE);
    m.def("sweep_inplace", descent::sweep_inplace);
    m.def("inspect", descent::inspect);
    m = module.def_submodule("tiles");
    m.def("signed_pass_inplace", tiles::signed_pass_inplace, WithoutInterpreter{});
}

}  // namespace bregmat
