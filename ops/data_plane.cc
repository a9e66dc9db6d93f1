// The executor that the engine calls: rank 0 selects, every rank runs what the verdict names.
//
//   rank 0     shape of a batch ─select─▶ choice: index in the table, chunk bytes, stamps ─ verdict ─▶ all ranks
//   all ranks  choice ─▶ table[index].step in a turn, if the batch is one chunk and the algorithm has steps
//                     ─▶ table[index].run on a lane, else; for tensors on a device on copies
//                     ─▶ the device's engine, if the choice allows it and all members can use it
//
// The choice comes over the wire from another process, so an index beyond this rank's table is an error and not a bug.
#include "ops/data_plane.h"

#include <limits>
#include <string>
#include <string_view>

#include "ops/chunks.h"
#include "ops/engine_call.h"
#include "ops/select.h"
#include "ops/variants.h"
#include "runtime/base/log.h"

namespace rueda::core {

namespace {

Status unknown_algorithm(const AlgorithmChoice& choice, size_t size) {
  return Status(Code::kInvalidArgument, "a batch names algorithm " + std::to_string(choice.algorithm) +
                                            ", but this rank's table ends at " + std::to_string(size - 1));
}

std::chrono::microseconds spin_of(const AlgorithmChoice& choice) {
  return choice.sleeps ? std::chrono::microseconds(0) : kSpinBudget;
}

}  // namespace

DataPlane::DataPlane(const Settings& settings)
    : settings_(settings), table_(algorithms().begin(), algorithms().end()) {}

Status DataPlane::add_algorithms(std::span<const Algorithm> more) {
  for (const Algorithm& algorithm : more) {
    // A verdict carries the index in one byte.
    if (table_.size() >= std::numeric_limits<uint8_t>::max()) {
      return Status(Code::kInvalidArgument,
                    std::string("algorithm \"") + algorithm.name + "\" is one too many: the table holds at most 255");
    }
    for (const Algorithm& known : table_) {
      if (known.kind == algorithm.kind && std::string_view(known.name) == algorithm.name) {
        return Status(Code::kInvalidArgument, std::string(name_of(algorithm.kind)) + " algorithm \"" + algorithm.name +
                                                  "\" is already in the table");
      }
    }
    table_.push_back(algorithm);
  }
  return {};
}

Result<AlgorithmChoice> DataPlane::select(const BatchShape& shape) const {
  auto choice = shape.device < 0 ? select_algorithm(table_, settings_, shape) : select_on_device(shape);
  if (choice.ok() && !told_[choice.value().algorithm].load(std::memory_order_relaxed)) tell(choice.value(), shape);
  return choice;
}

/// An algorithm that works in the device's memory if there is one, else what the host's memory would get. A setting
/// that names an algorithm of the host's means the staged ones too. Whether all members can use the device's engine
/// only they can tell, at their set's first batch; so the choice holds the plan for both ways.
Result<AlgorithmChoice> DataPlane::select_on_device(const BatchShape& shape) const {
  auto choice = select_algorithm(table_, settings_, shape);
  if (choice.ok()) return choice;
  choice = select_algorithm(table_, settings_, Staging::piece_shape(shape));
  if (!choice.ok()) return choice;
  AlgorithmChoice staged = choice.value();
  staged.stamps *= static_cast<uint64_t>(Staging::pieces(shape.kind, shape.op, shape.bytes));
  const DeviceEngine* const engine = engine_of(shape.device);
  const bool left_out = settings_.nccl == Choice::kForbid || is_forced(settings_, shape.kind);
  if (engine == nullptr || left_out || !engine->serves(shape)) return staged;
  staged.on_engine = true;
  staged.stamps += HostEngineCall::told_stamps(shape.kind, shape.ranks, shape.tensors);
  return staged;
}

std::vector<Variant> DataPlane::variants(const BatchShape& shape) const {
  return variants_of(table_, settings_, shape);
}

std::vector<Variant> DataPlane::refinements(const BatchShape& shape, const Variant& variant) const {
  return refinements_of(table_, settings_, shape, variant);
}

Result<AlgorithmChoice> DataPlane::plan(const BatchShape& shape, const Variant& variant) const {
  return plan_variant(table_, settings_, shape, variant);
}

/// Any thread may select; `exchange` lets one of them log.
void DataPlane::tell(const AlgorithmChoice& choice, const BatchShape& shape) const {
  if (told_[choice.algorithm].exchange(true)) return;
  log(LogLevel::kInfo, "{} of {} bytes takes algorithm {} (ranks: {}, hosts: {}; told once for each algorithm)",
      name_of(shape.kind), shape.bytes, algorithm_name(choice.algorithm), shape.ranks, shape.hosts);
}

bool DataPlane::runs_inline(const AlgorithmChoice& choice) const {
  return choice.algorithm < table_.size() && table_[choice.algorithm].step != nullptr && is_one_chunk(choice);
}

const char* DataPlane::algorithm_name(uint8_t algorithm) const {
  if (algorithm == kEngineAlgorithm && !engines_.empty()) return engines_.front()->name();
  return algorithm < table_.size() ? table_[algorithm].name : "unknown";
}

Result<StepResult> DataPlane::step(const Call& call, Mesh& mesh, StepState& state) {
  if (!runs_inline(call.choice)) return unknown_algorithm(call.choice, table_.size());
  mesh.spin_for(spin_of(call.choice));
  if (mesh.has_channels()) mesh.channels().use_sockets(call.choice.sockets);
  return table_[call.choice.algorithm].step(call, mesh, state);
}

void DataPlane::show_early(const Call& call, Mesh& mesh) {
  if (!runs_inline(call.choice)) return;
  const Algorithm& algorithm = table_[call.choice.algorithm];
  if (algorithm.show_early != nullptr) algorithm.show_early(call, mesh);
}

Status DataPlane::run(const Call& call, Mesh& mesh, Deadline deadline) {
  mesh.spin_for(spin_of(call.choice));
  if (mesh.has_channels()) mesh.channels().use_sockets(call.choice.sockets);
  if (call.choice.algorithm >= table_.size()) return unknown_algorithm(call.choice, table_.size());
  const Algorithm& algorithm = table_[call.choice.algorithm];
  if (call.device == nullptr || call.device->functions->kind == algorithm.device) {
    return algorithm.run(call, mesh, deadline);
  }
  return run_on_device(call, mesh, deadline);
}

/// The stamps of what members tell each other lie before those of the copies.
Status DataPlane::run_on_device(const Call& call, Mesh& mesh, Deadline deadline) {
  const Algorithm& algorithm = table_[call.choice.algorithm];
  if (!call.choice.on_engine) return staging_.run(algorithm, call, mesh, deadline);
  DeviceEngine* const engine = engine_of(call.device->kind);
  if (engine == nullptr) {
    return {Code::kInvalidArgument, "a batch names the engine of a device, and this rank has none for its tensors"};
  }
  HostEngineCall host(table_, call, mesh, deadline);
  const Result<bool> ran = engine->run(call, host);
  if (!ran.ok()) return ran.status();
  call.device->by_engine = ran.value();
  if (ran.value()) return {};
  Call staged = call;
  const uint64_t told = HostEngineCall::told_stamps(call.kind, call.team->size(), call.slices.size());
  staged.stamp += told;
  staged.choice.stamps -= told;
  return staging_.run(algorithm, staged, mesh, deadline);
}

DeviceEngine* DataPlane::engine_of(int32_t kind) const {
  for (const auto& engine : engines_) {
    if (engine->kind() == kind) return engine.get();
  }
  return nullptr;
}

void DataPlane::abort_devices() {
  for (const auto& engine : engines_) engine->abort();
}

Status DataPlane::check_devices() {
  for (const auto& engine : engines_) RUEDA_RETURN_IF_ERROR(engine->check());
  return {};
}

void DataPlane::forget(SetId set) {
  for (const auto& engine : engines_) engine->forget(set);
}

void DataPlane::close_devices() {
  for (const auto& engine : engines_) engine->close();
}

std::unique_ptr<Executor> make_executor(const Settings& settings) { return std::make_unique<DataPlane>(settings); }

}  // namespace rueda::core
