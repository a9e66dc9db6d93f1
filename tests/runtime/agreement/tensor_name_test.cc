// Names on both sides of the length that lies inside, copied and moved in all directions; and the queue of what waits
// under a name.
#include "runtime/agreement/tensor_name.h"

#include <catch2/catch.hpp>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/agreement/fifo.h"

namespace rueda::core {
namespace {

std::vector<std::string> texts() {
  std::vector<std::string> all{""};
  for (const size_t length : std::initializer_list<size_t>{1, 15, 16, 38, 39, 40, 1024}) {
    all.emplace_back(length, static_cast<char>('a' + length % 26));
  }
  all.emplace_back("a\0b", 3);
  return all;
}

TEST_CASE("a tensor's name is the text it was made of, whatever it was before") {
  for (const std::string& before : texts()) {
    for (const std::string& text : texts()) {
      INFO(before.size() << " and " << text.size() << " bytes");
      const TensorName source(text);
      CHECK(source.size() == text.size());
      CHECK(source.empty() == text.empty());
      CHECK(source == text);
      CHECK((source == TensorName(before)) == (text == before));
      TensorName copied(before), moved(before), text_of_copy(source);
      copied = source;
      CHECK(copied == source);
      moved = std::move(copied);
      CHECK(moved.view() == text);
      copied = before;  // after a move it takes a name again
      CHECK(copied.str() == before);
      const TensorName last(std::move(text_of_copy));
      CHECK(last == text);
    }
  }
}

TEST_CASE("a name that is given to itself stays") {
  for (const std::string& text : texts()) {
    TensorName name(text);
    TensorName& same = name;
    name = same;
    CHECK(name == text);
    name = std::move(same);
    CHECK(name == text);
  }
}

TEST_CASE("a queue that drops its front lets go of what the item owned, and keeps the order of the others") {
  Fifo<std::shared_ptr<int>> queue;
  std::vector<std::weak_ptr<int>> watched;
  int dropped = 0;
  for (int i = 0; i < 1000; ++i) {
    auto item = std::make_shared<int>(i);
    watched.push_back(item);
    queue.push_back(std::move(item));
    if (i % 3 == 0) continue;
    REQUIRE(*queue.front() == dropped);
    queue.drop_front();
    REQUIRE(watched[static_cast<size_t>(dropped++)].expired());
  }
  for (; !queue.empty(); ++dropped) {
    REQUIRE(*queue.front() == dropped);
    queue.drop_front();
    REQUIRE(watched[static_cast<size_t>(dropped)].expired());
  }
  CHECK(dropped == 1000);
}

}  // namespace
}  // namespace rueda::core
