#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "runtime/diagnosis/counters.h"

namespace rueda::core {

/// Returns the labels that tell whose a sample is: `rank="1"`, or in an elastic job `rank="1",worker="2",plan="3"`.
std::string prometheus_labels(int rank, int64_t worker, uint64_t plan);
/// Returns the counters in Prometheus' text format 0.0.4, each sample with these labels. `algorithm_name` names an
/// algorithm by its index in the table; `memory` is the number of bytes held, by what holds them.
std::string prometheus_text(const Counters& counters, const std::string& labels,
                            const std::function<std::string(uint8_t)>& algorithm_name,
                            const std::map<std::string, uint64_t>& memory);

}  // namespace rueda::core
