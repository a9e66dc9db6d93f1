// Finds a peer over its addresses. One round tries all of them at once; an address that connects and leads to another
// program is left out and the rest are tried again, since an address may be in use twice in a site's networks. Rounds
// repeat with growing pauses until the deadline, because the peer may not listen yet.
#include "runtime/net/dial.h"

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <optional>

#include "runtime/base/log.h"
#include "runtime/base/shortage.h"
#include "runtime/net/connect.h"
#include "runtime/net/interfaces.h"
#include "runtime/net/socket_address.h"

namespace rueda::core {

using namespace std::chrono_literals;

namespace {

// One try: long enough for a busy coordinator to answer, short enough to try the next address.
constexpr auto kTryTime = 5s;
constexpr auto kFirstDialPause = 10ms;
constexpr auto kLongestDialPause = 500ms;
// Rounds in which every address said "connection refused" before the peer counts as gone: about 0.3 s.
constexpr int kRefusedRounds = 6;
/// For how long no address of a peer whose data is waited for may fail to connect, unless `paths` is judged earlier.
constexpr auto kUnreachable = 15s;

/// For how long this process may have no descriptor for a socket.
constexpr auto kShortage = 250ms;

constexpr const char* kNoAnswer = "no answer";

/// Waits for a stream operation that reports through `result`; closes the stream if it does not come.
Status finish(const LoopWait& wait, SecureStream& stream, const std::optional<Status>& result) {
  Status waited = wait.until([&] { return result.has_value(); });
  if (!waited.ok()) {
    stream.close();  // from here on nothing is called back
    return waited;
  }
  if (!result->ok()) stream.close();
  return *result;
}

Status exchange_hello(const LoopWait& wait, SecureStream& stream, HelloDialler& hello) {
  const auto first = hello.first();
  if (!first.ok()) return first.status();
  RUEDA_RETURN_IF_ERROR(write_all(wait, stream, first.value()));
  HelloSecond second{};
  RUEDA_RETURN_IF_ERROR(read_all(wait, stream, second));
  const auto third = hello.on_second(second);
  if (!third.ok()) return third.status();
  RUEDA_RETURN_IF_ERROR(write_all(wait, stream, third.value()));
  std::array<std::byte, 1> accepted{};
  RUEDA_RETURN_IF_ERROR(read_all(wait, stream, accepted));
  if (accepted[0] != std::byte{kAccepted})
    return Status(Code::kSystem, "the program that answers there is not a rank of this job");
  return {};
}

/// The stream over which data travel behind the hello: plain, or TLS with the key of that hello.
Result<std::unique_ptr<SecureStream>> data_stream(const LoopWait& wait, UniqueFd fd, const TransportEpoch& epoch,
                                                  const HelloDialler& hello) {
  std::shared_ptr<TlsContext> tls;
  if (epoch.keyed && epoch.encrypt_data) {
    const auto key = hello.stream_key();
    if (!key.ok()) return key.status();
    auto context = TlsContext::create(epoch.job, key.value());
    if (!context.ok()) return context.status();
    tls = std::move(context).value();
  }
  return std::make_unique<SecureStream>(wait.io, std::move(fd), std::move(tls), StreamSide::kDialler);
}

/// Makes a connected socket a stream whose other end is proven. A control connection begins TLS before the hello, which
/// it binds; a data connection behind it.
Result<std::unique_ptr<SecureStream>> prove(const LoopWait& wait, UniqueFd fd, const TransportEpoch& epoch,
                                            HelloDialler hello, std::shared_ptr<TlsContext> tls) {
  const bool control = hello.route().purpose == HelloPurpose::kControl;
  SecureStream plain(wait.io, std::move(fd), nullptr, StreamSide::kDialler);
  const std::array<std::byte, 1> purpose{std::byte(control ? kPurposeControl : kPurposeData)};
  RUEDA_RETURN_IF_ERROR(write_all(wait, plain, purpose));
  auto stream = std::make_unique<SecureStream>(wait.io, plain.release(), control ? std::move(tls) : nullptr,
                                               StreamSide::kDialler);
  RUEDA_RETURN_IF_ERROR(handshake(wait, *stream));
  const auto binding = stream->binding();
  if (!binding.ok()) return binding.status();
  hello.bind(binding.value());
  RUEDA_RETURN_IF_ERROR(exchange_hello(wait, *stream, hello));
  return control ? std::move(stream) : data_stream(wait, stream->release(), epoch, hello);
}

/// Our end of a connection: address and interface.
std::string own_end(int fd) {
  SocketAddress own;
  own.bytes = sizeof(own.storage);
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&own.storage), &own.bytes) != 0) return "?";
  const std::string name = interface_of(own);
  return own.text() + (name.empty() ? "" : " (" + name + ")");
}

