"""Array elements, rows and slices in LLVM's language: what numba says in 40 to 150 instructions, in 10 to 40.

Numba keeps in memory what crosses the border of a block, and each array that is indexed, and has LLVM find out that it need not.
Here a variable with one assignment is its value, and fields are taken out of arrays. What comes out of LLVM is the same.
"""

from __future__ import annotations

import operator
from collections import Counter
from typing import Any

import llvmlite.ir as llvm
from numba.core import cgutils, ir, types
from numba.core.compiler_machinery import register_pass
from numba.core.lowering import Lower
from numba.core.typed_passes import NativeLowering
from numba.cpython.builtins import do_minmax
from numba.np.arrayobj import basic_indexing, fix_integer_index, load_item, store_item

from bregmat._kernels.libraries import is_extreme


class _Fields:
    """The fields of an array, by name, as numba's own structures have them; each is taken out once."""

    def __init__(self, context: Any, builder: Any, kind: types.Array, value: Any) -> None:
        self._builder, self._value, self._model = builder, value, context.data_model_manager[kind]

    def __getattr__(self, name: str) -> Any:
        part = self._builder.extract_value(self._value, self._model.get_field_position(name))
        setattr(self, name, part)
        return part


class _Lower(Lower):  # type: ignore[misc]
    """Numba's, but for variables with one assignment and for arrays with indices of integers and slices."""

    def _find_singly_assigned_variable(self) -> None:
        """Those that are set in one place, which every use comes after; numba looks at one block only."""
        super()._find_singly_assigned_variable()
        lifetime, assigned = self.func_ir.variable_lifetime, Counter[str]()
        for block in self.blocks.values():
            assigned.update(one.target.name for one in block.find_insts(ir.Assign))
        single = {name for name, times in assigned.items() if times == 1 and not self._is_counted(name)}
        home = {name: at for at, names in lifetime.usedefs.defmap.items() for name in names & single}
        over = lifetime.cfg.dominators()
        for at, names in lifetime.usedefs.usemap.items():
            for name in names & single:
                if name not in home or home[name] >= at or home[name] not in over[at]:
                    single.discard(name)
        self._singly_assigned_vars |= single

    def _is_counted(self, name: str) -> bool:
        """Whether references to it are."""
        model = self.context.data_model_manager[self.typeof(name)]
        return bool(self.context.enable_nrt and model.contains_nrt_meminfo())

    def delvar(self, name: str) -> None:
        if self._is_counted(name):
            super().delvar(name)

    def storevar(self, value: Any, name: str, argidx: int | None = None) -> None:
        if name in self._singly_assigned_vars or self._is_counted(name):
            super().storevar(value, name, argidx)
        else:
            self.builder.store(value, self.getvar(name))

    def lower_getitem(self, resty: Any, expr: Any, value: Any, index: Any, signature: Any) -> Any:
        kind, (_, index_kind) = self.typeof(value.name), signature.args
        whole_kind = signature.return_type
        if not _is_plain(kind, index_kind) or not (whole_kind == kind.dtype or isinstance(whole_kind, types.Array)):
            return super().lower_getitem(resty, expr, value, index, signature)
        array, pointer, shape, strides = self._place(kind, value, index, index_kind)
        if whole_kind == kind.dtype:
            result = load_item(self.context, self.builder, kind, pointer)
        else:
            result = self._view(whole_kind, array, pointer, shape, strides)
            self.incref(whole_kind, result)
        return self.context.cast(self.builder, result, whole_kind, resty)

    def lower_setitem(self, target_var: Any, index_var: Any, value_var: Any, signature: Any) -> Any:
        kind, (_, index_kind, value_kind) = self.typeof(target_var.name), signature.args
        if not _is_plain(kind, index_kind) or not _is_element(kind, index_kind):
            return super().lower_setitem(target_var, index_var, value_var, signature)
        _, pointer, _, _ = self._place(kind, target_var, index_var, index_kind)
        value = self.loadvar(value_var.name)
        for old, new in ((self.typeof(value_var.name), value_kind), (value_kind, kind.dtype)):
            value = self.context.cast(self.builder, value, old, new)
        store_item(self.context, self.builder, kind, value, pointer)
        return None

    def _lower_call_normal(self, fnty: Any, expr: Any, signature: Any) -> Any:
        if not is_extreme(fnty, signature.args) or expr.vararg or expr.kws:
            return super()._lower_call_normal(fnty, expr, signature)
        values = self.fold_call_args(fnty, signature, expr.args, expr.vararg, expr.kws)
        relation = operator.gt if fnty.typing_key is max else operator.lt
        return do_minmax(self.context, self.builder, signature.args, values, relation)

    def _place(self, kind: Any, array: Any, index: Any, index_kind: Any) -> tuple[Any, Any, Any, Any]:
        """The array's fields, and pointer, shape and strides of what the index stands for."""
        context, builder = self.context, self.builder
        fields = _Fields(context, builder, kind, self.loadvar(array.name))
        at = context.cast(builder, self.loadvar(index.name), self.typeof(index.name), index_kind)
        kinds = _axes(index_kind)
        indices = cgutils.unpack_tuple(builder, at, len(kinds)) if isinstance(index_kind, types.BaseTuple) else [at]
        if kind.layout != "C" or not _is_element(kind, index_kind):
            return fields, *basic_indexing(context, builder, kind, fields, kinds, indices)
        shape, offset = cgutils.unpack_tuple(builder, fields.shape, kind.ndim), None
        for one, position, length in zip(kinds, indices, shape, strict=True):
            place = fix_integer_index(context, builder, one, position, length)
            offset = place if offset is None else builder.add(builder.mul(offset, length), place)
        return fields, builder.gep(fields.data, [offset]), [], []

    def _view(self, kind: Any, array: Any, pointer: Any, shape: list[Any], strides: list[Any]) -> Any:
        context, builder, model = self.context, self.builder, self.context.data_model_manager[kind]
        count = shape[0]
        for length in shape[1:]:
            count = builder.mul(count, length)
        value = llvm.Constant(context.get_value_type(kind), llvm.Undefined)
        for name, part in {
            "meminfo": array.meminfo,
            "parent": array.parent,
            "nitems": count,
            "itemsize": array.itemsize,
            "data": pointer,
            "shape": cgutils.pack_array(builder, shape),
            "strides": cgutils.pack_array(builder, strides),
        }.items():
            value = builder.insert_value(value, part, model.get_field_position(name))
        return value


def _axes(index_kind: Any) -> tuple[Any, ...]:
    """The types of an index, axis by axis."""
    return tuple(getattr(index_kind, "types", (index_kind,)))


def _is_plain(kind: Any, index_kind: Any) -> bool:
    """Whether it is an array, and the index one of integers and slices."""
    return type(kind) is types.Array and all(
        isinstance(one, types.Integer | types.SliceType) for one in _axes(index_kind)
    )


def _is_element(kind: Any, index_kind: Any) -> bool:
    """Whether the index stands for a single number."""
    kinds = _axes(index_kind)
    return len(kinds) == kind.ndim and all(isinstance(one, types.Integer) for one in kinds)


@register_pass(mutates_CFG=True, analysis_only=False)
class ShortLowering(NativeLowering):  # type: ignore[misc]
    """Numba's pass, with :class:`_Lower`."""

    _name = "short_lowering"

    @property
    def lowering_class(self) -> Any:
        return _Lower
