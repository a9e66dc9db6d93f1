// What connections between ranks bring: hellos, newcomers of a listener, control frames over a stream and over a ring
// in shared memory, the heads of striped frames, requests for the metrics page.
//
// Stream targets write the input into one end of a socket pair and close it, so that every input has an end. The loop
// then runs only what is ready.
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/io_context.hpp>
#include <cstring>
#include <memory>

#include "ops/cpu/shared_tensors.h"
#include "runtime/net/hello.h"
#include "runtime/net/http_request.h"
#include "runtime/net/newcomer.h"
#include "runtime/net/segment.h"
#include "runtime/net/shm_control_link.h"
#include "runtime/net/striped_channel.h"
#include "runtime/net/tcp_control.h"
#include "tests/fuzz/targets.h"

namespace rueda::fuzz {
namespace {

using namespace rueda::core;
namespace asio = boost::asio;

HelloScope scope_of(int rank) {
  HelloScope scope;
  scope.job = "job";
  scope.epoch = 7;
  scope.rank = rank;
  scope.size = 4;
  return scope;
}

template <typename Message>
Message message_from(Bytes& bytes) {
  Message message{};
  const size_t taken = std::min(bytes.size(), message.size());
  std::copy_n(bytes.begin(), taken, message.begin());
  bytes = bytes.subspan(taken);
  return message;
}

/// The three messages of a hello, each as a peer without the key could send it. None may be believed.
void fuzz_hello(Bytes bytes) {
  HelloListener listener(scope_of(1));
  const auto second = listener.on_first(message_from<HelloFirst>(bytes));
  if (second.ok()) hold(!listener.on_third(message_from<HelloThird>(bytes)).ok());
  HelloDialler dialler(scope_of(0), 1, HelloPurpose::kData, 2);
  hold(dialler.first().ok());
  hold(!dialler.on_second(message_from<HelloSecond>(bytes)).ok());
}

void run_ready(asio::io_context& io) {
  io.restart();
  while (io.poll() != 0) {
  }
}

/// A socket whose peer has sent `bytes` and left.
UniqueFd stream_with(Bytes bytes) {
  int fds[2];
  hold(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) == 0);
  const UniqueFd peer(fds[1]);
  static_cast<void>(::write(peer.get(), bytes.data(), bytes.size()));  // inputs are shorter than a socket's buffer
  return UniqueFd(fds[0]);
}

void fuzz_newcomer(Bytes bytes) {
  asio::io_context io;
  bool over = false;
  Newcomer newcomer(io, stream_with(bytes), scope_of(1), nullptr);
  newcomer.start([&over](Newcomer&, const Status& status) {
    hold(!status.ok());
    over = true;
  });
  run_ready(io);
  hold(over);
}

void fuzz_control_stream(Bytes bytes) {
  asio::io_context io;
  auto stream = std::make_unique<SecureStream>(io, stream_with(bytes), nullptr, StreamSide::kListener);
  const auto connection = std::make_shared<ControlConnection>(io, std::move(stream), "rank 2", 2);
  connection->start();
  run_ready(io);
  size_t total = 0;
  while (const auto frame = connection->receive()) total += frame->size();
  hold(total <= bytes.size());
  hold(!connection->status().ok());
  connection->stop();
  run_ready(io);
}

/// The first byte cuts the rest in two: one half for each socket.
void fuzz_striped(Bytes bytes) {
  if (bytes.empty()) return;
  const size_t cut = std::min(std::to_integer<size_t>(bytes[0]), bytes.size() - 1);
  asio::io_context io;
  std::vector<std::unique_ptr<SecureStream>> streams;
  for (const Bytes part : {bytes.subspan(1, cut), bytes.subspan(1 + cut)}) {
    streams.push_back(std::make_unique<SecureStream>(io, stream_with(part), nullptr, StreamSide::kListener));
  }
  std::vector<std::byte> wanted(64);
  StripedChannel channel(
      io, std::move(streams), [](const Status& why) { hold(!why.ok()); }, std::chrono::milliseconds(0));
  channel.receive(std::span(wanted).first(24));
  channel.receive(std::span(wanted).subspan(24));
  run_ready(io);
  hold(channel.received() <= wanted.size());
}

/// A ring as a neighbour that lies leaves it: any stamps, any bytes. Most stamps are right, or nothing would be read.
void fuzz_ring(Bytes bytes) {
  constexpr size_t kRing = 256;
  SegmentLayout layout;
  layout.local_size = layout.rings = 2;
  layout.lanes = layout.slots = 1;
  layout.slot_bytes = 4096;
  layout.ring_bytes = kRing;
  static const auto own = Segment::create(layout, 1, 0).value();
  static const auto peer = Segment::create(layout, 1, 1).value();
  static const UniqueFd doorbell(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  auto* const lines = reinterpret_cast<TinyLine*>(peer->ring_bytes(0));
  for (size_t i = 0; i < kRing / sizeof(TinyLine); ++i) lines[i].stamp.store(0);
  own->ring_words(1).consumed.store(0);
  ShmControlLink link({own, peer, 0, 1, 1, doorbell.get()});
  uint64_t number = 0;
  while (number < 64 && bytes.size() > 1) {
    const auto say = std::to_integer<uint64_t>(bytes[0]);
    bytes = bytes.subspan(1);
    TinyLine& line = lines[number++ % (kRing / sizeof(TinyLine))];
    const size_t shown = std::min(bytes.size(), kTinyBytes);
    std::memcpy(line.payload, bytes.data(), shown);
    bytes = bytes.subspan(std::min<size_t>(bytes.size(), say & 63));
    line.stamp.store(say < 192 ? number << 8 | (say & 63) : say << 56 | number << (say & 15) | say);
    for (int frames = 0; frames < 64 && link.receive(); ++frames) {
    }
    static_cast<void>(link.readable());
  }
}

/// The first byte says in what pieces the rest comes. They may not matter to what is a request; that bytes are none may
/// show later.
void fuzz_http(Bytes bytes) {
  if (bytes.empty()) return;
  const size_t piece = 1 + std::to_integer<size_t>(bytes[0]);
  const std::string_view text = text_of(bytes.subspan(1));
  if (text.empty()) return;
  HttpRequest whole, cut;
  const HttpRequest::State expected = whole.take(text);
  HttpRequest::State state = HttpRequest::State::kUnfinished;
  for (size_t at = 0; at < text.size() && state == HttpRequest::State::kUnfinished; at += piece) {
    state = cut.take(text.substr(at, piece));
  }
  hold((state == HttpRequest::State::kWhole) == (expected == HttpRequest::State::kWhole));
  if (state == HttpRequest::State::kWhole) hold(whole.gets("/metrics") == cut.gets("/metrics"));
}

/// Addresses of tensors as another rank posts them. What is accepted lies inside that rank's arena.
void fuzz_shared_places(Bytes bytes) {
  constexpr uint64_t kArena = uint64_t{1} << 40;
  const std::array slices{Slice{nullptr, nullptr, 0}, Slice{nullptr, nullptr, 3}, Slice{nullptr, nullptr, 1 << 20}};
  for (const size_t element : {size_t{1}, size_t{16}}) {
    const auto offsets = read_offsets(bytes, slices, element, kArena, 1);
    hold(offsets.ok() || offsets.status().rank() == 1);
    if (!offsets.ok()) continue;
    for (size_t i = 0; i < slices.size(); ++i) {
      const uint64_t length = static_cast<uint64_t>(slices[i].count) * element;
      if (length == 0) continue;
      for (const uint64_t at : {offsets.value()[i].in, offsets.value()[i].out}) {
        hold(at < kArena && length <= kArena && at + length <= kArena);
      }
    }
  }
}

constexpr Target kNetTargets[] = {
    {"hello", fuzz_hello},     {"newcomer", fuzz_newcomer}, {"control_stream", fuzz_control_stream},
    {"striped", fuzz_striped}, {"ring", fuzz_ring},         {"shared_places", fuzz_shared_places},
    {"http", fuzz_http},
};

}  // namespace

std::span<const Target> net_targets() { return kNetTargets; }

}  // namespace rueda::fuzz
