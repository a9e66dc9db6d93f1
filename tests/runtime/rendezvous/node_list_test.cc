#include "runtime/rendezvous/node_list.h"

#include <catch2/catch.hpp>

namespace rueda::core {
namespace {

using Names = std::vector<std::string>;

TEST_CASE("short forms of node lists are written out, with the zeros that they have") {
  CHECK(expand_nodes("node7").value() == Names{"node7"});
  CHECK(expand_nodes("a,b,c").value() == Names{"a", "b", "c"});
  CHECK(expand_nodes("node[07-10,12],gpu1").value() == Names{"node07", "node08", "node09", "node10", "node12", "gpu1"});
  CHECK(expand_nodes("n[1-2]-ib,m").value() == Names{"n1-ib", "n2-ib", "m"});
  CHECK(expand_nodes("rack[1-2]n[7,9]").value() == Names{"rack1n7", "rack1n9", "rack2n7", "rack2n9"});
}

TEST_CASE("short forms of counts are written out") {
  CHECK(expand_counts("4").value() == std::vector<int>{4});
  CHECK(expand_counts("4(x2),1").value() == std::vector<int>{4, 4, 1});
  CHECK(expand_counts("2(x3),8(x1)").value() == std::vector<int>{2, 2, 2, 8});
}

TEST_CASE("what Slurm would not write is refused with its own words") {
  for (const std::string text : {"", "a,,b", "n[1-", "n[]", "n[2-1]", "n[a-b]", "n]1[", "a b", "n[1-99999999]"}) {
    INFO(text);
    const auto nodes = expand_nodes(text);
    REQUIRE_FALSE(nodes.ok());
    CHECK(nodes.status().sentence() == "\"" + text + "\" is not a list of nodes in Slurm's notation");
  }
  for (const std::string text : {"", "x", "4(x", "4(x)", "4(2)", "-1", "4(x99999999)", "4,"}) {
    INFO(text);
    CHECK(expand_counts(text).status().code() == Code::kInvalidArgument);
  }
}

}  // namespace
}  // namespace rueda::core
