#include "read_variable.h"

#include <algorithm>
#include <cstdio>
#include <utility>
#include <vector>

#include "cli_common.h"
#include "output_file.h"
#include "progress_bar.h"
#include "sha256.h"

namespace headrace::cli {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{1} << 20;
constexpr std::uint64_t kPreviewElements = 10;
constexpr std::size_t kPreviewBytes = 60;  // of one element

std::string base64(std::string_view bytes) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      group = group << 8 | (k < count ? static_cast<unsigned char>(bytes[i + k]) : 0u);
    }
    for (std::size_t k = 0; k < 4; ++k) out += k <= count ? kDigits[group >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

std::string shown(const VariableResult& result, std::uint64_t i) {
  return result.is_utf8() ? std::string(result[i]) : base64(result[i]);
}

// Collects small writes into pieces.
template <class Sink>
class Pieces {
 public:
  explicit Pieces(Sink sink) : sink_(std::move(sink)) {}
  Status add(std::string_view bytes) {
    piece_ += bytes;
    return piece_.size() < kPieceBytes ? Status() : flush();
  }
  Status flush() {
    Status status = sink_(std::as_bytes(std::span(piece_.data(), piece_.size())));
    piece_.clear();
    return status;
  }

 private:
  Sink sink_;
  std::string piece_;
};

// Each element behind its length, uint32 little-endian.
template <class Sink>
Status write_raw(const VariableResult& result, Sink&& sink) {
  Pieces pieces(std::forward<Sink>(sink));
  for (std::uint64_t i = 0; i < result.size(); ++i) {
    const std::string_view element = result[i];
    if (element.size() > UINT32_MAX) {
      return Status(Code::kUnsupported, Layer::kApi,
                    "element " + std::to_string(i) + " has more than 2^32 - 1 bytes, which --raw cannot say");
    }
    char length[4];
    for (std::size_t k = 0; k < 4; ++k) length[k] = static_cast<char>(element.size() >> (8 * k) & 0xFF);
    HEADRACE_TRY(pieces.add({length, 4}));
    HEADRACE_TRY(pieces.add(element));
  }
  return pieces.flush();
}

// Lists nested as the shape has it, one innermost list a line; a string where there are no dimensions.
template <class Sink>
Status write_json_text(const VariableResult& result, Sink&& sink) {
  Pieces pieces(std::forward<Sink>(sink));
  const std::vector<std::uint64_t>& shape = result.shape();
  const std::size_t rank = shape.size();
  const auto element = [&](std::uint64_t i) {
    JsonWriter json;
    std::string text = json.value(shown(result, i)).text();
    text.pop_back();  // the newline
    return text;
  };
  if (rank == 0) {
    HEADRACE_TRY(pieces.add(element(0) + "\n"));
    return pieces.flush();
  }
  if (result.size() == 0) {
    HEADRACE_TRY(pieces.add("[]\n"));
    return pieces.flush();
  }
  HEADRACE_TRY(pieces.add(std::string(rank, '[')));
  for (std::uint64_t i = 0; i < result.size(); ++i) {
    if (i > 0) {
      // Dimensions in which a new row begins here.
      std::size_t closed = 0;
      for (std::uint64_t rest = i; closed + 1 < rank && rest % shape[rank - 1 - closed] == 0; ++closed) {
        rest /= shape[rank - 1 - closed];
      }
      HEADRACE_TRY(pieces.add(std::string(closed, ']') + (closed > 0 ? ",\n" : ", ") + std::string(closed, '[')));
    }
    HEADRACE_TRY(pieces.add(element(i)));
  }
  HEADRACE_TRY(pieces.add(std::string(rank, ']') + "\n"));
  return pieces.flush();
}

std::vector<std::string> preview(const VariableResult& result) {
  std::vector<std::string> out;
  for (std::uint64_t i = 0; i < std::min(result.size(), kPreviewElements); ++i) {
    std::string text = shown(result, i);
    if (text.size() > kPreviewBytes) {
      std::size_t cut = kPreviewBytes;
      while (cut > 0 && (static_cast<unsigned char>(text[cut]) & 0xC0) == 0x80) --cut;  // not within a character
      text = text.substr(0, cut) + "...";
    }
    out.push_back(std::move(text));
  }
  return out;
}

bool ends_in_npy(const std::string& name) { return name.size() >= 4 && name.compare(name.size() - 4, 4, ".npy") == 0; }

}  // namespace

