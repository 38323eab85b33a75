#include "graphs/graphs.hpp"

#include "base/bind.hpp"

namespace bregmat {

// The arrays of NumPy that are returned own the object in which their entries lie.
static nb::tuple eliminate_inplace(Vector<double> diagonal, Vector<double> border, Vector<int64_t> terms,
    Vector<const int32_t> indptr, Vector<const int32_t> indices, Vector<const double> data, double share,
    double rounding) {
    auto *rest = new elimination::Rest(
        elimination::eliminate_inplace(diagonal, border, terms, indptr, indices, data, share, rounding));
    const nb::capsule owner(rest, [](void *p) noexcept { delete static_cast<elimination::Rest *>(p); });
    const nb::ndarray<nb::numpy, int64_t> left(rest->left.data(), {rest->left.size()}, owner);
    const nb::ndarray<nb::numpy, double> block(rest->block.get(), {size_t(rest->rows), size_t(rest->columns)}, owner);
    return nb::make_tuple(left, block, rest->corner, rest->pivot, rest->trace, rest->total);
}

void bind_graphs(nb::module_ module) {
    auto m = module.def_submodule("pairs");
    m.def("sq_norms_inplace", pairs::sq_norms_inplace<double>, WithoutInterpreter{});
    m.def("sq_norms_inplace", pairs::sq_norms_inplace<float>, WithoutInterpreter{});
    m.def("bilinear_inplace", pairs::bilinear_inplace<double>, WithoutInterpreter{});
    m.def("bilinear_inplace", pairs::bilinear_inplace<float>, WithoutInterpreter{});
    m.def("laplacian_product_inplace", pairs::laplacian_product_inplace<double>, WithoutInterpreter{});
    m.def("laplacian_product_inplace", pairs::laplacian_product_inplace<float>, WithoutInterpreter{});
    m.def("adjacency_inplace", pairs::adjacency_inplace);

    m = module.def_submodule("cut");
    m.def("refine_inplace", cut::refine_inplace);
    m.def("curved_inplace", cut::curved_inplace);

    m = module.def_submodule("elimination");
    m.def("eliminate_inplace", eliminate_inplace);
}

}  // namespace bregmat
