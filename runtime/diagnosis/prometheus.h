#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "runtime/diagnosis/counters.h"

namespace rueda::core {

/// Returns the counters in Prometheus' text format 0.0.4, each sample with the label `rank`. `algorithm_name` names an
/// algorithm by its index in the table; `memory` is the number of bytes held, by what holds them.
std::string prometheus_text(const Counters& counters, int rank,
                            const std::function<std::string(uint8_t)>& algorithm_name,
                            const std::map<std::string, uint64_t>& memory);

}  // namespace rueda::core
