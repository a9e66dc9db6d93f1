// Each key has its own mapping instead of a slot in a shared page: a process holds a few dozen keys at most, the kernel
// merges neighbouring mappings, and there is no lock that a fork could leave taken.
#include "runtime/base/secret_key.h"

#include <sys/mman.h>

#include <cstring>
#include <new>

namespace rueda::core {
namespace {

constexpr size_t kMappingBytes = 4096;  // the kernel rounds up to its page

uint8_t* map_page() {
  void* page = ::mmap(nullptr, kMappingBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) throw std::bad_alloc();
  // Kernels without MADV_DONTDUMP (before 3.4) are none that this library runs on, so a failure has no remedy.
  static_cast<void>(::madvise(page, kMappingBytes, MADV_DONTDUMP));
  return static_cast<uint8_t*>(page);
}

}  // namespace

SecretKey::SecretKey() : bytes_(map_page()) {}

SecretKey::SecretKey(const std::array<uint8_t, kBytes>& bytes) : SecretKey() {
  std::memcpy(bytes_, bytes.data(), kBytes);
}

SecretKey::SecretKey(const SecretKey& other) : SecretKey() { std::memcpy(bytes_, other.bytes_, kBytes); }

SecretKey& SecretKey::operator=(const SecretKey& other) {
  if (this != &other) std::memcpy(bytes_, other.bytes_, kBytes);
  return *this;
}

SecretKey::~SecretKey() {
  wipe(bytes_, kBytes);
  ::munmap(bytes_, kMappingBytes);
}

void SecretKey::fill(uint8_t byte) { std::memset(bytes_, byte, kBytes); }

bool SecretKey::operator==(const SecretKey& other) const {
  uint8_t differences = 0;
  for (size_t i = 0; i < kBytes; ++i) differences = static_cast<uint8_t>(differences | (bytes_[i] ^ other.bytes_[i]));
  return differences == 0;
}

void wipe(void* bytes, size_t count) { ::explicit_bzero(bytes, count); }

}  // namespace rueda::core
