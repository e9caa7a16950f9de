// Formats a RemoteReport as text and as JSON.
#pragma once

#include <headrace/remote_report.h>

#include <nlohmann/json_fwd.hpp>

#include "doctor_rows.h"

namespace headrace::cli {

void print_remote(DoctorRows& text, const RemoteReport& remote);
nlohmann::ordered_json remote_json(const RemoteReport& remote);

}  // namespace headrace::cli