/// The search for a peer over its addresses.
class Dialling {
 public:
  Dialling(const LoopWait& wait, const TransportEpoch& epoch, int peer, HelloPurpose purpose, uint32_t number,
           std::shared_ptr<TlsContext> tls, PathWatch* paths)
      : wait_(wait),
        epoch_(epoch),
        peer_(peer),
        purpose_(purpose),
        number_(number),
        tls_(std::move(tls)),
        paths_(paths) {}
  ~Dialling() {
    if (paths_ != nullptr) paths_->reached(peer_);
  }
  Dialling(const Dialling&) = delete;
  Dialling& operator=(const Dialling&) = delete;

  Result<std::unique_ptr<SecureStream>> run() {
    RUEDA_RETURN_IF_ERROR(list_addresses());
    std::chrono::nanoseconds pause = kFirstDialPause;
    for (int refused_rounds = 0;;) {
      const auto begin = SteadyClock::now();
      const uint64_t told = shortages_told();
      auto stream = try_all();
      if (stream.ok()) return stream;
      if (wait_.abort != nullptr && wait_.abort->raised()) return wait_.abort->why();
      refused_rounds = all_refused_ ? refused_rounds + 1 : 0;
      if (refused_rounds == kRefusedRounds) return Status(Code::kPeerLost, complaint(), peer_);
      RUEDA_RETURN_IF_ERROR(lasting_shortage(shortages_told() != told));
      if (unproven_too_long(begin)) return Status(Code::kPeerLost, complaint());  // without a rank: the peer may live
      if (out_of_reach(begin)) return Status(Code::kPeerLost, complaint());
      if (wait_.deadline.passed()) return Status(Code::kTimeout, complaint(), peer_);
      const Status paused = wait_.within(pause).until([] { return false; });
      if (paused.code() != Code::kTimeout) return paused;
      pause = std::min<std::chrono::nanoseconds>(2 * pause, kLongestDialPause);
    }
  }

 private:
  /// If this process has no descriptor for a socket, the peer is not to blame. The program may be about to close some.
  Status lasting_shortage(bool in_this_round) {
    if (!in_this_round) short_since_.reset();
    if (!in_this_round) return {};
    if (!short_since_) short_since_ = SteadyClock::now();
    if (SteadyClock::now() - *short_since_ < kShortage) return {};
    return {Code::kSystem, complaint(), epoch_.rank};
  }

  /// The kernel answers for a process that accepts nothing: to be connected says nothing about the peer.
  bool unproven_too_long(SteadyClock::time_point begin) {
    if (!connected_) {
      unproven_since_.reset();
      return false;
    }
    if (!unproven_since_) unproven_since_ = begin;
    return epoch_.unproven_limit.count() > 0 && SteadyClock::now() - *unproven_since_ >= epoch_.unproven_limit;
  }

  /// Whether a peer that others wait for with us has been out of reach long enough. `begin`: of the last round.
  bool out_of_reach(SteadyClock::time_point begin) {
    if (connected_) {
      if (paths_ != nullptr) paths_->reached(peer_);
      since_.reset();
      return false;
    }
    if (!since_) {
      since_ = begin;
      log(LogLevel::kInfo, "{}; trying again", complaint());
    }
    if (paths_ != nullptr) paths_->unreachable(peer_, *since_, complaint());
    return purpose_ == HelloPurpose::kData && SteadyClock::now() - *since_ >= kUnreachable;
  }

  /// Keeps the addresses that can be the peer's. A loopback address of a peer on another host leads to this host, so it
  /// is used only if the peer gave no others.
  Status list_addresses() {
    const PeerAddress& target = epoch_.peer(peer_);
    const bool elsewhere = target.host != epoch_.peer(epoch_.rank).host;
    std::vector<SocketAddress> loopback;
    for (const std::string& numeric : target.addresses) {
      const auto address = SocketAddress::parse(numeric, target.port);
      if (!address.ok()) return address.status();
      (elsewhere && address.value().is_loopback() ? loopback : addresses_).push_back(address.value());
    }
    if (addresses_.empty()) addresses_ = std::move(loopback);
    reasons_.assign(addresses_.size(), kNoAnswer);
    return {};
  }

