// The store when a fabric connects the ranks. Rank 0 answers in the fabric's thread, the others wait for their one
// answer:
//
//   rank r     ask: number the request, send it, wait for the reply with that number
//   rank 0     serve: set, add and remove at once; a get of an absent key leaves a waiter in the table
//
// A fabric tells no waiter that it has failed, so every wait looks at its status several times a second.
#include "runtime/store/fabric_store.h"

#include "runtime/base/wire.h"
#include "runtime/store/store_desk.h"

namespace rueda::core {
namespace {

constexpr size_t kLengthBytes = 4;  // the length in front of an encoded request, which a fabric's frame does not need
constexpr size_t kNumberBytes = 8;
/// How often a wait looks at the fabric's status.
constexpr std::chrono::milliseconds kStoreLook{200};
/// How long a rank whose init has failed may still talk to the store: it withdraws its wish.
constexpr std::chrono::seconds kLastWords{2};

std::vector<std::byte> numbered(uint64_t number, std::span<const std::byte> with_length) {
  WireWriter frame;
  frame.u64(number);
  frame.raw(with_length.subspan(kLengthBytes));
  return frame.take();
}

uint64_t number_of(std::span<const std::byte> frame) { return WireReader(frame).u64(); }

}  // namespace

FabricStore::FabricStore(std::shared_ptr<Fabric> fabric, Deadline limit) : fabric_(std::move(fabric)), limit_(limit) {
  fabric_->listen(FabricPort::kStore, [this](int rank, std::vector<std::byte> frame) {
    if (serves()) {
      serve(rank, frame);
    } else {
      take_reply(frame);
    }
  });
}

FabricStore::~FabricStore() {
  // Rank 0 has the table, so it stays until every other rank has said that it asks no more.
  if (serves()) {
    MutexLock lock(mutex_);
    static_cast<void>(wait_until([this]() RUEDA_REQUIRES(mutex_) { return done_ == fabric_->size() - 1; }, patience()));
  } else {
    fabric_->send(0, FabricPort::kStore, {});
  }
  fabric_->stop_listening(FabricPort::kStore);
}

Deadline FabricStore::patience() const { return limit_.later(Deadline::after(kLastWords)); }

template <typename Ready>
bool FabricStore::wait_until(Ready&& ready, Deadline deadline) {
  while (!ready()) {
    if (deadline.passed() || !fabric_->status().ok()) return false;
    changed_.wait_for(mutex_, deadline.left(kStoreLook));
  }
  return true;
}

void FabricStore::serve(int rank, std::span<const std::byte> frame) {
  MutexLock lock(mutex_);
  if (frame.empty()) {
    ++done_;
    changed_.notify_all();
    return;
  }
  if (frame.size() <= kNumberBytes) return;
  const uint64_t number = number_of(frame);
  const auto request = decode_request(frame.subspan(kNumberBytes));
  StoreReply reply;
  if (!request) {
    reply.status = Status(Code::kSystem, "rank 0 could not read a request to the store", 0);
  } else if (request->operation == StoreOperation::kGet) {
    return answer_get(rank, number, *request);
  } else {
    reply = change(table_, *request);
  }
  changed_.notify_all();
  answer(rank, number, reply);
}

/// Keeps no deadline: the asking rank has one and drops an answer that comes after it.
void FabricStore::answer_get(int rank, uint64_t number, const StoreRequest& request) {
  StoreReply reply;
  if (const std::string* value = table_.find(request.key)) {
    reply.value = *value;
    return answer(rank, number, reply);
  }
  table_.wait(request.key, [this, rank, number](const std::string& value) {
    StoreReply later;
    later.value = value;
    answer(rank, number, later);
  });
}

void FabricStore::answer(int rank, uint64_t number, const StoreReply& reply) {
  fabric_->send(rank, FabricPort::kStore, numbered(number, encode(reply)));
}

void FabricStore::take_reply(std::span<const std::byte> frame) {
  MutexLock lock(mutex_);
  if (frame.size() <= kNumberBytes || number_of(frame) != asked_) return;
  reply_ = decode_reply(frame.subspan(kNumberBytes));
  if (!reply_) reply_ = StoreReply{Status(Code::kSystem, "rank 0 sent an unreadable reply from the store", 0), 0, {}};
  changed_.notify_all();
}

Result<StoreReply> FabricStore::ask(const StoreRequest& request, Deadline deadline) {
  MutexLock lock(mutex_);
  reply_.reset();
  fabric_->send(0, FabricPort::kStore, numbered(++asked_, encode(request)));
  if (!wait_until([this]() RUEDA_REQUIRES(mutex_) { return reply_.has_value(); }, deadline)) {
    const Status broken = fabric_->status();
    return broken.ok() ? value_missing(request.key) : broken;
  }
  if (!reply_->status.ok()) return reply_->status;
  return *std::move(reply_);
}

Status FabricStore::set(std::string_view key, std::string_view value) {
  if (!serves()) {
    return ask({StoreOperation::kSet, std::string(key), 0, std::string(value)}, patience()).status();
  }
  MutexLock lock(mutex_);
  return table_.set(key, value);
}

Result<int64_t> FabricStore::add(std::string_view key, int64_t amount) {
  if (!serves()) {
    const auto reply = ask({StoreOperation::kAdd, std::string(key), amount, {}}, patience());
    if (!reply.ok()) return reply.status();
    return reply.value().number;
  }
  MutexLock lock(mutex_);
  return table_.add(key, amount);
}

Status FabricStore::remove(std::string_view key) {
  if (!serves()) return ask({StoreOperation::kRemove, std::string(key), 0, {}}, patience()).status();
  MutexLock lock(mutex_);
  table_.remove(key);
  return {};
}

Result<std::string> FabricStore::get(std::string_view key, Deadline deadline) {
  if (!serves()) {
    auto reply = ask({StoreOperation::kGet, std::string(key), -1, {}}, deadline);
    if (!reply.ok()) return reply.status();
    return std::move(reply).value().value;
  }
  MutexLock lock(mutex_);
  const auto there = [&]() RUEDA_REQUIRES(mutex_) { return table_.find(key) != nullptr; };
  if (!wait_until(there, deadline)) return fabric_->status().ok() ? value_missing(key) : fabric_->status();
  return *table_.find(key);
}

}  // namespace rueda::core
