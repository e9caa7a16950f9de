// headrace stats: one-pass statistics of arrays, for people and for normalisation.
#include <headrace/array.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <memory>

#include "cli_common.h"
#include "json_text.h"
#include "output_file.h"
#include "progress_bar.h"
#include "statistics/array_statistics.h"

namespace headrace::cli {
namespace {

struct StatsCommandOptions : CommonOptions {
  std::vector<std::string> arrays, by;
  std::vector<double> quantiles;
  double scale = 1, offset = 0;
  bool fill_as_nan = false;
  std::string output;
};

// Names are empty for unnamed dimensions.
std::vector<std::string> dimension_names(const ArrayInfo& info) {
  std::vector<std::string> names;
  for (const auto& name : info.dimension_names) names.push_back(name.value_or(""));
  return names;
}

// Finds dimensions by name or number; ignores those that the array does not have.
std::vector<std::size_t> dimensions_of(const ArrayInfo& info, const std::vector<std::string>& wanted) {
  const std::vector<std::string> names = dimension_names(info);
  std::vector<std::size_t> out;
  for (const std::string& word : wanted) {
    std::size_t number = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (error != std::errc() || end != word.data() + word.size()) {
      number = static_cast<std::size_t>(std::find(names.begin(), names.end(), word) - names.begin());
      if (number == names.size()) continue;
    }
    if (number < info.shape.size() && std::find(out.begin(), out.end(), number) == out.end()) out.push_back(number);
  }
  std::sort(out.begin(), out.end());
  return out;
}

struct Row {
  std::string name;
  ArrayInfo info;
  std::vector<std::size_t> by;
  std::vector<RunningStatistics> statistics;
};

std::string text_of(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", number);
  return text;
}

std::string quantile_name(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.10g", share);
  return text;
}

void print_row(const Row& row, const std::vector<double>& quantiles) {
  std::printf("%s %s %s\n", one_line(row.name).c_str(), shape_text(row.info.shape).c_str(),
              dtype_text(row.info.dtype).c_str());
  const std::vector<std::string> names = dimension_names(row.info);
  for (std::size_t i = 0; i < row.statistics.size(); ++i) {
    const RunningStatistics& one = row.statistics[i];
    std::string where;
    std::size_t rest = i;
    for (std::size_t k = row.by.size(); k-- > 0;) {
      const std::size_t dim = row.by[k];
      const std::string name = dim < names.size() && !names[dim].empty() ? one_line(names[dim]) : std::to_string(dim);
      where = name + " " + std::to_string(rest % row.info.shape[dim]) + "  " + where;
      rest /= row.info.shape[dim];
    }
    std::printf("  %smean %s  std %s  min %s  max %s", where.c_str(), text_of(one.mean()).c_str(),
                text_of(one.std()).c_str(), text_of(one.min()).c_str(), text_of(one.max()).c_str());
    for (const double share : quantiles)
      std::printf("  %s%% %s", quantile_name(100 * share).c_str(), text_of(one.quantile(share)).c_str());
    std::printf("  of %s", human_count(one.count()).c_str());
    if (one.missing() > 0) std::printf(", %s NaN", human_count(one.missing()).c_str());
    std::printf("\n");
  }
}

template <class Function>
Json values_of(const Row& row, const Function& function) {
  if (row.by.empty()) return function(row.statistics[0]);
  Json list = Json::array();
  for (const RunningStatistics& one : row.statistics) list.push_back(function(one));
  return list;
}

Json json_of(const StatsCommandOptions& options, const std::vector<Row>& rows) {
  Json arrays = Json::object();
  for (const Row& row : rows) {
    const std::vector<std::string> names = dimension_names(row.info);
    Json by = Json::array(), extents = Json::array();
    for (const std::size_t dim : row.by) {
      by.push_back(dim < names.size() && !names[dim].empty() ? Json(names[dim]) : Json(dim));
      extents.push_back(row.info.shape[dim]);
    }
    Json one = {{"by", by}, {"shape", extents}};
    one["count"] = values_of(row, [](const RunningStatistics& s) { return Json(s.count()); });
    one["missing"] = values_of(row, [](const RunningStatistics& s) { return Json(s.missing()); });
    one["mean"] = values_of(row, [](const RunningStatistics& s) { return Json(s.mean()); });
    one["std"] = values_of(row, [](const RunningStatistics& s) { return Json(s.std()); });
    one["min"] = values_of(row, [](const RunningStatistics& s) { return Json(s.min()); });
    one["max"] = values_of(row, [](const RunningStatistics& s) { return Json(s.max()); });
    if (!options.quantiles.empty()) {
      Json quantiles = Json::object();
      for (const double share : options.quantiles) {
        quantiles[quantile_name(share)] =
            values_of(row, [share](const RunningStatistics& s) { return Json(s.quantile(share)); });
      }
      one["quantiles"] = quantiles;
    }
    arrays[row.name] = one;
  }
  return {{"path", options.path}, {"scale", options.scale}, {"offset", options.offset}, {"arrays", arrays}};
}

// A requested name that no array has is a typing error.
int check_words(const StatsCommandOptions& options, const std::vector<Node>& nodes) {
  for (const std::string& word : options.by) {
    const bool known = std::any_of(nodes.begin(), nodes.end(), [&](const Node& node) {
      return node.array && !dimensions_of(node.array->info(), {word}).empty();
    });
    if (known) continue;
    print_error("no array has the dimension '" + one_line(word) + "'", options.path, "name one, or give its number");
    return kExitUsage;
  }
  return kExitOk;
}

int run_stats(const StatsCommandOptions& options) {
  auto context = make_context(options);
  if (!context.ok()) return fail(context.status(), "engine " + options.engine, "use --engine auto");
  auto store = Store::open(*context, options.location, options.storage);
  if (!store.ok()) return fail(store.status(), options.path);
  auto nodes = list_nodes(*store, "", open_options(options));
  if (!nodes.ok()) return fail(nodes.status(), options.path);
  if (nodes->empty()) {
    return fail(Status(Code::kNotFound, Layer::kApi, "neither a Zarr array nor a group"), options.path);
  }
  if (const int wrong = check_words(options, *nodes); wrong != kExitOk) return wrong;
  OutputFile output;
  if (!options.output.empty()) {
    if (Status status = output.open(options.output); !status.ok())
      return fail(status, "output", output_advice(status, "-o"));
  }
  std::vector<Row> rows;
  for (const std::string& name : options.arrays) {
    const bool known =
        std::any_of(nodes->begin(), nodes->end(), [&](const Node& node) { return node.is_array && node.path == name; });
    if (known) continue;
    print_error("there is no array '" + one_line(name) + "'", options.path, "see 'headrace info'");
    return kExitUsage;
  }
  for (const Node& node : *nodes) {
    if (!node.is_array) continue;
    const bool asked = std::find(options.arrays.begin(), options.arrays.end(), node.path) != options.arrays.end();
    if (!options.arrays.empty() && !asked) continue;
    if (!node.array) return fail(node.status, node.path);
    Row row;
    row.name = node.path;
    if (row.name.empty()) {
      const std::string path = options.path.substr(0, options.path.find_last_not_of('/') + 1);
      row.name = path.substr(path.find_last_of('/') + 1);
    }
    row.info = node.array->info();
    note_lenient_uses(row.info);
    row.by = dimensions_of(row.info, options.by);
    ProgressBar bar("stats " + row.name);
    ArrayStatisticsOptions how;
    how.by = row.by;
    how.quantiles = !options.quantiles.empty();
    how.scale = options.scale;
    how.offset = options.offset;
    how.fill_as_nan = options.fill_as_nan;
    how.threads = options.threads;
    how.progress = [&bar](std::uint64_t done, std::uint64_t all) { bar.update(done, all); };
    auto computed = array_statistics(*node.array, how);
    bar.clear();
    if (!computed.ok()) {
      // Other arrays of a group may hold strings or dates; these are skipped.
      if (computed.status().code() == Code::kUnsupported && !asked && nodes->size() > 1) {
        std::fprintf(stderr, "headrace: note: %s: left out, %s\n", one_line(row.name).c_str(),
                     one_line(computed.status().message()).c_str());
        continue;
      }
      return fail(computed.status(), options.path + (node.path.empty() ? "" : "/" + node.path));
    }
    row.statistics = std::move(*computed);
    rows.push_back(std::move(row));
  }
  if (!options.output.empty()) {
    const std::string text = json_text(json_of(options, rows)) + "\n";
    Status status = output.write(std::as_bytes(std::span(text.data(), text.size())));
    if (status.ok()) status = output.commit();
    if (!status.ok()) return fail(status, "output", output_advice(status, "-o"));
    return kExitOk;
  }
  if (options.json) {
    print_json(json_of(options, rows));
  } else {
    for (const Row& row : rows) print_row(row, options.quantiles);
  }
  return kExitOk;
}

}  // namespace

Verb add_stats_command(CLI::App& app) {
  auto options = std::make_shared<StatsCommandOptions>();
  CLI::App* verb = app.add_subcommand("stats", "mean, deviation, extremes and quantiles of arrays, in one pass");
  add_path_and_json(*verb, *options);
  add_engine_and_threads(*verb, *options);
  add_stored_budget(*verb, *options);
  add_lenient(*verb, *options);
  verb->add_option("--arrays", options->arrays, "of a group, only these: \"t2m,u10\"")
      ->delimiter(',')
      ->type_name("NAMES");
  verb->add_option("--by", options->by,
                   "one statistic for each index along these dimensions, by name or number: \"level\"")
      ->delimiter(',')
      ->type_name("DIMS");
  verb->add_option("--quantiles", options->quantiles, "shares from 0 to 1: \"0.01,0.5,0.99\"; by rank within 0.2 %")
      ->delimiter(',')
      ->check(CLI::Range(0.0, 1.0))
      ->type_name("SHARES");
  verb->add_option("--scale", options->scale, "multiply each stored number by this (CF: scale_factor)")->type_name("X");
  verb->add_option("--offset", options->offset, "and add this (CF: add_offset)")->type_name("X");
  verb->add_flag("--nan-fill", options->fill_as_nan, "NaN for elements equal to the fill value and for missing chunks");
  verb->add_option("-o,--output", options->output, "write JSON here, for headrace.Loader(normalise=...)")
      ->type_name("FILE");
  verb->footer(
      "NaN is counted and else left out. The deviation is that of the numbers themselves: divided by their count.\n\n"
      "Examples:\n"
      "  headrace stats era5.zarr\n"
      "  headrace stats era5.zarr --arrays t,q --by level --quantiles 0.01,0.5,0.99\n"
      "  headrace stats era5.zarr -o stats.json");
  return {verb, [options] { return run_stats(*options); }};
}

}  // namespace headrace::cli
