// The failures that tests inject at fault points.
#pragma once

#include <cerrno>

#include "base/fault.h"

namespace headrace::support {

struct Failure {
  base::FaultKind kind;
  int error;
  const char* name;
};
inline constexpr Failure kFailures[] = {{base::FaultKind::kShortByOne, 0, "short by one"},
                                        {base::FaultKind::kHalf, 0, "half"},
                                        {base::FaultKind::kZero, 0, "zero"},
                                        {base::FaultKind::kErrno, EIO, "EIO"},
                                        {base::FaultKind::kErrno, EAGAIN, "EAGAIN"},
                                        {base::FaultKind::kErrno, EINTR, "EINTR"},
                                        {base::FaultKind::kErrno, ENOMEM, "ENOMEM"},
                                        {base::FaultKind::kErrno, EMFILE, "EMFILE"},
                                        {base::FaultKind::kErrno, ENOSPC, "ENOSPC"},
                                        {base::FaultKind::kErrno, EDQUOT, "EDQUOT"},
                                        {base::FaultKind::kErrno, ESTALE, "ESTALE"},
                                        {base::FaultKind::kErrno, ETIMEDOUT, "ETIMEDOUT"},
                                        {base::FaultKind::kErrno, EFAULT, "EFAULT"},
                                        {base::FaultKind::kErrno, ECANCELED, "ECANCELED"},
                                        {base::FaultKind::kErrno, EINVAL, "EINVAL"},
                                        {base::FaultKind::kErrno, EPERM, "EPERM"},
                                        {base::FaultKind::kErrno, ENOSYS, "ENOSYS"}};

}  // namespace headrace::support
