#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "runtime/diagnosis/counters.h"

namespace rueda::core {

/// The counters in Prometheus' text format 0.0.4, each sample with the label `rank`. `algorithm_name` names a row of
/// the algorithm table; `memory` says by kind how many bytes are held.
std::string prometheus_text(const Counters& counters, int rank,
                            const std::function<std::string(uint8_t)>& algorithm_name,
                            const std::map<std::string, uint64_t>& memory);

}  // namespace rueda::core
