#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace rueda::test {

/// Which way bytes go through a proxy: up from who dialled to who listens, or down.
enum class Flow { kUp, kDown };

/// How a connection ends at the cut.
enum class CutKind {
  kFin,    ///< both sides see the end of the stream
  kHalf,   ///< who reads this flow sees its end; the other flow goes on
  kReset,  ///< both sides see a reset
};

/// The end of one connection: after exactly `after_bytes` bytes of `flow` have gone through.
struct Cut {
  Flow flow = Flow::kUp;
  size_t after_bytes = 0;
  CutKind kind = CutKind::kFin;
};

/// Stands between those who dial its port and a port of 127.0.0.1. It watches one connection, the first that begins
/// with a given byte: this one it records, and cuts where it is told to. All others go through whole. What both sides
/// do to a connection, ends and resets, passes through as well. Runs its own thread, which ends with it, as do all
/// connections. Functions may be called on any thread.
class FaultProxy {
 public:
  struct Options {
    uint16_t target = 0;             ///< 0: told later, before anybody dials (`lead_to`)
    std::optional<char> first = {};  ///< first byte of the connection that is watched; none: the first connection
    std::optional<Cut> cut = {};
  };
  /// Throws std::system_error where there is no port to be had.
  explicit FaultProxy(const Options& options);
  ~FaultProxy();
  FaultProxy(const FaultProxy&) = delete;
  FaultProxy& operator=(const FaultProxy&) = delete;

  uint16_t port() const;
  void lead_to(uint16_t target);
  /// Whether the cut has been made.
  bool has_cut() const;
  /// What has gone this way through the watched connection.
  std::string recorded(Flow flow) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rueda::test
