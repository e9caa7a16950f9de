"""What a process notices: signals, forks, threads, and what is left behind."""

import gc
import multiprocessing
import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import threading
import time

import native_stores as stores
import numpy as np
import pytest

import headrace


def run(code, *, timeout=60, **environment):
    """Runs code in a process of its own, as users' programs are."""
    return subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=timeout,
                          env={**os.environ, **environment})


@pytest.fixture
def big(tmp_path):
    data = np.zeros((256, 1 << 18), "<f4")  # 256 MiB of zeros, small once compressed
    data[:, ::4096] = np.arange(256, dtype="<f4")[:, None]
    return stores.write(tmp_path / "big", data, (1, 1 << 18), compress=True)


def test_ctrl_c_stops_a_long_read(big):
    done = run(f"""
        import os, signal, sys, threading, time
        import numpy as np
        import headrace
        array = headrace.open({str(big)!r}, context=headrace.Context(threads=1))
        out = np.zeros(array.shape, array.dtype)
        threads = threading.active_count()
        def press():
            time.sleep(0.1)
            press.at = time.monotonic()
            os.kill(os.getpid(), signal.SIGINT)
        presser = threading.Thread(target=press)
        presser.start()
        try:
            while True:
                array.read(out=out)
        except KeyboardInterrupt:
            late = time.monotonic() - press.at
        presser.join()
        out[:] = 7
        time.sleep(0.3)
        assert (out == 7).all(), "somebody still writes"
        assert late < 0.2, late
        print("stopped", array[5, 4096])
        """)
    assert done.stdout.startswith("stopped 5.0"), done


def test_the_interpreter_runs_on_during_a_read(big):
    array = headrace.open(big)
    ticks = []
    stop = threading.Event()

    def tick():
        while not stop.wait(0.005):
            ticks.append(time.monotonic())

    ticker = threading.Thread(target=tick)
    ticker.start()
    begin = time.monotonic()
    array.read()
    end = time.monotonic()
    stop.set()
    ticker.join()
    during = [at for at in ticks if begin < at < end]
    assert len(during) > (end - begin) / 0.1, (len(during), end - begin)


def test_a_handle_from_before_a_fork_says_so(tmp_path):
    path = stores.write(tmp_path / "a", np.arange(100, dtype="<i4"), (10,))
    done = run(f"""
        import os, sys, warnings
        import headrace
        warnings.simplefilter("ignore")
        array = headrace.open({str(path)!r})
        assert array[5] == 5
        pid = os.fork()
        if pid == 0:
            try:
                array[5]
            except headrace.ForkedError as error:
                code = 0 if headrace.open({str(path)!r})[6] == 6 else 3
            else:
                code = 2
            os._exit(code)
        _, status = os.waitpid(pid, 0)
        assert array[7] == 7
        print("child", os.waitstatus_to_exitcode(status))
        """)
    assert done.stdout == "child 0\n", done


def _read_one(argument):
    array, index = argument
    return float(array[index].sum())


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_worker_processes(tmp_path, method):
    data = np.arange(400, dtype="<f4").reshape(20, 20)
    array = headrace.open(stores.write(tmp_path / "a", data, (5, 20)))
    assert array[0, 1] == 1  # the parent has used it
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.map(_read_one, [(array, i) for i in range(20)]) == [float(row.sum()) for row in data]


def _resources():
    gc.collect()
    status = pathlib.Path("/proc/self/status").read_text()
    value = {line.split(":")[0]: line.split()[1] for line in status.splitlines() if line.split()[1:]}
    return len(os.listdir("/proc/self/fd")), int(value["Threads"]), int(value["VmRSS"])


def test_a_thousand_cycles_leave_nothing(tmp_path):
    data = np.arange(20_000, dtype="<f4").reshape(100, 200)
    path = stores.write(tmp_path / "a", data, (10, 200), compress=True)

    def cycle(number):
        array = headrace.open(path, device="host-staged" if number % 2 else None)
        array.read(slice(0, 50))
        if number % 50 == 0:  # contexts have threads and engines
            headrace.open(path, context=headrace.Context(threads=1))[0]
        try:
            array.read(out=np.zeros(3))
        except ValueError:
            pass

    for number in range(100):
        cycle(number)
    files, threads, memory = _resources()
    for number in range(1000):
        cycle(number)
    files_after, threads_after, memory_after = _resources()
    assert files_after <= files and threads_after <= threads
    assert memory_after - memory < 4096, f"{memory_after - memory} KiB"  # 4 bytes a cycle would be less


def test_a_read_under_way_at_exit(big):
    done = run(f"""
        import headrace
        future = headrace.open({str(big)!r}).read_async()
        print("bye")
        """)
    assert (done.returncode, done.stdout, done.stderr) == (0, "bye\n", "")


def test_a_future_that_nobody_holds(big):
    array = headrace.open(big)
    for _ in range(5):
        array.read_async()
    future = array.read_async()
    future.cancel()
    with pytest.raises((headrace.CancelledError,)):
        future.result()
    with pytest.raises(TimeoutError):
        array.read_async().result(timeout=0.0)


def test_no_library_is_imported_before_it_is_needed():
    done = run("""
        import sys
        import headrace
        found = {"torch", "cupy", "zarr", "xarray", "dask", "tqdm", "asyncio.base_events"} & set(sys.modules)
        print(sorted(found - {"asyncio.base_events"}))
        """)
    assert done.stdout == "[]\n", done


def test_signals_reach_other_handlers(big):
    seen = []
    before = signal.signal(signal.SIGALRM, lambda *_: seen.append(1))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        array = headrace.open(big)
        while not seen:
            array.read()
    finally:
        signal.signal(signal.SIGALRM, before)
