// Rows as tuples of Python.
#pragma once
#include "base/bind.hpp"
#include "projections/outer_rows.hpp"

NAMED_TUPLE(OuterRows)
NAMED_TUPLE(RowBounds)
NAMED_TUPLE(outer_rows::Row)
