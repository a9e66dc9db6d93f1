#include "runtime/rendezvous/roll_call.h"

#include <catch2/catch.hpp>

#include "runtime/rendezvous/admission.h"
#include "runtime/store/job_key.h"
#include "runtime/store/memory_store.h"
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
