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

/// The messages between hvdrun and the agent of a host. All integers are little-endian.
///
///   agent's first bytes:  "\nRUEDA AGENT 1\n"     hvdrun skips all that a login shell printed before
///   then, both ways:      u32 length | u8 type | i32 rank | i64 number | bytes
///                         `length` counts what follows it
///
///   hvdrun to agent             rank    number          bytes
///   kStart                      -       -               a StartOrder
///   kInput                      rank    -               for the rank's stdin; empty at the end of the file
///   kSignal                     -       signal          -                 to the process group of each rank
///   kTaken                      -       bytes printed   -                 the agent may send as many again
///   kEnd                        -       grace, in ms    -                 SIGTERM to all, SIGKILL after the grace
///   kPing                       -       silence, in ms  -                 answered by kPong; the first follows kHere
///   kStartOne                   rank    -               a RankOrder, to follow a StartOrder that lasts
///   kEndOne                     rank    grace, in ms    -                 as kEnd, for this rank alone
///   kListen                     -       -               RUEDA_NETWORK_INTERFACES; answered by kListening
///   kReach                      -       -               address:port of rank 0's host, by blanks; see kReached
///
///   agent to hvdrun
///   kHere                       -       -               an Introduction; the agent's first message
///   kRoute                      -       -               a clause: how the agent reached the store; before kStarted
///   kReached                    -       -               a clause: the answer to kReach
///   kListening                  -       port or 0       numeric addresses at which ranks there listen, by blanks
///   kStarted                    rank    pid             -
///   kNotStarted                 rank    errno           a sentence
///   kOutput                     rank    1 or 2          bytes of stdout (1) or stderr (2); empty at its end
///   kInputTaken                 rank    0 or -1         -                 0: the piece is written; -1: stdin is closed
///   kExited                     rank    wait status     -                 output of the rank may still follow
///   kStopped                    rank    signal, or 0    -                 it is stopped; 0: it goes on
///   kNote                       -       -               a sentence for the user
///   kDone                       -       -               no process is left below; only after kStart or kEnd
///   kPong                       -       -               -
///   kCutOff                     -       -               a clause: why the agent ends its ranks; its last word
///   kGuardGone                  -       -               a clause: why the agent ends its ranks; more may follow
///   kPreempted                  -       -               -                 its host is about to go; only after kStart
///
/// If hvdrun sends nothing for `silence`, an agent ends its ranks and itself; 0 means never. Until the first kPing that
/// limit is kFirstWord.
enum class MessageType : uint8_t {
  kStart = 1,
  kInput = 2,
  kSignal = 3,
  kTaken = 4,
  kEnd = 5,
  kPing = 6,
  kListen = 7,
  kReach = 8,
  kStartOne = 9,
  kEndOne = 10,
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
  kStopped = 79,
  kPreempted = 80,
};

/// A message of either direction; fields that its type does not use keep these values.
struct Message {
  MessageType type{};
  int rank = -1;
  int64_t number = 0;
  std::string bytes;
};

inline constexpr std::string_view kAgentMagic = "\nRUEDA AGENT 1\n";
inline constexpr size_t kMaxMessageBytes = 16u << 20;

/// How many bytes of output an agent may send ahead of what hvdrun has printed. The bound lets a slow terminal slow the
/// ranks and not the messages behind the output.
inline constexpr int64_t kOutputWindow = 256 << 10;

/// How long an agent waits for the first kPing, the answer to its introduction.
inline constexpr std::chrono::milliseconds kFirstWord{60000};

/// The most bytes of a line that a sentence quotes.
inline constexpr size_t kMaxQuote = 1000;

/// What an agent says of itself.
struct Introduction {
  std::string build;                   ///< hvdrun refuses an agent of another build
  std::string version;                 ///< as in `hvdrun --version`
  std::string host;                    ///< its own host name
  int cores = 0;                       ///< cores that its ranks may use
  std::vector<std::string> addresses;  ///< numeric, without loopback
  std::string client;                  ///< the address from which ssh connected, or empty
};

std::string encode(const Introduction& introduction);
/// Returns nothing if the bytes are not an introduction.
std::optional<Introduction> decode_introduction(std::string_view bytes);

/// One rank to start.
struct RankOrder {
  int rank = 0;
  std::vector<std::string> environment;  ///< NAME=value, wins over the job's
};

/// How long an agent stays. In an elastic job its ranks are workers that come and go, each with the number of a worker
/// in place of a rank.
enum class AgentStay : uint8_t {
  kWhileRanksRun = 0,  ///< it ends with its last rank, and if it cannot start one
  kUntilEnd = 1,       ///< it ends with kEnd, or if hvdrun or its guard is gone
};

/// Everything an agent needs to start its ranks.
struct StartOrder {
  std::string build;                     ///< an agent of another build refuses the order
  std::string directory;                 ///< working folder of the ranks
  std::string program;                   ///< the file to execute; without a slash the agent looks in PATH
  std::vector<std::string> arguments;    ///< argv; the first is the program as the user wrote it
  std::vector<std::string> environment;  ///< NAME=value, for all ranks
  /// address:port of the store; the agent takes the first that answers. Empty if the ranks need no store.
  std::vector<std::string> stores;
  /// If not empty, the agent serves its ranks over its own connection to the store of the job of this name.
  std::string relay_job;
  std::string key;  ///< the job's key, 32 bytes
  int64_t grace_ms = 5000;
  AgentStay stay = AgentStay::kWhileRanksRun;
  int sharing = 1;               ///< how many ranks will share the host's cores
  std::vector<RankOrder> ranks;  ///< may be empty if the agent stays: kStartOne follows
};

std::string encode(const StartOrder& order);
/// Returns nothing if the bytes are not an order, or one without ranks of an agent that ends with them.
std::optional<StartOrder> decode_start_order(std::string_view bytes);

std::string encode(const RankOrder& order);
/// Returns nothing if the bytes are not an order for one rank.
std::optional<RankOrder> decode_rank_order(std::string_view bytes);

/// Returns the message as it goes over the link, with its length first.
std::vector<std::byte> encode(const Message& message);

/// Cuts a stream of bytes into messages. Used by one thread at a time.
class MessageReader {
 public:
  enum class Greeting { kNone, kMagicFirst };
  explicit MessageReader(Greeting greeting) : greeted_(greeting == Greeting::kNone) {}

  void feed(std::span<const std::byte> bytes);
  /// Returns the next whole message, or none if more bytes are needed. Returns kSystem if the bytes are no message or
  /// the greeting is too long; the reader is unusable then.
  Result<std::optional<Message>> next();
  /// Returns the last line that is not blank of what came before the magic, at most kMaxQuote bytes; empty once
  /// greeted.
  std::string ungreeted() const;

 private:
  Status skip_greeting();

  std::vector<std::byte> buffer_;
  size_t read_ = 0;  // bytes of the buffer that are done with
  bool greeted_;
};

}  // namespace rueda::core::launcher
