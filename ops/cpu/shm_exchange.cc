// All-gather, all-to-all, gather and scatter on one host: every sender has one stream, which passes through its input
// slots.
//
//   stream of sender 1    | counts of all receivers | elements for 0 | for 2 | for 3 |        (its own are not in it)
//                         | counts | elements |                                               once, if all get the same
//   chunks                |   0    |   1    |   2    |   3    | ...
//
//   step j:   post chunk j ─▶ own slot j mod slots, posted = j        collect chunk j-1 of every sender, done = j
//
// Every receiver reads all counts of a stream, not only its own: they tell it where in the stream its elements lie and
// how long the stream is. With the last chunk of counts every receiver knows all it needs, asks for memory for the
// results and copies straight into it. Two copies for an element, one for a rank's own. Chunk j-1 is collected after
// chunk j is posted, so that peers read the next chunk while this rank reads theirs.
#include "ops/cpu/shm_exchange.h"

#include <cstring>
#include <optional>

#include "ops/cpu/lane_view.h"
#include "ops/cpu/shm_slots.h"
#include "ops/cpu/stretch_cursor.h"

namespace rueda::core {

namespace {

using Word = LaneView::Word;
using Area = LaneView::Area;

/// The longest stream there can be: a tensor's limit of 2^47 bytes and, generously, the counts.
constexpr uint64_t kLongestStreamBytes = uint64_t{1} << 48;

/// What this member knows of a sender's stream: its counts as they arrive, then which of its bytes are for this member.
struct Incoming {
  std::vector<int64_t> counts;
  size_t begin = 0;  ///< of the bytes for this member
  size_t end = 0;
  size_t length = 0;  ///< of the whole stream
  StretchCursor to;
};

/// One run of the algorithm.
class ShmExchange {
 public:
  ShmExchange(const Call& call, Mesh& mesh, Deadline deadline);

  Status run() {
    const size_t posting = chunks_of(stream_bytes_);
    size_t reading = senders_.empty() ? 0 : chunks_of(counts_bytes_);
    if (senders_.empty()) exchange_.place();
    for (size_t step = 0; step < posting || step < reading + 1; ++step) {
      if (step < posting) RUEDA_RETURN_IF_ERROR(post(step));
      if (step > 0 && step <= reading) RUEDA_RETURN_IF_ERROR(collect(step - 1, reading));
    }
    return {};
  }

 private:
  size_t chunks_of(size_t bytes) const { return (bytes + chunk_bytes_ - 1) / chunk_bytes_; }
  uint64_t value(size_t chunk) const { return view_.value(static_cast<int64_t>(chunk)); }
  Incoming& incoming(int sender) { return incoming_[static_cast<size_t>(sender)]; }

  void lay_out_stream(std::span<const int> receivers);
  Status post(size_t chunk);
  Status collect(size_t chunk, size_t& reading);
  void keep_counts(int sender, size_t chunk);
  Status place_all(size_t& reading);
  Status learn(int sender);
  void copy_out(int sender, size_t chunk);

