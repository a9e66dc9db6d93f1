#pragma once
#include <array>
#include <atomic>
#include <memory>
#include <vector>

#include "ops/algorithm.h"
#include "ops/staging.h"
#include "runtime/base/settings.h"
#include "runtime/engine/device_engine.h"

namespace rueda::core {

/// The executor over the table of algorithms: chooses by `select_algorithm`, runs an algorithm by its functions, and
/// logs (at info) the first choice of each. Nothing else in it changes once the epoch forms, so any thread may call
/// `select`, `runs_inline` and `algorithm_name`; `step` and `run` belong to the holder of the mesh's token.
class DataPlane : public Executor {
 public:
  explicit DataPlane(const Settings& settings);
  /// Appends a plug-in's algorithms, the same in the same order on all ranks; what they point to outlives the executor.
  /// One thread calls it before the executor is used. Returns kInvalidArgument if the table has that name for the same
  /// kind already, or would grow beyond 255 algorithms.
  Status add_algorithms(std::span<const Algorithm> more);
  /// Adds the engine of a kind of device, the same on all ranks; one thread, before the executor is used.
  void add_engine(std::unique_ptr<DeviceEngine> engine) { engines_.push_back(std::move(engine)); }
  std::span<const Algorithm> table() const { return table_; }

  Result<AlgorithmChoice> select(const BatchShape& shape) const override;
  std::vector<Variant> variants(const BatchShape& shape) const override;
  std::vector<Variant> refinements(const BatchShape& shape, const Variant& variant) const override;
  Result<AlgorithmChoice> plan(const BatchShape& shape, const Variant& variant) const override;
  bool runs_inline(const AlgorithmChoice& choice) const override;
  const char* algorithm_name(uint8_t algorithm) const override;
  Result<StepResult> step(const Call& call, Mesh& mesh, StepState& state) override;
  Status run(const Call& call, Mesh& mesh, Deadline deadline) override;
  void show_early(const Call& call, Mesh& mesh) override;
  void abort_devices() override;
  Status check_devices() override;
  void forget(SetId set) override;
  void close_devices() override;

 private:
  Result<AlgorithmChoice> select_on_device(const BatchShape& shape) const;
  DeviceEngine* engine_of(int32_t kind) const;
  Status run_on_device(const Call& call, Mesh& mesh, Deadline deadline);
  void tell(const AlgorithmChoice& choice, const BatchShape& shape) const;

  Settings settings_;
  std::vector<Algorithm> table_;
  std::vector<std::unique_ptr<DeviceEngine>> engines_;
  Staging staging_;                                    ///< the device lane's thread
  mutable std::array<std::atomic<bool>, 256> told_{};  ///< by index in the table
};

/// The data plane of this build with the given settings. `check_forced_algorithms` (ops/select.h) says at init whether
/// the algorithms they force exist.
std::unique_ptr<Executor> make_executor(const Settings& settings);

}  // namespace rueda::core
