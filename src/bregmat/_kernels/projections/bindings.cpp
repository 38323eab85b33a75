#include "projections/projections.hpp"

#include "base/bind.hpp"

namespace bregmat {

static void bind_outer_rows(nb::module_ m) {
    m.attr("HARD") = int(outer_rows::HARD);
    m.attr("ITAKURA_SAITO") = int(outer_rows::ITAKURA_SAITO);
    m.attr("RELATIVE_ENTROPY") = int(outer_rows::RELATIVE_ENTROPY);
    m.attr("QUADRATIC") = int(outer_rows::QUADRATIC);
    m.def("load_inplace", outer_rows::load_inplace);
    m.def("relaxed", outer_rows::relaxed);
    m.def("null_step", outer_rows::null_step);
    m.def("corrected_step", outer_rows::corrected_step);
}

static void bind_logdet(nb::module_ m) {
    m.def("transposed_product_inplace", logdet::transposed_product_inplace);
    m.def("chol_update_mult_inplace", logdet::chol_update_mult_inplace);
    m.def("rank_one_step", logdet::rank_one_step);
    m.def("rank_two_step", logdet::rank_two_step);
    m.def("spectral_step", logdet::spectral_step);
    m.def("spectrum_of_row_inplace", logdet::spectrum_of_row_inplace);
    m.def("sweep_inplace", logdet::sweep_inplace, nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(),
        nb::arg().none(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg());
}

void bind_projections(nb::module_ module) {
    bind_outer_rows(module.def_submodule("outer_rows"));
    bind_logdet(module.def_submodule("logdet"));
    module.def_submodule("secular").def("solve_inplace", secular::solve_inplace);
    module.def_submodule("eigen_update")
        .def("rotate_ties_inplace", eigen_update::rotate_ties_inplace)
        .def("apply_secular_inplace", eigen_update::apply_secular_inplace)
        .def("rotate_rows_inplace", eigen_update::rotate_rows_inplace)
        .def("rank_one_update_inplace", eigen_update::rank_one_update_inplace)
        .def("exp_along_inplace", eigen_update::exp_along_inplace);
    auto m = module.def_submodule("von_neumann");
    m.attr("FORMS") = nb::make_tuple(int(von_neumann::OUTER), int(von_neumann::DENSE), int(von_neumann::IDENTITY));
    m.def("dense_along_inplace", von_neumann::dense_along_inplace);
    m.def("project_inplace", von_neumann::project_inplace);
    m.def("row_in_basis_inplace", von_neumann::row_in_basis_inplace);
    m.def("sweep_inplace", von_neumann::sweep_inplace);
}

}  // namespace bregmat
