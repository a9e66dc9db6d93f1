#include "runtime/rendezvous/roll_call.h"

#include <catch2/catch.hpp>

#include "runtime/rendezvous/admission.h"
#include "runtime/store/job_key.h"
#include "runtime/store/memory_store.h"
#include "runtime/store/store_keys.h"
#include "tests/support/deadlines.h"

namespace rueda::core {
namespace {

using Catch::Matchers::Contains;

Wish wish_of(int rank, int size, const std::string& worker, int64_t pid) {
  Wish wish;
  wish.build = "b";
  wish.nonce = worker + "/nonce";
  wish.rank = rank;
  wish.size = size;
  wish.endpoint.host = "a";
  wish.endpoint.pid = pid;
  wish.endpoint.worker = worker;
  wish.agreed = print_agreed(Settings());
  return wish;
}

TEST_CASE("processes that say they are one rank are named by whoever misses another") {
  MemoryStore store;
  RollCall first(store, "job", 3), second(store, "job", 3), zero(store, "job", 3);
  REQUIRE(first.leave_wish(wish_of(1, 3, "w1", 11)).ok());
  REQUIRE(second.leave_wish(wish_of(1, 3, "w2", 12)).ok());
  REQUIRE(zero.leave_wish(wish_of(0, 3, "w0", 10)).ok());
  const std::string expected =
      "rank 2 of 3 did not come before the deadline; rank 1 came twice: as host a, pid 11 and as host a, pid 12";
  CHECK_THAT(zero.gather(soon()).status().sentence(), Contains(expected));
  CHECK_THAT(second.await_answer("w2/nonce", soon()).status().sentence(), Contains(expected));  // rank 0's word
  CHECK_THAT(first.await_answer("w1/nonce", soon()).status().sentence(), Contains("rank 1 came twice"));
}

TEST_CASE("ranks that came for a job of another size are named with it") {
  MemoryStore store;
  RollCall zero(store, "job", 3), one(store, "job", 2);
  REQUIRE(zero.leave_wish(wish_of(0, 3, "w0", 10)).ok());
  REQUIRE(one.leave_wish(wish_of(1, 2, "w1", 11)).ok());
  CHECK_THAT(
      zero.gather(soon()).status().sentence(),
      Contains("rank 2 of 3 did not come before the deadline; rank 1 (host a, pid 11) says that there are 2 ranks"));
}

TEST_CASE("a process that comes again is one, and so is one whose other wish was withdrawn") {
  MemoryStore store;
  RollCall call(store, "job", 2);
  REQUIRE(call.leave_wish(wish_of(0, 2, "w0", 10)).ok());
  REQUIRE(call.leave_wish(wish_of(0, 2, "w0", 10)).ok());
  const auto number = call.leave_wish(wish_of(0, 2, "other", 9));
  REQUIRE(number.ok());
  call.withdraw(0, number.value(), "other/nonce");
  REQUIRE(call.leave_wish(wish_of(0, 2, "w0", 10)).ok());
  const std::string sentence = call.gather(soon()).status().sentence();
  CHECK_THAT(sentence, Contains("rank 1 of 2 did not come"));
  CHECK_THAT(sentence, !Contains("twice"));
}

TEST_CASE("a rank that is unfit is named to the others with its reason, and waits for no answer") {
  MemoryStore store;
  RollCall zero(store, "job", 2), one(store, "job", 2);
  Wish unfit = wish_of(1, 2, "w1", 11);
  unfit.unfit = "no descriptors";
  REQUIRE(one.leave_wish(unfit).ok());
  REQUIRE(zero.leave_wish(wish_of(0, 2, "w0", 10)).ok());
  const auto wishes = zero.gather(soon());
  REQUIRE(wishes.ok());
  const Status verdict = admit(wishes.value());
  CHECK(verdict.code() == Code::kSystem);
  CHECK(verdict.rank() == 1);
  CHECK(verdict.sentence() == "init: rank 1 (host a, pid 11) cannot take part: no descriptors");
  REQUIRE(zero.answer(wishes.value(), verdict, 0).ok());
  CHECK_FALSE(store.get(answer_key("job", "w1/nonce"), soon()).ok());
  CHECK(store.get(gone_key("job", 1, 1), soon()).ok());
}

TEST_CASE("a rank that comes after an unfit rank 0 hears at its deadline what rank 0 said") {
  MemoryStore store;
  RollCall zero(store, "job", 2), one(store, "job", 2);
  Wish unfit = wish_of(0, 2, "w0", 10);
  unfit.unfit = "no descriptors";
  REQUIRE(zero.leave_wish(unfit).ok());
  CHECK(zero.gather(soon(), Status(Code::kSystem, "no descriptors")).status().sentence() == "no descriptors");
  REQUIRE(one.leave_wish(wish_of(1, 2, "w1", 11)).ok());
  CHECK(one.await_answer("w1/nonce", soon()).status().sentence() ==
        "init: rank 0 came and could not take part: no descriptors");
}

TEST_CASE("the end of an epoch before is not a reason why rank 0 does not come") {
  MemoryStore store;
  RollCall zero(store, "job", 2), one(store, "job", 2);
  const auto number = zero.leave_wish(wish_of(0, 2, "w0", 10));
  REQUIRE(number.ok());
  REQUIRE(store.set(failed_key("job", 0, number.value()), "rank 1 died").ok());
  REQUIRE(store.add(taken_key("job", 0), number.value()).ok());
  REQUIRE(one.leave_wish(wish_of(1, 2, "w1", 11)).ok());
  CHECK_THAT(one.await_answer("w1/nonce", soon()).status().sentence(), Contains("rank 0 of 2 did not come"));
}

TEST_CASE("ranks with different keys are told so, by marks that give no key away") {
  JobKey key, other;
  key.present = other.present = true;
  key.bytes.fill(42);
  other.bytes.fill(42);
  other.bytes[31] ^= 1;
  const std::string mark = key_mark(key, "job");
  CHECK(mark.size() == 8);
  CHECK(key_mark(other, "job") != mark);
  CHECK(key_mark(key, "another job") != mark);
  CHECK(key_mark({}, "job").empty());

  std::vector<Wish> wishes = {wish_of(0, 3, "w0", 1), wish_of(1, 3, "w1", 2), wish_of(2, 3, "w2", 3)};
  for (Wish& wish : wishes) wish.key_mark = mark;
  CHECK(admit(wishes).ok());
  wishes[1].key_mark = key_mark(other, "job");
  CHECK_THAT(admit(wishes).sentence(),
             Contains("mark of the job key: \"" + mark + "\" on rank 0 (host a), rank 2 (host a), \"" +
                      wishes[1].key_mark + "\" on rank 1 (host a)"));
  const auto same = decode_wish(encode(wishes[1]));
  REQUIRE(same.ok());
  CHECK(same.value().key_mark == wishes[1].key_mark);
}

}  // namespace
}  // namespace rueda::core
