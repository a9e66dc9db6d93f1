// Writes and reads the frame that ends an epoch on all ranks:
//
//     code (i32)   rank (i32)   sentence (length, then text)
//
// A sentence is cut to 4 KiB. An ok end or an unknown code counts as malformed: no epoch ends without a reason.
#include "runtime/engine/end_frame.h"

#include <string>

#include "runtime/base/wire.h"

namespace rueda::core {
namespace {

constexpr size_t kMaxSentenceBytes = 4096;

}  // namespace

std::vector<std::byte> encode_end(const Status& why) {
  WireWriter writer;
  writer.i32(static_cast<int32_t>(why.code()));
  writer.i32(why.rank());
  writer.text(std::string_view(why.sentence()).substr(0, kMaxSentenceBytes));
  return writer.take();
}

Status decode_end(std::span<const std::byte> frame, int from) {
  WireReader reader(frame);
  const int32_t code = reader.i32();
  const int32_t rank = reader.i32();
  std::string sentence = reader.text(kMaxSentenceBytes);
  if (!reader.finished() || code <= 0 || code > static_cast<int32_t>(Code::kUnsupported)) {
    return Status(Code::kPeerLost, "rank " + std::to_string(from) + " sent an end of the epoch that does not parse",
                  from);
  }
  return Status(static_cast<Code>(code), std::move(sentence), rank);
}

}  // namespace rueda::core
