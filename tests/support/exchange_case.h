#pragma once
#include <cstdint>
#include <vector>

#include "runtime/engine/executor.h"

namespace rueda::core {

struct CollectiveCase;

/// The bytes of an exchanged tensor as one member has them, and how it deals them out, by a formula: members have
/// different numbers of rows, some none.
struct ExchangeInput {
  std::vector<int64_t> parts;    ///< as in `Slice`
  std::vector<std::byte> bytes;  ///< of all parts
};
ExchangeInput exchange_input(const CollectiveCase& test, const Team& team, int member, size_t tensor);

/// Takes what arrives at one member. Used by that member's thread.
class Arrived : public Arrivals {
 public:
  explicit Arrived(const CollectiveCase& test) : case_(test) {}
  std::byte* place(size_t tensor, std::span<const int64_t> rows) override;
  /// By tensor; what never arrived is empty.
  std::vector<std::vector<std::byte>> tensors;

 private:
  const CollectiveCase& case_;
};

/// What must arrive at `team.index`, by tensor.
std::vector<std::vector<std::byte>> expected_arrivals(const CollectiveCase& test, const Team& team);

}  // namespace rueda::core
