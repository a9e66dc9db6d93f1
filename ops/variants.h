#pragma once
#include <span>
#include <vector>

#include "ops/algorithm.h"
#include "runtime/base/settings.h"

namespace rueda::core {

/// The ways to run a batch of this shape that give the same bits, for rank 0 to try: algorithms, lengths of chunks and
/// kinds of stores. What a setting fixes is the same in all of them. Fewer than two if there is nothing to choose.
///
/// Only algorithms in the canonical order take each other's place, and only they change their chunks. Pure.
std::vector<Variant> variants_of(std::span<const Algorithm> table, const Settings& settings, const BatchShape& shape);

/// The variant, then others that differ from it in how members wait for each other, in how many slots of their lanes
/// they use, or in how many sockets to a peer of another host; the variant alone if there is nothing to choose. What a
/// setting fixes is the same in all of them. Pure.
std::vector<Variant> refinements_of(std::span<const Algorithm> table, const Settings& settings, const BatchShape& shape,
                                    const Variant& variant);

/// The plan of one variant. Returns kUnsupported if the variant cannot serve the shape. Pure.
Result<AlgorithmChoice> plan_variant(std::span<const Algorithm> table, const Settings& settings,
                                     const BatchShape& shape, const Variant& variant);

}  // namespace rueda::core
