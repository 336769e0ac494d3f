// SPDX-License-Identifier: MIT
// Any bytes at all as a safetensors file: refused with one line, or read without touching a byte outside of it.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "safetensors.hpp"

namespace {

using namespace safetensors;

void require(bool holds) {
  if (!holds) std::abort();
}

void read_all(std::span<const std::byte> file) {
  if (file.size() < prefix_size) return;
  const std::uint64_t length = header_size(file.first<prefix_size>(), file.size());
  require(length <= file.size() - prefix_size);
  const header h = parse_header(
      {reinterpret_cast<const char*>(file.data() + prefix_size), static_cast<std::size_t>(length)}, file.size());

  // What a reader relies on.
  std::uint64_t at = 0;
  std::vector<entry> entries;
  for (const tensor_info& t : h.tensors) {
    require(t.begin == at && t.end >= t.begin && t.end <= file.size() - h.data);
    at = t.end;
    require(h.find(t.name) == t);
    entries.push_back({t.name, t.shape, {}, t.dtype});
    if (t.dtype != "F32" && t.dtype != "BF16") continue;
    std::vector<float> elements(t.elements());
    convert(t, file.subspan(h.data + t.begin, t.end - t.begin), elements);
  }
  require(h.data + at == file.size());

  // Written again it is the same header, but for the padding.
  const std::string text = header_text(entries, h.metadata);
  header again = parse_header(std::string_view(text).substr(prefix_size), text.size() + at);
  again.data = h.data;
  // Tensors of no bytes at one offset are sorted by name.
  require(again == h);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    read_all(std::as_bytes(std::span(data, size)));
  } catch (const error& refused) {
    const std::string_view what = refused.what();
    require(!what.empty() && what.find('\n') == what.npos);
  }
  return 0;
}
