#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/abort.h"
#include "runtime/base/deadline.h"
#include "runtime/base/status.h"
#include "runtime/net/channel.h"

namespace rueda::core {

/// What frames of a fabric are for; each is a stream of its own.
enum class FabricPort : int { kStore = 0, kControl = 1 };
inline constexpr int kFabricPorts = 2;

/// What a rank brings when it joins; rank 0's offer reaches all.
inline constexpr size_t kMaxOfferBytes = 256;

struct FabricRequest {
  /// Where the library's own handle of a communicator lies (an MPI_Comm); null: all processes that its launcher
  /// started.
  const void* communicator = nullptr;
  std::vector<int> ranks;  ///< of that communicator, in the new order; empty: all
  std::string host;        ///< ranks with the same one count as local
  std::string offer;       ///< text of at most kMaxOfferBytes
};

/// The processes of a job as a library of the user's site connects them: MPI, through a plug-in. Ranks are those of the
/// job. Everything is taken on by one thread of the library's own, which makes all its calls; functions here return at
/// once and may be called on any thread.
///
///   frames   ordered between two ranks, per port      control, and the store in which the ranks meet
///   bytes    a ChannelSet for each lane               rows over channels
///
/// Nothing goes on once `status` is not ok.
class Fabric {
 public:
  virtual ~Fabric() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual int local_size() const = 0;  ///< ranks that named the same host
  virtual int world_size() const = 0;  ///< processes that the library's launcher started together, of the job or not
  virtual const std::string& offer() const = 0;
  virtual Status status() const = 0;

  /// Called on the fabric's thread, one at a time; may send, and must not wait for the fabric.
  using Handler = std::function<void(int rank, std::vector<std::byte> frame)>;
  /// Frames for `port`, those that have come already included. Once per port until `stop_listening`.
  virtual void listen(FabricPort port, Handler handler) = 0;
  /// When it returns the handler runs no more. Not inside a handler.
  virtual void stop_listening(FabricPort port) = 0;
  /// Takes the frame over; it may be empty, and is at most kMaxFrameBytes and a header long. `rank` is not the own one.
  virtual void send(int rank, FabricPort port, std::vector<std::byte> frame) = 0;
  /// Whether every frame to `rank` has left, or cannot leave any more.
  virtual bool all_sent(int rank, FabricPort port) const = 0;

  /// Ends before the fabric. `abort` outlives it.
  virtual std::unique_ptr<ChannelSet> channel_set(int lane, const Abort& abort) = 0;
  /// Makes every wait in a channel set look again.
  virtual void wake_all() = 0;
};

/// How a plug-in makes one. Any thread.
class FabricSource {
 public:
  /// Waits for all ranks of the request, at most until `deadline`. kInvalidArgument: communicator or ranks are wrong.
  /// kUnsupported: the library of this process is not the plug-in's, or was initialised without what the plug-in
  /// needs; names both. kTimeout: ranks did not come.
  virtual Result<std::shared_ptr<Fabric>> join(const FabricRequest& request, Deadline deadline) = 0;
  /// The library and its version as this process has it, "Open MPI 4.1.4"; not ok: it is not the plug-in's.
  virtual Result<std::string> library() = 0;

 protected:
  ~FabricSource() = default;
};

}  // namespace rueda::core
