#pragma once
#include <cstddef>
#include <span>
#include <string>

#include "runtime/agreement/request.h"

namespace rueda::core {

/// What a rank that has joined contributes to a collective: the input that, encoded and scaled as the operation says,
/// changes no result of the others. Sums take -0 (so that a sum of -0 stays one), products 1, a minimum the largest
/// value and a maximum the smallest, bitwise "and" all ones.
///
/// Returns empty if there is such an input, else why not, as the end of a sentence: "broadcast needs every member".
/// Pure; equal on all ranks.
std::string why_no_neutral(const Metadata& metadata);
/// Fills `elements`, a whole number of them, with that input. Call it only if `why_no_neutral` returns empty.
void fill_neutral(const Metadata& metadata, std::span<std::byte> elements);

}  // namespace rueda::core
