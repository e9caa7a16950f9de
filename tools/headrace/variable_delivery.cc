#include "variable_delivery.h"

#include <algorithm>
#include <utility>

namespace headrace::cli {
namespace {

constexpr std::size_t kPreviewBytes = 60;    // per element
constexpr std::uint64_t kOwnItemBytes = 24;  // overhead per element: see VariableReadOptions

std::uint64_t count_of(const ReadSlab& slab) {
  std::uint64_t count = 1;
  for (const std::uint64_t extent : slab.shape) count *= extent;
  return count;
}

}  // namespace

VariableDelivery::VariableDelivery(const Array& array, std::uint64_t part_bytes, RunReport& report, ProgressBar& bar)
    : array_(array), part_bytes_(part_bytes), report_(report), bar_(bar) {}

void VariableDelivery::preview(const VariableResult& part) {
  for (std::uint64_t i = 0; i < part.size() && preview_.size() < kPreviewElements; ++i) {
    std::string text = element_text(part, i);
    if (text.size() > kPreviewBytes) {
      std::size_t cut = kPreviewBytes;
      while (cut > 0 && (static_cast<unsigned char>(text[cut]) & 0xC0) == 0x80)
        --cut;  // avoids cutting within a character
      text = text.substr(0, cut) + "...";
    }
    preview_.push_back(std::move(text));
  }
}

// Reads a part again in smaller size if it turns out to exceed the budget.
Result<VariableResult> VariableDelivery::read(ReadSlabs& slabs, ReadSlab& slab) {
  VariableReadOptions options;
  options.max_bytes = part_bytes_;
  for (;;) {
    const double elements = static_cast<double>(count_of(slab));
    options.progress = [&](std::uint64_t done, std::uint64_t total) {
      const double share = total == 0 ? 1.0 : static_cast<double>(done) / static_cast<double>(total);
      bar_.update(done_ + static_cast<std::uint64_t>(share * elements), std::max<std::uint64_t>(1, elements_));
    };
    auto result = array_.read_variable(slab.selection, options);
    if (result.ok() || result.status().code() != Code::kResourceExhausted) return result;
    if (slabs.shrink(slab)) continue;
    if (options.max_bytes >= kMaxBytes) return result;
    options.max_bytes = kMaxBytes;
  }
}

Status VariableDelivery::write(const VariableResult& part, std::span<VariableWriter* const> writers) {
  if (writers.empty()) return {};
  const std::uint64_t begin_ns = RunReport::now_ns();
  Status status;
  for (VariableWriter* writer : writers) {
    if (status.ok()) status = writer->add(part);
  }
  report_.wrote(begin_ns, part.data().size());
  return status;
}

Status VariableDelivery::run(ReadSlabs& slabs, std::uint64_t elements, std::span<VariableWriter* const> writers) {
  elements_ = elements;
  ReadSlab slab;
  while (slabs.next(slab)) {
    HEADRACE_TRY_ASSIGN(const VariableResult part, read(slabs, slab));
    stats_ += part.stats;
    bytes_ += part.data().size();
    done_ += part.size();
    preview(part);
    // Adds a margin, so that similar parts do not fail; adapts slowly to shorter elements.
    if (part.size() > 0) {
      const std::uint64_t taken = kOwnItemBytes + part.data().size() / part.size();
      slabs.set_item_bytes(std::max(taken + taken / 8, slabs.item_bytes() / 2));
    }
    if (Status status = write(part, writers); !status.ok()) {
      output_failed_ = true;
      return status;
    }
  }
  for (VariableWriter* writer : writers) {
    if (Status status = writer->finish(); !status.ok()) {
      output_failed_ = true;
      return status;
    }
  }
  return {};
}

}  // namespace headrace::cli
