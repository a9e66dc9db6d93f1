#include "runtime/net/mesh.h"

#include <utility>

namespace rueda::core {

Mesh::Mesh(int rank, int lane, std::vector<std::shared_ptr<Segment>> segments, std::unique_ptr<ChannelSet> channels,
           const Abort& abort, WaitStyle style)
    : rank_(rank),
      lane_(lane),
      segments_(std::move(segments)),
      channels_(std::move(channels)),
      abort_(abort),
      style_(style) {}

}  // namespace rueda::core