int read_variable_array(const VariableReadRequest& request, const Context& context, const Array& array,
                        const Selection& selection) {
  const ArrayInfo& info = array.info();
  if (request.npy || (!request.raw && ends_in_npy(request.output))) {
    print_error("NumPy's file format has no elements of variable length", request.path + " of type " + info.dtype.name,
                "use --raw, or an output name without .npy for JSON");
    return kExitUsage;
  }
  OutputFile output;
  if (!request.output.empty()) {
    if (Status status = output.open(request.output); !status.ok())
      return fail(status, "output", output_advice(status, "-o"));
  }
  RunReport run_report;
  if (Status status = run_report.begin(request.report); !status.ok())
    return fail(status, "report", output_advice(status, "--report and --trace"));

  ProgressBar bar("read");
  VariableReadOptions options;
  options.progress = [&bar](std::uint64_t done, std::uint64_t total) { bar.update(done, total); };
  const std::uint64_t begin_ns = RunReport::now_ns();
  const auto result = array.read_variable(selection, options);
  bar.clear();
  if (!result.ok()) {
    const bool too_much = result.status().code() == Code::kResourceExhausted;
    return fail(result.status(), request.path, too_much ? "select a part with --select" : "");
  }
  const std::uint64_t bytes = result->data().size();
  const double seconds = result->stats.wall_seconds;
  const std::uint64_t read_ns = RunReport::now_ns();

  std::string digest;
  if (request.sha256) {
    Sha256 hash;
    const Status hashed = write_raw(*result, [&](std::span<const std::byte> piece) -> Status {
      hash.update(piece);
      return {};
    });
    if (!hashed.ok()) return fail(hashed, request.path);
    digest = hash.finish();
  }
  if (!request.output.empty()) {
    const auto sink = [&](std::span<const std::byte> piece) { return output.write(piece); };
    Status written = request.raw ? write_raw(*result, sink) : write_json_text(*result, sink);
    if (written.ok()) written = output.commit();
    if (!written.ok()) return fail(written, "output", output_advice(written, "-o"));
    run_report.wrote(read_ns, 0);
  }
  const bool delivered = request.sha256 || !request.output.empty();
  const double run_seconds = delivered ? static_cast<double>(RunReport::now_ns() - begin_ns) * 1e-9 : seconds;
  run_report.end(run_seconds);

  ReportSummary summary;
  summary.title = "headrace read " + request.path;
  summary.facts.push_back({"run",
                           {{"selection", request.select.empty() ? "all" : request.select},
                            {"shape", shape_text(result->shape())},
                            {"data type", dtype_text(info.dtype)},
                            {"device", "host"},
                            {"engine", context.engine_name()}}});
  for (ReportTable& table : stats_tables(result->stats)) summary.facts.push_back(std::move(table));
  if (delivered) summary.facts.back().rows.push_back({kWholeRun, human_seconds(run_seconds)});
  if (Status written = run_report.write(std::move(summary)); !written.ok())
    return fail(written, "report", output_advice(written, "--report and --trace"));

  FILE* report = !request.output.empty() && is_standard_output(request.output) ? stderr : stdout;
  if (request.json) {
    JsonWriter json;
    json.begin_object()
        .member("path", request.path)
        .member("zarr_format", info.zarr_format)
        .member("array_shape", info.shape)
        .member("data_type", dtype_text(info.dtype));
    json.key("item_bytes").null();
    json.member("selection", request.select)
        .member("shape", result->shape())
        .member("device", "host")
        .member("engine", context.engine_name());
    json.key("output");
    request.output.empty() ? json.null() : json.value(request.output);
    json.key("output_format");
    request.output.empty() ? json.null() : json.value(request.raw ? "raw" : "json");
    json.key("sha256");
    digest.empty() ? json.null() : json.value(digest);
    json.member("elements", result->size())
        .member("decoded_bytes", bytes)
        .member("seconds", seconds)
        .member("run_seconds", run_seconds);
    json.key(result->is_utf8() ? "first_elements" : "first_elements_base64").begin_array();
    for (const std::string& text : preview(*result)) json.value(text);
    json.end_array().key("stats");
    write_stats(json, result->stats);
    json.end_object();
    std::fputs(json.text().c_str(), report);
    return kExitOk;
  }
  if (request.output.empty() || request.stats) {
    std::fprintf(report, "read %s %s %s: %s elements, %s decoded in %s; path: %s\n", one_line(request.path).c_str(),
                 shape_text(result->shape()).c_str(), dtype_text(info.dtype).c_str(),
                 human_count(result->size()).c_str(), human_bytes(bytes).c_str(), human_seconds(seconds).c_str(),
                 result->stats.path.c_str());
    std::string first;
    for (const std::string& text : preview(*result)) {
      JsonWriter json;
      std::string quoted = json.value(text).text();
      quoted.pop_back();
      first += (first.empty() ? "" : ", ") + quoted;
    }
    if (result->size() > kPreviewElements) first += ", ...";
    if (!first.empty()) {
      std::fprintf(report, "elements%s: %s\n", result->is_utf8() ? "" : " (base64)", one_line(first).c_str());
    }
  }
  if (request.sha256) std::fprintf(report, "sha256 %s\n", digest.c_str());
  if (request.stats) std::fputs(stats_table(result->stats, "").c_str(), report);
  return kExitOk;
}

}  // namespace headrace::cli
