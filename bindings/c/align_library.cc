// Makes the loader put a shared library at a multiple of 4 GiB: writes that alignment into the first segment of the
// file.
//
// Ranks that take turns on one core, or share it as hyper-threads, also share its branch predictor. Intel's knows a
// branch by the lower 24 bits of its address, and its target by the lower 32. Kernels put large libraries at multiples
// of 2 MiB, so two ranks have theirs at addresses with the same 24 bits in one of eight cases. Each then gets the other
// one's targets, and takes twice as long for everything. With the same 32 bits the targets are right for both.
// docs/decisions/0074-same-address-modulo-4-gib.md has the measurements, and what it costs: 8 bits stay random.
//
//   align_library librueda.so.1.0.0
#include <elf.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <stdexcept>
#include <string>

namespace {

constexpr uint64_t kAlignment = uint64_t{1} << 32;

template <typename T>
T read_at(std::fstream& file, uint64_t offset) {
  T value{};
  file.seekg(static_cast<std::streamoff>(offset));
  file.read(reinterpret_cast<char*>(&value), sizeof value);
  if (!file) throw std::runtime_error("it ends at byte " + std::to_string(offset) + " or before");
  return value;
}

/// Throws std::runtime_error if the file cannot be read or written, or is not a shared library of 64 bits.
void align(const std::string& path) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  if (!file) throw std::runtime_error("it cannot be opened for reading and writing");
  const auto header = read_at<Elf64_Ehdr>(file, 0);
  const bool is_library = std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_ident[EI_CLASS] == ELFCLASS64 &&
                          header.e_ident[EI_DATA] == ELFDATA2LSB && header.e_type == ET_DYN &&
                          header.e_phentsize == sizeof(Elf64_Phdr);
  if (!is_library) throw std::runtime_error("it is not a shared library of 64 bits");
  for (int i = 0; i < header.e_phnum; ++i) {
    const uint64_t offset = header.e_phoff + static_cast<uint64_t>(i) * sizeof(Elf64_Phdr);
    auto segment = read_at<Elf64_Phdr>(file, offset);
    if (segment.p_type != PT_LOAD) continue;
    // The loader refuses a segment whose address and place in the file differ modulo its alignment.
    if ((segment.p_vaddr - segment.p_offset) % kAlignment != 0)
      throw std::runtime_error("its first segment does not begin at address 0");
    segment.p_align = kAlignment;
    file.seekp(static_cast<std::streamoff>(offset));
    file.write(reinterpret_cast<const char*>(&segment), sizeof segment);
    file.flush();
    if (!file) throw std::runtime_error("it cannot be written");
    return;
  }
  throw std::runtime_error("it has no segment to load");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: align_library FILE\n");
    return 2;
  }
  try {
    align(argv[1]);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "align_library: %s: %s\n", argv[1], error.what());
    return 1;
  }
}
