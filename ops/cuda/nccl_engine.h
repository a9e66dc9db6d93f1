#pragma once
#include <map>
#include <span>
#include <string>

#include "ops/cuda/communicators.h"
#include "ops/cuda/nccl_hierarchical.h"

namespace rueda::cuda {

struct Told;

/// Runs batches of tensors on GPUs by NCCL. A set uses it if all members have the same version of it and a GPU each;
/// they tell each other so at the set's first batch. Else the set's batches go through the host.
class NcclEngine final : public core::DeviceEngine {
 public:
  NcclEngine(Devices& devices, const core::DeviceEngineSettings& settings)
      : devices_(devices), settings_(settings), communicators_(devices.host()) {}
  ~NcclEngine() override { close(); }
  NcclEngine(const NcclEngine&) = delete;
  NcclEngine& operator=(const NcclEngine&) = delete;
  const char* name() const override { return "nccl"; }
  int32_t kind() const override;
  bool serves(const core::BatchShape& shape) const override;
  Result<bool> run(const core::Call& call, core::EngineCall& host) override;
  void abort() override { communicators_.abort(); }
  void forget(core::SetId set) override { communicators_.forget(set); }
  void close() override;

 private:
  /// For what runs on one GPU.
  struct WorkStream {
    CUstream stream;
    std::shared_ptr<const core::DeviceMark> last;  ///< behind the latest batch; null before the first
  };
  bool two_levels(const core::Team& team) const;
  Told introduce(const core::Team& team, const Device& device, Status& usable);
  Result<bool> ready(const core::Call& call, const Device& device, core::EngineCall& host);
  Status refuse(std::span<const Told> members, const std::vector<int>& ranks, const std::string& why,
                const Status& own) const;
  Result<WorkStream*> stream_of(Device& device);
  static Status order(const core::Call& call, CUstream stream);
  bool idle() const;

  Devices& devices_;
  const core::DeviceEngineSettings settings_;
  Communicators communicators_;
  PinnedPair pinned_;  ///< the device lane's, as the next
  std::map<Device*, WorkStream> streams_;
  std::map<core::SetId, bool> uses_;  ///< of sets that have run a batch: whether by NCCL
};

class NcclSource final : public core::DeviceEngineSource {
 public:
  explicit NcclSource(Devices& devices) : devices_(devices) {}
  std::unique_ptr<core::DeviceEngine> open(const core::DeviceEngineSettings& settings) override {
    return std::make_unique<NcclEngine>(devices_, settings);
  }

 private:
  Devices& devices_;
};

}  // namespace rueda::cuda
