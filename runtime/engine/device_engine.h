#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "runtime/agreement/batch_shape.h"
#include "runtime/base/settings.h"
#include "runtime/base/slot.h"
#include "runtime/base/status.h"
#include "runtime/engine/executor.h"

namespace rueda::core {

/// What a device's engine may ask of the host while it runs one batch. Used by the thread that runs the batch.
class EngineCall {
 public:
  /// The longest message, in bytes, that a member may send to the others. A batch allows each member one such message
  /// besides its numbers of rows; an all-reduce allows two.
  static constexpr size_t kTold = 512;
  /// The bytes of the one further message in a batch that exchanges rows: room for `counts` numbers of 8 bytes, in
  /// whole multiples of kTold.
  static constexpr size_t told_of_counts(size_t counts) {
    return (counts * sizeof(int64_t) + kTold - 1) / kTold * kTold;
  }

  virtual ~EngineCall() = default;
  /// Tells all members of the batch's set what each of them brings. `all` has equally many bytes for each member, in
  /// the order of the team. The caller has filled in its own part. All members call it alike. Fails as an all-reduce
  /// does.
  virtual Status tell_all(std::span<std::byte> all) = 0;
  /// Adds up `count` elements at `memory`, in the host's memory, over these ranks of the epoch, one on each host and
  /// this one among them: in place, by the call's operator, a sum if that is an average, without its scales. All of
  /// them call it alike. Fails as an all-reduce does.
  virtual Status sum_between_hosts(std::byte* memory, int64_t count, std::span<const int> ranks) = 0;
  /// Waits until `ready()`, and asks it about every 0.2 ms at least. Returns kTimeout at the batch's limit, and the
  /// reason for the end of the epoch.
  virtual Status until(const std::function<bool()>& ready) = 0;
};

/// Runs batches in the memory of one kind of device, without the host: as NCCL does. A plug-in brings it; one per
/// epoch. `serves` and `name` belong to any thread, `run` to the thread of the device lane, and the other
/// functions say which thread may call them.
class DeviceEngine {
 public:
  /// Ends what `close` has not ended.
  virtual ~DeviceEngine() = default;
  /// "nccl", as reports call it.
  virtual const char* name() const = 0;
  /// The value of rueda_tensor.device.
  virtual int32_t kind() const = 0;
  /// Returns whether a batch of this shape may run here. Rank 0 asks. Pure.
  virtual bool serves(const BatchShape& shape) const = 0;
  /// A rank that has joined brings null addresses in `call.device->tensors`, or, if it brings nothing, the functions of
  /// host memory.
  ///
  /// Launches the batch and leaves the mark behind it in `call.device->finished`, also if it fails after it has
  /// launched something. Returns false if the batch has to go through the host, on all members alike; then nothing was
  /// launched. After a failure the epoch is over. kPeerLost without a rank: a peer may be lost, and the library does
  /// not know which; the engine then waits for the judge of deaths.
  virtual Result<bool> run(const Call& call, EngineCall& host) = 0;
  /// The epoch has ended: makes what was launched end soon, whatever it waits for. Its outputs are then garbage. Any
  /// thread; does not block.
  virtual void abort() = 0;
  /// Returns why what was launched will not end by itself, if the library knows of it; else ok. Any thread; does not
  /// block.
  virtual Status check() = 0;
  /// The process set is gone, and nothing of it is in flight on this rank. Any thread; does not block.
  virtual void forget(SetId set) = 0;
  /// Gives everything back, after the last `run` and after the last mark was passed or given up. Blocks for a few
  /// seconds at most.
  virtual void close() = 0;
};

/// The settings that concern an engine.
struct DeviceEngineSettings {
  Choice use = Choice::kAuto;  ///< forbidden: not to be used; forced: a set that cannot use it fails
  /// Forced: an all-reduce over several hosts uses the engine inside each host only, and the host's network between
  /// them. Left open, the engine decides.
  Choice hierarchical = Choice::kAuto;
  bool deterministic = false;  ///< sums of floats are taken in the team's bracket; the same on all ranks
};

/// Makes engines. A plug-in's, for the life of the process.
class DeviceEngineSource {
 public:
  /// Makes the engine of one epoch, which the caller owns. Never null. Touches no device yet.
  virtual std::unique_ptr<DeviceEngine> open(const DeviceEngineSettings& settings) = 0;

 protected:
  ~DeviceEngineSource() = default;
};

}  // namespace rueda::core
