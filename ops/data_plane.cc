#include "ops/data_plane.h"

#include <limits>
#include <string>
#include <string_view>

#include "ops/chunks.h"
#include "ops/select.h"
#include "runtime/base/log.h"

namespace rueda::core {

namespace {

Status unknown_algorithm(const AlgorithmChoice& choice, size_t rows) {
  return Status(Code::kInvalidArgument, "a batch names row " + std::to_string(choice.algorithm) + " of a table of " +
                                            std::to_string(rows) + " rows");
}

}  // namespace

DataPlane::DataPlane(const Settings& settings) : settings_(settings), rows_(algorithms().begin(), algorithms().end()) {}

Status DataPlane::add_rows(std::span<const Algorithm> rows) {
  for (const Algorithm& row : rows) {
    if (rows_.size() >= std::numeric_limits<uint8_t>::max()) {
      return Status(Code::kInvalidArgument, std::string("row \"") + row.name + "\": the table holds at most 255 rows");
    }
    for (const Algorithm& known : rows_) {
      if (known.kind == row.kind && std::string_view(known.name) == row.name) {
        return Status(Code::kInvalidArgument,
                      std::string(name_of(row.kind)) + " row \"" + row.name + "\" is already in the table");
      }
    }
    rows_.push_back(row);
  }
  return {};
}

Result<AlgorithmChoice> DataPlane::select(const BatchShape& shape) const {
  const auto choice = select_algorithm(rows_, settings_, shape);
  if (choice.ok() && !told_[choice.value().algorithm].load(std::memory_order_relaxed)) tell(choice.value(), shape);
  return choice;
}

void DataPlane::tell(const AlgorithmChoice& choice, const BatchShape& shape) const {
  if (told_[choice.algorithm].exchange(true)) return;
  log(LogLevel::kInfo, "{} of {} bytes takes row {} (ranks: {}, hosts: {}; a row's first time is told)",
      name_of(shape.kind), shape.bytes, algorithm_name(choice.algorithm), shape.ranks, shape.hosts);
}

bool DataPlane::runs_inline(const AlgorithmChoice& choice) const {
  return choice.algorithm < rows_.size() && rows_[choice.algorithm].step != nullptr && is_one_chunk(choice);
}

const char* DataPlane::algorithm_name(uint8_t row) const { return row < rows_.size() ? rows_[row].name : "unknown"; }

Result<StepResult> DataPlane::step(const Call& call, Mesh& mesh, StepState& state) {
  if (!runs_inline(call.choice)) return unknown_algorithm(call.choice, rows_.size());
  return rows_[call.choice.algorithm].step(call, mesh, state);
}

Status DataPlane::run(const Call& call, Mesh& mesh, Deadline deadline) {
  if (call.choice.algorithm >= rows_.size()) return unknown_algorithm(call.choice, rows_.size());
  return rows_[call.choice.algorithm].run(call, mesh, deadline);
}

std::unique_ptr<Executor> make_executor(const Settings& settings) { return std::make_unique<DataPlane>(settings); }

}  // namespace rueda::core
