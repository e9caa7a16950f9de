#include "read_variable.h"

#include <cstdio>
#include <optional>
#include <utility>
#include <vector>

#include "cli_common.h"
#include "json_text.h"
#include "output_file.h"
#include "progress_bar.h"
#include "read_slabs.h"
#include "sha256.h"
#include "variable_delivery.h"
#include "variable_writer.h"

namespace headrace::cli {
namespace {

bool ends_in_npy(const std::string& name) { return name.size() >= 4 && name.compare(name.size() - 4, 4, ".npy") == 0; }

ReportSummary summary_of(const VariableReadRequest& request, const ArrayInfo& info, const std::string& shape,
                         const Context& context, const Stats& stats) {
  ReportSummary summary;
  summary.title = "headrace read " + request.path;
  summary.facts.push_back({"run",
                           {{"selection", request.select.empty() ? "all" : request.select},
                            {"shape", shape},
                            {"data type", dtype_text(info.dtype)},
                            {"device", "host"},
                            {"engine", context.engine_name()}}});
  for (ReportTable& table : stats_tables(stats)) summary.facts.push_back(std::move(table));
  return summary;
}

Json json_of(const VariableReadRequest& request, const ArrayInfo& info, const std::vector<std::uint64_t>& shape,
             const Context& context, const VariableDelivery& delivery, const std::string& digest, double run_seconds) {
  return {{"path", request.path},
          {"zarr_format", info.zarr_format},
          {"array_shape", info.shape},
          {"data_type", dtype_text(info.dtype)},
          {"item_bytes", nullptr},
          {"selection", request.select},
          {"shape", shape},
          {"device", "host"},
          {"engine", context.engine_name()},
          {"output", text_or_null(request.output)},
          {"output_format", request.output.empty() ? Json() : Json(request.raw ? "raw" : "json")},
          {"sha256", text_or_null(digest)},
          {"elements", delivery.elements()},
          {"decoded_bytes", delivery.bytes()},
          {"seconds", delivery.stats().wall_seconds},
          {"run_seconds", run_seconds},
          {info.dtype.kind == TypeKind::kString ? "first_elements" : "first_elements_base64", delivery.preview()},
          {"stats", stats_json(delivery.stats())}};
}

void print_result(FILE* report, const VariableReadRequest& request, const ArrayInfo& info, const std::string& shape,
                  const VariableDelivery& delivery) {
  const Stats& stats = delivery.stats();
  std::fprintf(report, "read %s %s %s: %s elements, %s decoded in %s; path: %s\n", one_line(request.path).c_str(),
               shape.c_str(), dtype_text(info.dtype).c_str(), human_count(delivery.elements()).c_str(),
               human_bytes(delivery.bytes()).c_str(), human_seconds(stats.wall_seconds).c_str(), stats.path.c_str());
  std::string first;
  for (const std::string& text : delivery.preview()) {
    first += (first.empty() ? "" : ", ") + json_text(text);
  }
  if (delivery.elements() > kPreviewElements) first += ", ...";
  if (!first.empty()) {
    std::fprintf(report, "elements%s: %s\n", info.dtype.kind == TypeKind::kString ? "" : " (base64)",
                 one_line(first).c_str());
  }
}

}  // namespace

int read_variable_array(const VariableReadRequest& request, const Context& context, const Array& array,
                        const Selection& selection, const ResolvedSelection& resolved) {
  const ArrayInfo& info = array.info();
  if (request.npy || (!request.raw && ends_in_npy(request.output))) {
    print_error("NumPy's file format has no elements of variable length", request.path + " of type " + info.dtype.name,
                "use --raw, or an output name without .npy for JSON");
    return kExitUsage;
  }
  OutputFile output;
  Sha256 hash;
  std::optional<VariableWriter> to_output, to_hash;
  std::vector<VariableWriter*> writers;
  if (!request.output.empty()) {
    if (Status status = output.open(request.output); !status.ok())
      return fail(status, "output", output_advice(status, "-o"));
    to_output.emplace(request.raw ? VariableWriter::Format::kRaw : VariableWriter::Format::kJson, resolved.shape,
                      [&](std::span<const std::byte> piece) { return output.write(piece); });
    writers.push_back(&*to_output);
  }
  if (request.sha256) {
    to_hash.emplace(VariableWriter::Format::kRaw, resolved.shape, [&](std::span<const std::byte> piece) {
      hash.update(piece);
      return Status();
    });
    writers.push_back(&*to_hash);
  }
  RunReport run_report;
  if (Status status = run_report.begin(request.report); !status.ok())
    return fail(status, "report", output_advice(status, "--report and --trace"));

  ProgressBar bar("read");
  // Without a file or a hash, all elements are kept in memory.
  const bool delivered = !writers.empty();
  ReadSlabs slabs(info, selection, resolved, VariableDelivery::kGuessedItemBytes,
                  delivered ? request.slab_bytes : UINT64_MAX, true);
  VariableDelivery delivery(array, delivered ? request.slab_bytes : VariableDelivery::kMaxBytes, run_report, bar);
  const std::uint64_t begin_ns = RunReport::now_ns();
  Status status = delivery.run(slabs, decoded_bytes(resolved.shape, 1).value_or(UINT64_MAX), writers);
  bar.clear();
  if (!status.ok() && !delivery.output_failed()) {
    const bool too_much = status.code() == Code::kResourceExhausted;
    return fail(status, request.path, too_much ? "select a part with --select" : "");
  }
  if (status.ok() && !request.output.empty()) status = output.commit();
  if (!status.ok()) return fail(status, "output", output_advice(status, "-o"));
  const std::string digest = request.sha256 ? hash.finish() : "";
  const Stats& stats = delivery.stats();
  const double run_seconds =
      delivered ? static_cast<double>(RunReport::now_ns() - begin_ns) * 1e-9 : stats.wall_seconds;
  run_report.end(run_seconds);

  const std::string shape = shape_text(resolved.shape);
  ReportSummary summary = summary_of(request, info, shape, context, stats);
  if (delivered) summary.facts.back().rows.push_back({kWholeRun, human_seconds(run_seconds)});
  if (Status written = run_report.write(std::move(summary)); !written.ok())
    return fail(written, "report", output_advice(written, "--report and --trace"));

  FILE* report = !request.output.empty() && is_standard_output(request.output) ? stderr : stdout;
  if (request.json) {
    print_json(json_of(request, info, resolved.shape, context, delivery, digest, run_seconds), report);
    return kExitOk;
  }
  if (request.output.empty() || request.stats) print_result(report, request, info, shape, delivery);
  if (request.sha256) std::fprintf(report, "sha256 %s\n", digest.c_str());
  if (request.stats) std::fputs(stats_table(stats, "").c_str(), report);
  return kExitOk;
}

}  // namespace headrace::cli
