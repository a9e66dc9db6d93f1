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

/// What a frame of a fabric is for. Each port is a stream of its own.
enum class FabricPort : int { kStore = 0, kControl = 1 };
inline constexpr int kFabricPorts = 2;

/// The longest text a rank may offer when it joins. Rank 0's offer reaches every rank.
inline constexpr size_t kMaxOfferBytes = 256;

struct FabricRequest {
  /// Points to the library's own handle of a communicator (an MPI_Comm). Null means all processes that the library's
  /// launcher started.
  const void* communicator = nullptr;
  std::vector<int> ranks;  ///< ranks of that communicator in their new order; empty means all
  std::string host;        ///< ranks with the same host count as local
  std::string offer;       ///< text of at most kMaxOfferBytes
};

/// The processes of a job, connected by a library of the user's site: MPI, through a plug-in. Ranks are those of the
/// job. One thread of the fabric makes all calls to the library; functions here hand it their work, return at once and
/// may be called on any thread.
///
///   frames   ordered between two ranks, per port      for control, and for the store in which the ranks meet
///   bytes    a ChannelSet for each lane               for the algorithms over channels
///
/// Nothing moves any more once `status` is not ok.
class Fabric {
 public:
  virtual ~Fabric() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual int local_size() const = 0;  ///< ranks that named the same host
  virtual int world_size() const = 0;  ///< all processes that the library's launcher started, in the job or not
  virtual const std::string& offer() const = 0;
  virtual Status status() const = 0;

  /// The fabric's thread calls handlers one at a time. A handler may send; it must not wait for the fabric.
  using Handler = std::function<void(int rank, std::vector<std::byte> frame)>;
  /// Gives every frame for `port` to the handler, including those that have come already. Called at most once per port
  /// until `stop_listening`.
  virtual void listen(FabricPort port, Handler handler) = 0;
  /// Blocks until the handler has returned; it is not called again. Not to be called inside a handler.
  virtual void stop_listening(FabricPort port) = 0;
  /// Takes the frame over. It may be empty, and is at most kMaxFrameBytes and a header long. `rank` is another rank.
  virtual void send(int rank, FabricPort port, std::vector<std::byte> frame) = 0;
  /// Returns true if every frame to `rank` has left or cannot leave any more.
  virtual bool all_sent(int rank, FabricPort port) const = 0;

  /// The set ends before the fabric; `abort` outlives the set.
  virtual std::unique_ptr<ChannelSet> channel_set(int lane, const Abort& abort) = 0;
  /// Makes every wait in a channel set look at its condition again.
  virtual void wake_all() = 0;
};

/// What a plug-in makes a fabric with. Any thread.
class FabricSource {
 public:
  /// Waits for all ranks of the request, at most until `deadline`. Returns kInvalidArgument if communicator or ranks
  /// are wrong; kUnsupported if the library in this process is not the plug-in's, or was initialised without what the
  /// plug-in needs (the sentence names both); kTimeout if ranks did not come.
  virtual Result<std::shared_ptr<Fabric>> join(const FabricRequest& request, Deadline deadline) = 0;
  /// Returns the library of this process and its version, "Open MPI 4.1.4". Not ok if it is not the plug-in's library.
  virtual Result<std::string> library() = 0;

 protected:
  ~FabricSource() = default;
};

}  // namespace rueda::core
