#include "runtime/diagnosis/set_words.h"

#include <catch2/catch.hpp>

namespace rueda::core {

TEST_CASE("a set is known by its name and its members, else by its members alone") {
  CHECK(set_words("trio", {2, 0, 1}) == "process set \"trio\" (ranks 0-2)");
  CHECK(set_words("", {0, 1, 3}) == "the process set of ranks 0-1, rank 3");
  CHECK(of_set("trio", {0, 1, 2}) == " of process set \"trio\" (ranks 0-2)");
}

TEST_CASE("of a set with many gaps the first members are named and all are counted") {
  std::vector<int> even;
  for (int rank = 0; rank < 200; rank += 2) even.push_back(rank);
  const std::string words = set_words("", even);
  CHECK(words.size() < 200);
  CHECK_THAT(words, Catch::Matchers::StartsWith("the process set of rank 0, rank 2,") &&
                        Catch::Matchers::EndsWith(", ... (100 ranks in all)"));
}

TEST_CASE("what a send and its receive run in is not a set to whoever reads") {
  CHECK(of_set("rueda.send.2.0", {0, 2}) == " from rank 2 to rank 0");
}

}  // namespace rueda::core
