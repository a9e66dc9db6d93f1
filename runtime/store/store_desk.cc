// Answers requests from a table. A `get` of an absent key leaves up to three things behind; the first that comes
// answers it and takes the others away:
//
//   a waiter for the key       the value
//   a waiter for the end key   kPeerLost with the verdict: a rank that is dead will never set the key
//   a timer                    kTimeout
#include "runtime/store/store_desk.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "runtime/base/shortage.h"
#include "runtime/store/death.h"
#include "runtime/store/store_keys.h"

namespace rueda::core {
namespace {

constexpr std::chrono::milliseconds kLongestWait = std::chrono::hours(24 * 365);

StoreReply failed(Status status) {
  StoreReply reply;
  reply.status = std::move(status);
  return reply;
}

StoreReply holding(const std::string& value) {
  StoreReply reply;
  reply.value = value;
  return reply;
}

Status death_status(const std::string& value) {
  const auto verdict = decode_death(value);
  return verdict ? verdict->status() : Status(Code::kPeerLost, "the job has ended");
}

}  // namespace

StoreReply change(KeyTable& table, const StoreRequest& request) {
  if (request.operation == StoreOperation::kSet) return failed(table.set(request.key, request.value));
  if (request.operation == StoreOperation::kRemove) {
    table.remove(request.key);
    return {};
  }
  if (request.operation != StoreOperation::kAdd)
    return failed({Code::kSystem, "store: the request has no known operation"});
  const auto sum = table.add(request.key, request.number);
  StoreReply reply = failed(sum.status());
  if (sum.ok()) reply.number = sum.value();
  return reply;
}

TableDesk::TableDesk(boost::asio::io_context& io, KeyTable& table, StoreWaits waits)
    : io_(io), table_(table), waits_(waits) {}

TableDesk::~TableDesk() {
  while (!waiting_.empty()) cancel(waiting_.begin()->first);
}

uint64_t TableDesk::ask(const StoreRequest& request, Answer answer) {
  const uint64_t number = ++asked_;
  if (request.operation != StoreOperation::kGet) {
    answer(change(table_, request));
  } else if (const std::string* value = table_.find(request.key)) {
    answer(holding(*value));
  } else {
    try {
      start_waiting(number, request, std::move(answer));
    } catch (...) {
      cancel(number);
      throw;
    }
  }
  return number;
}

void TableDesk::start_waiting(uint64_t number, const StoreRequest& request, Answer answer) {
  const std::string end = waits_ == StoreWaits::kForJobsToEnd ? end_key(request.key) : std::string();
  const bool ends = !end.empty() && request.key != end;
  if (const std::string* verdict = ends ? table_.find(end) : nullptr) return answer(failed(death_status(*verdict)));
  Waiting& waiting =
      waiting_.emplace(number, Waiting{std::move(answer), boost::asio::steady_timer(io_), 0, 0}).first->second;
  waiting.value = table_.wait(
      request.key, [this, number](const std::string& value) { finish(number, [&value] { return holding(value); }); });
  if (ends) {
    waiting.end = table_.wait(end, [this, number](const std::string& verdict) {
      finish(number, [&verdict] { return failed(death_status(verdict)); });
    });
  }
  if (request.number < 0) return;
  waiting.limit.expires_after(std::min(std::chrono::milliseconds(request.number), kLongestWait));
  waiting.limit.async_wait([this, number, key = request.key](const boost::system::error_code& error) {
    if (error) return;
    finish(number, [&key] { return failed(value_missing(key)); });
  });
}

/// Without memory for the reply the answer says so.
template <typename Make>
void TableDesk::finish(uint64_t number, Make&& make) {
  const auto found = waiting_.find(number);
  if (found == waiting_.end()) return;  // cancelled while the timer's handler was already queued
  // Taken out first: the answer may ask this desk again.
  const Answer answer = std::move(found->second.answer);
  cancel(number);
  StoreReply reply;
  try {
    reply = make();
  } catch (const std::exception& error) {
    reply = failed(failure_of(error));
  }
  answer(std::move(reply));
}

void TableDesk::cancel(uint64_t number) {
  const auto found = waiting_.find(number);
  if (found == waiting_.end()) return;
  table_.cancel(found->second.value);
  table_.cancel(found->second.end);
  waiting_.erase(found);
}

}  // namespace rueda::core
