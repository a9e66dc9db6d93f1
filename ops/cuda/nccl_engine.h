#pragma once
#include <map>
#include <span>
#include <string>

#include "ops/cuda/communicators.h"
#include "ops/cuda/nccl_batch.h"
#include "ops/cuda/nccl_hierarchical.h"
#include "ops/cuda/nccl_told.h"
#include "ops/cuda/packed_batch.h"
#include "ops/cuda/registrar.h"

namespace rueda::cuda {

/// Runs batches of tensors on GPUs by NCCL. A set uses it if all members have the same version of it and a GPU each;
/// they tell each other so at the set's first batch. Else the set's batches go through the host. If all members have
/// kernels too, many small tensors are packed, and what NCCL does not compute by itself need not go through the host.
class NcclEngine final : public core::DeviceEngine {
 public:
  /// `functions` are the devices', and outlive the process's use of them.
  NcclEngine(Devices& devices, const core::DeviceFunctions& functions, const core::DeviceEngineSettings& settings)
      : devices_(devices),
        functions_(functions),
        settings_(settings),
        communicators_(devices.host()),
        registrar_(devices.host(), communicators_) {}
  ~NcclEngine() override { close(); }
  NcclEngine(const NcclEngine&) = delete;
  NcclEngine& operator=(const NcclEngine&) = delete;
  const char* name() const override { return "nccl"; }
  int32_t kind() const override;
  bool serves(const core::BatchShape& shape) const override;
  Result<bool> run(const core::Call& call, core::EngineCall& host) override;
  void abort() override { communicators_.abort(); }
  Status check() override { return communicators_.check(); }
  void forget(core::SetId set) override { communicators_.forget(set); }
  void close() override;

 private:
  /// For what runs on one GPU.
  struct WorkStream {
    WorkStream(CUstream taken, int32_t gpu, const rueda_host& host) : stream(taken), index(gpu), buffer(host) {}
    CUstream stream;
    int32_t index;                                 ///< of the GPU
    FusionBuffer buffer;                           ///< has memory from the first batch on that needs it
    PinnedPair pinned;                             ///< the same; copies in the stream may still use it
    std::shared_ptr<const core::DeviceMark> last;  ///< behind the latest batch; null before the first
  };
  /// What a set has found out at its first batch.
  struct Use {
    bool nccl = false;
    bool packs = false;
    bool two_levels = false;
    bool registers = false;    ///< all members' NCCL can register memory, and the buffer was not there yet
    Device* device = nullptr;  ///< this rank's for the set
  };
  bool sums_in_order(const core::Call& call) const;
  bool takes_two_levels(const core::Call& call, const Use& use, const NcclBatch& batch) const;
  Told introduce(const core::Call& call, Device& device, Status& usable);
  bool packs(Device& device) const;
  Result<Use> ready(const core::Call& call, core::EngineCall& host);
  Result<Use> meet(const core::Call& call, core::EngineCall& host);
  Status make_communicators(const core::Call& call, const Use& use, std::span<const Told> members,
                            core::EngineCall& host);
  Result<bool> launch(const core::Call& call, Use use, core::EngineCall& host);
  Status prepare_buffer(const core::Call& call, const Use& use, WorkStream& work, core::EngineCall& host);
  Result<bool> launch_alone(const core::Call& call);
  Result<bool> leave_mark(const core::Call& call, WorkStream& work, const Status& launched);
  Status refuse(std::span<const Told> members, const std::vector<int>& ranks, const std::string& why,
                const Status& own) const;
  Result<WorkStream*> stream_of(Device& device, int32_t index);
  static Status order(const core::Call& call, CUstream stream);
  bool idle() const;

  Devices& devices_;
  const core::DeviceFunctions& functions_;
  const core::DeviceEngineSettings settings_;
  Communicators communicators_;
  Registrar registrar_;  ///< the device lane's, as what follows
  std::map<Device*, WorkStream> streams_;
  std::map<core::SetId, Use> uses_;  ///< of sets that have run a batch
};

class NcclSource final : public core::DeviceEngineSource {
 public:
  NcclSource(Devices& devices, const core::DeviceFunctions& functions) : devices_(devices), functions_(functions) {}
  std::unique_ptr<core::DeviceEngine> open(const core::DeviceEngineSettings& settings) override {
    return std::make_unique<NcclEngine>(devices_, functions_, settings);
  }

 private:
  Devices& devices_;
  const core::DeviceFunctions& functions_;
};

}  // namespace rueda::cuda
