// Rows and work arrays as tuples of Python.
#pragma once
#include "base/bind.hpp"
#include "projections/boost.hpp"
#include "projections/outer_rows.hpp"
#include "projections/secular.hpp"

NAMED_TUPLE(OuterRows)
NAMED_TUPLE(RowBounds)
NAMED_TUPLE(outer_rows::Row)
NAMED_TUPLE(EigenWork)
NAMED_TUPLE(Boosted)
