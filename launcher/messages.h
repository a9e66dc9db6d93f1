#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/base/wire.h"

namespace rueda::core::launcher {

/// What hvdrun and the agent of a host say to each other.
///
///   agent's first bytes:  "\nRUEDA AGENT 1\n"     what a login shell printed before it is skipped
///   then, both ways:      u32 length | u8 type | i32 rank | i64 number | bytes
///
///   hvdrun to agent             rank    number          bytes
///   kStart                      -       -               a StartOrder
///   kInput                      whose   -               for its stdin; none: end of file
///   kSignal                     -       signal          -                 to every rank's process group
///   kTaken                      -       bytes printed   -                 the agent may send as many again
///   kEnd                        -       grace, in ms    -                 SIGTERM to all, SIGKILL after the grace
///   kPing                       -       silence, in ms  -                 answered by kPong; first after kHere
///   kListen                     -       -               RUEDA_NETWORK_INTERFACES; answered by kListening
///   kReach                      -       -               address:port of rank 0's host, by spaces; answered by kReached
///
///   agent to hvdrun
///   kHere                       -       -               an Introduction; its first message
///   kRoute                      -       -               how it reached the store, a clause; before its ranks start
///   kReached                    -       -               the answer to kReach, a clause
///   kListening                  -       port            the numeric addresses that ranks there would offer, by spaces
///   kStarted                    which   pid             -
///   kNotStarted                 which   errno           a sentence
///   kOutput                     whose   1 or 2          what it wrote to stdout or stderr; none: its end
///   kInputTaken                 whose   -1: it is closed, 0
///   kExited                     which   wait status     -                 its output may follow
///   kNote                       -       -               a sentence for the user
///   kDone                       -       -               nothing is left below the agent; after a kStart or kEnd
///   kPong                       -       -               -
///   kCutOff                     -       -               why it ends its ranks, a clause; nothing after it counts
///   kGuardGone                  -       -               why it ends its ranks, a clause; more is to come
///
/// After `silence` without a word from hvdrun an agent ends its ranks, and itself; 0: never. Before the first kPing it
/// waits for kFirstWord.
enum class MessageType : uint8_t {
  kStart = 1,
  kInput = 2,
  kSignal = 3,
  kTaken = 4,
  kEnd = 5,
  kPing = 6,
  kListen = 7,
  kReach = 8,
  kStarted = 65,
  kNotStarted = 66,
  kOutput = 67,
  kInputTaken = 68,
  kExited = 69,
  kNote = 70,
  kDone = 71,
  kHere = 72,
  kRoute = 73,
  kPong = 74,
  kCutOff = 75,
  kGuardGone = 76,
  kListening = 77,
  kReached = 78,
};

struct Message {
  MessageType type{};
  int rank = -1;
  int64_t number = 0;
  std::string bytes;
};

inline constexpr std::string_view kAgentMagic = "\nRUEDA AGENT 1\n";
inline constexpr size_t kMaxMessageBytes = 16u << 20;

/// How many bytes of output the agent may have on the way, so that a slow terminal slows the ranks and not the judge.
inline constexpr int64_t kOutputWindow = 256 << 10;

/// How long an agent waits for hvdrun's first word, the answer to its introduction.
inline constexpr std::chrono::milliseconds kFirstWord{60000};

/// As much of a line is quoted in a sentence.
inline constexpr size_t kMaxQuote = 1000;

/// Who an agent is.
struct Introduction {
  std::string build;                   ///< hvdrun refuses an agent of another build
  std::string version;                 ///< as in `hvdrun --version`
  std::string host;                    ///< what the host calls itself
  int cores = 0;                       ///< usable there
  std::vector<std::string> addresses;  ///< numeric, without loopback
  std::string client;                  ///< the address that ssh came from, or empty
};

std::string encode(const Introduction& introduction);
/// Empty when the bytes are not one.
std::optional<Introduction> decode_introduction(std::string_view bytes);

/// One rank to start.
struct RankOrder {
  int rank = 0;
  std::vector<std::string> environment;  ///< NAME=value, over the job's
};

/// Everything an agent needs to start its ranks.
struct StartOrder {
  std::string build;                     ///< an agent of another build refuses
  std::string directory;                 ///< where the ranks run
  std::string program;                   ///< the file to execute
  std::vector<std::string> arguments;    ///< its name as the user wrote it first; no shell sees them
  std::vector<std::string> environment;  ///< NAME=value, for all ranks
  std::vector<std::string> stores;  ///< address:port, of which the agent takes the first that it reaches; none: no job
  std::string relay_job;            ///< not empty: its ranks share the agent's connection to the store of this job
  std::string key;                  ///< 32 bytes
  int64_t grace_ms = 5000;
  std::vector<RankOrder> ranks;
};

std::string encode(const StartOrder& order);
/// Empty when the bytes are not an order.
std::optional<StartOrder> decode_start_order(std::string_view bytes);

/// The message with its length before it.
std::vector<std::byte> encode(const Message& message);

/// Cuts a stream of bytes into messages. A value of one thread.
class MessageReader {
 public:
  enum class Greeting { kNone, kMagicFirst };
  explicit MessageReader(Greeting greeting) : greeted_(greeting == Greeting::kNone) {}

  void feed(std::span<const std::byte> bytes);
  /// The next whole message. kSystem: the stream is not one of messages, or too long a greeting; read no further.
  Result<std::optional<Message>> next();
  /// The last line that holds anything of what came instead of the magic so far, at most kMaxQuote bytes of it.
  std::string ungreeted() const;

 private:
  Status skip_greeting();

  std::vector<std::byte> buffer_;
  size_t read_ = 0;  // bytes of the buffer that are done with
  bool greeted_;
};

}  // namespace rueda::core::launcher