  Exchange exchange_;
  Mesh& mesh_;
  LaneView view_;
  Deadline deadline_;
  PhaseLog* phases_;
  size_t chunk_bytes_;
  Stores stores_;
  std::vector<int> readers_;     // ranks that read the own slots
  std::vector<int> senders_;     // members whose slots this one reads
  size_t counts_bytes_;          // at the head of every stream
  std::vector<int64_t> counts_;  // the own stream's
  StretchCursor stream_;
  size_t stream_bytes_ = 0;
  std::vector<Incoming> incoming_;
};

ShmExchange::ShmExchange(const Call& call, Mesh& mesh, Deadline deadline)
    : exchange_(call),
      mesh_(mesh),
      view_(call, mesh),
      deadline_(deadline),
      phases_(call.phases),
      chunk_bytes_(call.choice.chunk_bytes),
      stores_(call.choice.stores),
      counts_bytes_(exchange_.tensors() * sizeof(int64_t)),
      incoming_(static_cast<size_t>(exchange_.size())) {
  if (!exchange_.same_for_all()) counts_bytes_ *= incoming_.size();
  std::vector<int> receivers;
  for (int member = 0; member < exchange_.size(); ++member) {
    if (exchange_.receives(member)) receivers.push_back(member);
    if (member == exchange_.index()) continue;
    if (exchange_.receives(member)) readers_.push_back(view_.rank_of(member));
    if (exchange_.receives(exchange_.index()) && exchange_.sends(member)) senders_.push_back(member);
  }
  if (exchange_.sends(exchange_.index()) && !readers_.empty()) lay_out_stream(receivers);
}

void ShmExchange::lay_out_stream(std::span<const int> receivers) {
  Exchange::Stretches stretches = {{nullptr, counts_bytes_}};
  for (const int member : exchange_.same_for_all() ? receivers.first(1) : receivers) {
    const std::vector<int64_t> counts = exchange_.counts_to(member);
    counts_.insert(counts_.end(), counts.begin(), counts.end());
    if (member == exchange_.index() && !exchange_.same_for_all()) continue;
    const Exchange::Stretches outgoing = exchange_.outgoing(member);
    stretches.insert(stretches.end(), outgoing.begin(), outgoing.end());
  }
  stretches.front().data = reinterpret_cast<std::byte*>(counts_.data());
  for (const Exchange::Stretch& stretch : stretches) stream_bytes_ += stretch.bytes;
  stream_ = StretchCursor(std::move(stretches));
}

/// Only receivers hold the slot: in a gather the root alone, so the others need not come before it is reused.
Status ShmExchange::post(size_t chunk) {
  const int slot = view_.slot(static_cast<int64_t>(chunk));
  RUEDA_RETURN_IF_ERROR(view_.wait_free(Area::kInput, slot, deadline_));
  std::byte* to = view_.input(view_.index(), static_cast<int64_t>(chunk));
  const StoreHint hint = store_hint(stores_, mesh_);
  const PhaseScope packing(phases_, WorkPhase::kPack);
  stream_.read(std::min(chunk_bytes_, stream_bytes_ - chunk * chunk_bytes_), to, hint);
  mesh_.ledger().claim(Area::kInput, slot, readers_, value(chunk));
  view_.publish(Word::kPosted, value(chunk));
  return {};
}

/// `reading`, the number of chunks to collect, is that of the counts at first; it grows to the longest stream once all
/// counts are known.
Status ShmExchange::collect(size_t chunk, size_t& reading) {
  const size_t count_chunks = chunks_of(counts_bytes_);
  for (const int sender : senders_) {
    if (chunk >= count_chunks && chunk * chunk_bytes_ >= incoming(sender).length) continue;
    RUEDA_RETURN_IF_ERROR(view_.wait(sender, Word::kPosted, value(chunk), deadline_));
    if (chunk < count_chunks) keep_counts(sender, chunk);
  }
  if (chunk + 1 == count_chunks) RUEDA_RETURN_IF_ERROR(place_all(reading));
  // The last chunk of counts may hold the first elements behind them.
  if (chunk + 1 >= count_chunks) {
    for (const int sender : senders_) copy_out(sender, chunk);
  }
  view_.publish(Word::kDone, value(chunk));
  return {};
}

void ShmExchange::keep_counts(int sender, size_t chunk) {
  std::vector<int64_t>& counts = incoming(sender).counts;
  counts.resize(counts_bytes_ / sizeof(int64_t));
  const size_t begin = chunk * chunk_bytes_;
  std::memcpy(reinterpret_cast<std::byte*>(counts.data()) + begin, view_.input(sender, static_cast<int64_t>(chunk)),
              std::min(chunk_bytes_, counts_bytes_ - begin));
}

Status ShmExchange::place_all(size_t& reading) {
  for (const int sender : senders_) {
    RUEDA_RETURN_IF_ERROR(learn(sender));
    reading = std::max(reading, chunks_of(incoming(sender).length));
  }
  exchange_.place();
  for (const int sender : senders_) incoming(sender).to = StretchCursor(exchange_.incoming(sender));
  return {};
}

/// Walks a sender's counts, receiver by receiver, and adds up how far into the stream this member's elements begin and
/// end.
Status ShmExchange::learn(int sender) {
  Incoming& from = incoming(sender);
  const size_t tensors = exchange_.tensors();
  size_t at = counts_bytes_;
  for (size_t part = 0; part * tensors < from.counts.size(); ++part) {
    const std::span<const int64_t> counts(from.counts.data() + part * tensors, tensors);
    const bool own = exchange_.same_for_all() || static_cast<int>(part) == exchange_.index();
    if (own) {
      RUEDA_RETURN_IF_ERROR(exchange_.learn(sender, counts));
      from.begin = at;
    }
    if (exchange_.same_for_all() || static_cast<int>(part) != sender) at += exchange_.bytes_of(counts);
    if (own) from.end = at;
  }
  from.length = at;
  return {};
}

void ShmExchange::copy_out(int sender, size_t chunk) {
  Incoming& from = incoming(sender);
  const size_t first = chunk * chunk_bytes_;
  const size_t begin = std::max(from.begin, first);
  const size_t end = std::min(from.end, first + chunk_bytes_);
  if (begin >= end) return;
  const PhaseScope unpacking(phases_, WorkPhase::kUnpack);
  const std::byte* in = view_.input(sender, static_cast<int64_t>(chunk)) + (begin - first);
  from.to.write(end - begin, in);
}

}  // namespace

bool shm_exchange_fits(const BatchShape& shape) { return shm_fits(shape); }

AlgorithmChoice shm_exchange_plan(const BatchShape& shape) {
  AlgorithmChoice choice;
  choice.chunk_bytes = static_cast<uint32_t>(shape.slot_bytes);
  choice.stamps = kLongestStreamBytes / shape.slot_bytes;
  return choice;
}

Status shm_exchange(const Call& call, Mesh& mesh, Deadline deadline) {
  RUEDA_RETURN_IF_ERROR(check_slots(call, mesh));
  return ShmExchange(call, mesh, deadline).run();
}

}  // namespace rueda::core
