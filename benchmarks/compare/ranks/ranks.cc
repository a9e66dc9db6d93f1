// What a library without shared tensors says.
#include "benchmarks/compare/ranks/ranks.h"

#include <stdexcept>

namespace rueda::compare {

std::byte* Ranks::allocate_shared(size_t) { throw std::runtime_error(library() + " has no memory that ranks share"); }
void Ranks::free_shared(std::byte*) {}

}  // namespace rueda::compare
