#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/cutoff.h"
#include "runtime/base/status.h"
#include "runtime/net/transport.h"
#include "runtime/net/transport_epoch.h"

namespace rueda::core {

/// `Transport` over TCP: one port for control and data.
///
///   dialler (higher rank)                        listener (lower rank, coordinator thread)
///     'D' ── keyed hello, both directions ──▶      data: fd handed to the lane's channel set
///     'C' ── TLS 1.3 with the job key, hello ─▶    control: frames (u32 length, bytes) both ways
///
/// Parses nothing but the hello of an unproven peer. Holds at most 64 such peers, each for 2 s and 1 KiB; a 65th drives
/// out the oldest. A rank of the job that is driven out dials again, with growing pauses.
///
/// Threads: `listen`, `configure`, `connect_control`, `watch`, `poll` and the destructor on the coordinator thread
/// (before the epoch starts, on the thread that forms it). `channel_set` on any one thread. `wake_all` on any thread.
/// Destroy the channel sets and control links before the transport.
class TcpTransport : public Transport {
 public:
  /// Listens on each of `addresses` (numeric, at least one) with one port that the kernel chooses. Connections wait in
  /// the kernel until `connect_control` or `poll` runs. Returns kSystem with address and errno, kInvalidArgument if an
  /// address is not numeric or there is none.
  static Result<std::unique_ptr<TcpTransport>> listen(const std::vector<std::string>& addresses);
  ~TcpTransport() override;

  uint16_t port() const;
  const std::vector<std::string>& addresses() const;

  /// Call it once, after the endpoints are known and before anything below. Returns kSystem if OpenSSL refused the key.
  Status configure(TransportEpoch epoch);
  /// Makes the control connections to `ranks`, which may be empty: dials the lower ones, waits for the higher ones to
  /// dial. Blocks. While it waits, it calls `given_up` about twice a second for each rank that is still missing: the
  /// status says why that rank will not come, and is ok if nothing is known. Returns that status; kTimeout with the
  /// ranks that did not come or the addresses tried; `fault`; the reason of `cutoff`, unless that is null, as soon as
  /// it is raised; otherwise as `dial`.
  Status connect_control(std::span<const int> ranks, Deadline deadline, const std::function<Status(int)>& given_up,
                         const Cutoff* cutoff = nullptr);

  std::unique_ptr<ControlLink> control_link(int rank) override;
  std::unique_ptr<ChannelSet> channel_set(int lane, const Abort& abort) override;
  void wake_all() override;
  void poll(std::chrono::nanoseconds limit) override;
  void watch(int fd, std::function<void()> on_ready) override;
  void unwatch(int fd) override;
  Status fault() const override;
  std::vector<SilentPath> silent_paths(std::chrono::nanoseconds limit) override;

 private:
  struct State;
  explicit TcpTransport(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace rueda::core
