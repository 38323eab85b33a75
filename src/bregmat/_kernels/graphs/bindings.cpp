#include "base/bind.hpp"
#include "graphs/cut.hpp"
#include "graphs/elimination.hpp"
#include "graphs/pairs.hpp"
#include "graphs/simplex.hpp"

namespace bregmat {

// An array of NumPy that owns the object `from`, in which its entries lie.
template <class T, class Owner>
static nb::object owned(T *data, std::initializer_list<size_t> shape, Owner *from) {
    const nb::capsule owner(from, [](void *p) noexcept { delete static_cast<Owner *>(p); });
    return nb::cast(nb::ndarray<nb::numpy, T>(data, shape.size(), shape.begin(), owner));
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
    m.def("swap_gains_inplace", cut::swap_gains_inplace);
    m.def("refine_inplace", cut::refine_inplace);
    m.def("curved_inplace", cut::curved_inplace);
    m.def("project_inplace", cut::project_inplace);

    m = module.def_submodule("elimination");
    m.def("eliminate_inplace", [](Vector<double> diagonal, Vector<double> border, Vector<int64_t> terms,
                                  Vector<const int32_t> indptr, Vector<const int32_t> indices,
                                  Vector<const double> data, double share, double rounding) {
        auto *rest = new elimination::Rest(
            elimination::eliminate_inplace(diagonal, border, terms, indptr, indices, data, share, rounding));
        const auto &r = *rest;
        auto *left = new std::vector<int64_t>(r.left);
        const auto numbers = std::tuple(r.corner, r.pivot, r.trace, r.total);
        const nb::object rows = owned(left->data(), {left->size()}, left);
        return nb::tuple(nb::make_tuple(rows, owned(r.block.get(), {size_t(r.rows), size_t(r.columns)}, rest)) +
                         nb::cast(numbers));
    });

    m = module.def_submodule("simplex");
    m.def("log_side", simplex::log_side);
    m.def("balance", simplex::balance);
}

}  // namespace bregmat
