# Writes OUTPUT, which gives the bytes of the file IMAGE, compiled for GPUS: cmake -DIMAGE= -DGPUS= -DOUTPUT= -P embed_image.cmake
file(READ ${IMAGE} bytes HEX)
string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE ${OUTPUT} "// Made of all_kernels.cu by cmake/embed_image.cmake.
#include \"ops/cuda/pack_image.h\"

namespace rueda::cuda {
namespace {

alignas(64) const unsigned char image_bytes[] = {
${bytes}};

}  // namespace

std::span<const std::byte> pack_image() { return std::as_bytes(std::span(image_bytes)); }

const char* describe_pack_image() { return \"kernels for ${GPUS}\"; }

}  // namespace rueda::cuda
")