  /// One round: an address that connects and leads to another program is left out, and the others are tried again.
  Result<std::unique_ptr<SecureStream>> try_all() {
    std::vector<size_t> left(addresses_.size());
    std::iota(left.begin(), left.end(), size_t{0});
    all_refused_ = !left.empty();
    connected_ = false;
    while (!left.empty()) {
      std::vector<SocketAddress> these;
      for (const size_t index : left) these.push_back(addresses_[index]);
      ConnectFailures failures;
      auto connected = connect_first(wait_.within(kTryTime), these, failures);
      if (!connected.ok()) {
        // The deadline may end a round before it has learned a reason: the reason of the round before stays then.
        for (size_t i = 0; i < failures.reasons.size(); ++i) {
          if (!failures.reasons[i].empty()) reasons_[left[i]] = failures.reasons[i];
        }
        all_refused_ = all_refused_ && failures.all_refused;
        return connected.status();
      }
      all_refused_ = false;
      connected_ = true;
      const size_t index = connected.value().index;
      auto stream = prove_here(std::move(connected.value().fd), left[index]);
      if (stream.ok() || (wait_.abort != nullptr && wait_.abort->raised())) return stream;
      left.erase(left.begin() + static_cast<ptrdiff_t>(index));
    }
    return Status(Code::kSystem, "no address leads to the peer");
  }

  Result<std::unique_ptr<SecureStream>> prove_here(UniqueFd fd, size_t index) {
    const std::string end = own_end(fd.get());
    HelloDialler hello(epoch_.hello_scope(), peer_, purpose_, number_);
    auto stream = prove(wait_.within(kTryTime), std::move(fd), epoch_, std::move(hello), tls_);
    if (!stream.ok()) {
      // A try that the deadline cuts short says less than the one before it.
      if (!wait_.deadline.passed() || reasons_[index] == kNoAnswer) reasons_[index] = stream.status().sentence();
      return stream;
    }
    log(LogLevel::kInfo, "rank {} reaches {} at {} from {} ({})", epoch_.rank, epoch_.name_of(peer_),
        addresses_[index].text(), end,
        purpose_ == HelloPurpose::kControl ? "control" : "data, lane " + std::to_string(number_));
    return stream;
  }

  std::string complaint() const {
    std::string tried;
    for (size_t index = 0; index < addresses_.size(); ++index)
      tried += (index == 0 ? "" : "; ") + addresses_[index].text() + ": " + reasons_[index];
    return "rank " + std::to_string(epoch_.rank) + " cannot reach " + epoch_.name_of(peer_) + " (" +
           (tried.empty() ? "it gave no address" : tried) + ")";
  }

  const LoopWait& wait_;
  const TransportEpoch& epoch_;
  int peer_;
  HelloPurpose purpose_;
  uint32_t number_;
  std::shared_ptr<TlsContext> tls_;
  PathWatch* paths_;
  std::vector<SocketAddress> addresses_;
  std::vector<std::string> reasons_;                       // by address, of the last try
  bool all_refused_ = false;                               // in the last round
  bool connected_ = false;                                 // likewise: some address connected
  std::optional<SteadyClock::time_point> since_;           // since when no address has
  std::optional<SteadyClock::time_point> unproven_since_;  // since when each round has connected and proven nothing
  std::optional<SteadyClock::time_point> short_since_;     // since when this process has had no descriptor to spare
};

}  // namespace

Status handshake(const LoopWait& wait, SecureStream& stream) {
  std::optional<Status> result;
  stream.handshake([&](const Status& status) { result = status; });
  return finish(wait, stream, result);
}

Status read_all(const LoopWait& wait, SecureStream& stream, std::span<std::byte> into) {
  std::optional<Status> result;
  stream.read(into, [&](const Status& status, size_t) { result = status; });
  return finish(wait, stream, result);
}

Status write_all(const LoopWait& wait, SecureStream& stream, std::span<const std::byte> bytes) {
  std::optional<Status> result;
  stream.write(bytes, [&](const Status& status, size_t) { result = status; });
  return finish(wait, stream, result);
}

Result<std::unique_ptr<SecureStream>> dial(const LoopWait& wait, const TransportEpoch& epoch, int peer,
                                           HelloPurpose purpose, uint32_t number, std::shared_ptr<TlsContext> tls,
                                           PathWatch* paths) {
  return Dialling(wait, epoch, peer, purpose, number, std::move(tls), paths).run();
}

}  // namespace rueda::core
