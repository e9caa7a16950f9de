"""Effects on the process: signals, forks, threads, and leaks."""

import gc
import json
import multiprocessing
import os
import pathlib
import pty
import signal
import subprocess
import sys
import termios
import textwrap
import threading
import time
import weakref

import native_stores as stores
import numpy as np
import pytest

import headrace


def run(code, *, timeout=60, **environment):
    """Runs code in a separate process, like users' programs."""
    return subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=timeout,
                          env={**os.environ, **environment})


@pytest.fixture(scope="module")
def big(tmp_path_factory):
    data = np.zeros((256, 1 << 18), "<f4")  # 256 MiB of zeros, small once compressed
    data[:, ::4096] = np.arange(256, dtype="<f4")[:, None]
    return stores.write(tmp_path_factory.mktemp("large") / "big", data, (1, 1 << 18), compress=True)


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


def test_what_is_under_way_at_a_fork(big, tmp_path):
    """The threads that would finish the transfers exist in the parent only: the child gets an error and does not wait."""
    done = run(f"""
        import os, signal, warnings
        import numpy as np
        import headrace
        warnings.simplefilter("ignore")
        with open("f", "wb") as file:
            file.truncate(256 << 20)
        context = headrace.Context(threads=1)
        array = headrace.open({str(big)!r}, context=context)
        bytes_in_file = headrace.File("f", context=context)
        transfer = bytes_in_file.pread(np.empty(256 << 20, "u1"))
        read = array.read_async()
        pid = os.fork()
        if pid == 0:
            signal.alarm(20)
            said = 0
            for ask in (read.result, read.done, transfer.get):
                try:
                    ask()
                except headrace.ForkedError:
                    said += 1
            read.cancel()
            del ask, read, array
            os._exit(said)
        _, status = os.waitpid(pid, 0)
        assert read.result()[5, 4096] == 5 and transfer.get() == 256 << 20
        print("child", os.waitstatus_to_exitcode(status))
        """)
    assert done.stdout == "child 3\n", done


def test_a_fork_while_a_thread_is_inside_file_read(tmp_path):
    """The child inherits that thread's queue in the middle of a read: it abandons the queue and reads through its own."""
    path = str(tmp_path / "f")
    done = run(f"""
        import gc, os, signal, sys, threading, warnings
        import numpy as np
        import headrace
        warnings.simplefilter("ignore")
        size = 64 << 20
        with open({path!r}, "wb") as file:
            file.write(bytes(range(256)) * (size // 256))
        expected = np.fromfile({path!r}, "u1")
        for via in ("direct", "buffered"):
            over, wrong = threading.Event(), []
            shared = headrace.File({path!r}, context=headrace.Context(threads=2), via=via)

            def reads():
                while not over.is_set():
                    into = np.zeros(size, "u1")
                    if shared.read(into) != size or not np.array_equal(into, expected):
                        wrong.append(via)

            thread = threading.Thread(target=reads)
            thread.start()
            for _ in range(6):
                pid = os.fork()
                if pid == 0:
                    signal.alarm(60)
                    try:
                        shared.read(np.zeros(4096, "u1"))
                    except headrace.ForkedError:
                        pass
                    else:
                        sys.exit(2)
                    del shared
                    gc.collect()
                    own = np.zeros(4096, "u1")
                    headrace.File({path!r}, context=headrace.Context(threads=1)).read(own)
                    sys.exit(0 if np.array_equal(own, expected[:4096]) else 3)
                _, status = os.waitpid(pid, 0)
                print(via, os.waitstatus_to_exitcode(status), flush=True)
            over.set()
            thread.join()
            assert not wrong, wrong
        """)
    assert done.stdout == "direct 0\n" * 6 + "buffered 0\n" * 6, done


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


def test_what_decodes_faster_is_kept_for_the_next_process(tmp_path):
    data = np.arange(64 * 4096, dtype="<i4").reshape(64, 4096)
    path = stores.write(tmp_path / "a", data, (1, 4096), compress=True)
    program = f"""
        import time
        import headrace
        context = headrace.Context(wave_bytes=1 << 16, threads=2)
        array = headrace.open({str(path)!r}, device="host-staged", context=context)
        end = time.monotonic() + 1
        while time.monotonic() < end:
            array.read()
    """
    rates = tmp_path / "cache" / "headrace" / "placement.json"
    done = run(program, XDG_CACHE_HOME=str(tmp_path / "cache"), HEADRACE_PLACEMENT_FILE="off")
    assert done.returncode == 0, done.stderr
    assert not rates.exists()
    done = run(program, XDG_CACHE_HOME=str(tmp_path / "cache"), HEADRACE_PLACEMENT_FILE="")
    assert done.returncode == 0, done.stderr
    (kind, pair), = json.loads(rates.read_text())["kinds"].items()
    assert "2 threads" in kind and "host-staged" in kind and all(rate > 0 for rate in pair), (kind, pair)


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
        if number % 50 == 0:  # contexts own threads and engines
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
    assert memory_after - memory < 4096, f"{memory_after - memory} KiB"  # allows about 4 KiB per cycle


def _switches_of_other_threads():
    found = 0
    for thread in pathlib.Path("/proc/self/task").iterdir():
        if int(thread.name) != threading.get_native_id():
            found += int((thread / "status").read_text().partition("voluntary_ctxt_switches:")[2].split()[0])
    return found


def test_a_read_of_one_chunk_wakes_nobody(tmp_path):
    """Waking idle workers would take longer than such a read."""
    array = headrace.open(stores.write(tmp_path / "a", np.arange(100, dtype="<i4"), (10,)), context=headrace.Context(threads=4))
    array[0]
    time.sleep(0.1)
    before = _switches_of_other_threads()
    for i in range(200):
        array[i % 100]
    assert _switches_of_other_threads() - before < 50


def test_contexts_of_files_go_with_them(tmp_path):
    (tmp_path / "f").write_bytes(bytes(1 << 16))

    def cycle():
        with headrace.File(tmp_path / "f", context=headrace.Context(threads=1)) as file:
            assert file.read(np.empty(1 << 16, "u1")) == file.pread(np.empty(1 << 16, "u1")).get()

    for _ in range(8):  # each thread of the pool has had its turn
        cycle()
    files, threads, _ = _resources()
    for _ in range(20):
        cycle()
    files_after, threads_after, _ = _resources()
    assert files_after <= files and threads_after <= threads


def test_a_callback_that_knows_its_read_is_no_leak(big):
    holder = {}
    future = headrace.open(big).read_async(progress=lambda done, total: holder.get("read"))
    holder["read"] = future
    gone = weakref.ref(future)
    del future, holder
    gc.collect()
    assert gone() is None


def test_a_bar_on_a_terminal(big):
    pytest.importorskip("tqdm")
    code = f"""
import time, headrace
array = headrace.open({str(big)!r}, context=headrace.Context(threads=1))
start = time.monotonic()
array.read(progress=True)
took = time.monotonic() - start
array.read_many([slice(0, 128), slice(64, 256)], progress=True)
array.read_async(progress=True).result()
print("long" if took >= 0.25 else "short")
"""
    environment = {name: value for name, value in os.environ.items() if name != "TQDM_DISABLE"}
    environment["TQDM_MININTERVAL"] = "0"  # display every step, however fast the read is
    terminal, end = pty.openpty()
    termios.tcsetwinsize(terminal, (24, 100))
    with subprocess.Popen([sys.executable, "-c", code], stdin=end, stdout=end, stderr=end, env=environment) as process:
        os.close(end)
        shown = b""
        try:
            while part := os.read(terminal, 4096):
                shown += part
        except OSError:  # the process has ended
            pass
    os.close(terminal)
    assert process.returncode == 0, shown
    assert shown.count(b": 0 chunks [") == 3, shown
    # Steps are shown every 0.1 s: none if the read is shorter.
    assert b"/256 [" in shown or b"short" in shown, shown


def test_a_read_under_way_at_exit(big):
    done = run(f"""
        import headrace
        future = headrace.open({str(big)!r}).read_async()
        print("bye")
        """)
    assert (done.returncode, done.stdout, done.stderr) == (0, "bye\n", "")


def without_leaks(stderr):
    """Objects held by threads that no longer exist are never freed, which debug builds report as leaks."""
    return stderr.partition("nanobind: leaked")[0]


# Operations that may still run when the interpreter exits. Each program has `array`, `words` (strings) and `file`.
LEFT_AT_EXIT = {
    "a callback": "future = array.read_async(progress=lambda *_: time.sleep(0.02)); time.sleep(0.15)",
    # A single read may end before its first callback is due, after 0.1 s.
    "a callback that has just been called": """
        called = threading.Event()
        futures = [array.read_async(out=out, progress=lambda *_: called.set()) for out in [np.empty(array.shape, 'f4')] * 20]
        assert called.wait(20)
        """,
    "more than anybody waits for": "futures = [array.read_async(out=out) for out in [np.empty(array.shape, 'f4')] * 200]",
    "a future of nobody's": "array.read_async(progress=lambda *_: time.sleep(0.01)).__class__",
    "a thread that reads": "start(lambda: array.read())",
    "threads that read and tell": "[start(lambda: array.read(progress=lambda *_: time.sleep(0.005))) for _ in range(4)]",
    "a loop of short reads": "start(repeat(lambda: array.read(0)))",
    "loops of short reads": "[start(repeat(lambda: array.read(0, progress=lambda *_: None))) for _ in range(4)]",
    "a thread that waits": "future = array.read_async(); start(lambda: future.result())",
    "strings": "start(repeat(lambda: words[...]))",
    "few strings": "start(repeat(lambda: words[0]))",
    "a file": "start(repeat(lambda: file.read(bytearray(64 << 20))))",
    "transfers": "transfers = [file.pread(bytearray(16 << 20)) for _ in range(20)]",
    "opening": "start(repeat(lambda: headrace.open(BIG)))",
    "device memory": "start(repeat(lambda: array.read(slice(0, 2), device='host-staged').numpy()))",
    "a read by atexit": "atexit.register(lambda: print(int(array[5, 4096]), int(array.read()[6, 4096])))",
    "a read by atexit, beside others":
        "atexit.register(lambda: print(int(array[5, 4096]), int(array.read()[6, 4096]))); start(repeat(lambda: array.read(0)))",
    "a read that begins afterwards": """
        class Late:
            def __del__(self, array=array):
                print(int(array[5, 4096]), int(array.read(progress=lambda *_: None)[6, 4096]))
        late = Late()
        """,
}


@pytest.mark.parametrize("left", LEFT_AT_EXIT)
def test_what_is_under_way_at_exit(big, tmp_path, left):
    """Reads are cancelled, and no thread enters the interpreter after its end."""
    stores.write_strings(tmp_path / "words", ["x" * 20] * 100_000, repeat=20)
    with open(tmp_path / "f", "wb") as file:
        file.truncate(64 << 20)
    program = textwrap.dedent(f"""
        import atexit, threading, time
        def by_atexit_last():
            assert array[0, 4096] == 0
        atexit.register(by_atexit_last)
        import numpy as np
        import headrace
        BIG = {str(big)!r}
        array = headrace.open(BIG, context=headrace.Context(threads=2))
        words, file = headrace.open("words"), headrace.File("f")
        def start(work):
            threading.Thread(target=work, daemon=True).start()
        def repeat(work):
            def loop():
                while True:
                    work()
            return loop
        """) + textwrap.dedent(LEFT_AT_EXIT[left]) + '\ntime.sleep(0.03)\nprint("bye")\n'
    for _ in range(2):
        done = run(program)
        said = "bye\n5 6\n" if "array[5, 4096]" in LEFT_AT_EXIT[left] else "bye\n"
        assert (done.returncode, done.stdout, without_leaks(done.stderr)) == (0, said, ""), done


def test_a_child_that_exits_while_its_parent_reads(big):
    done = run(f"""
        import os, sys, threading, warnings
        import headrace
        warnings.simplefilter("ignore")
        array = headrace.open({str(big)!r})
        readers = [threading.Thread(target=lambda: [array.read(0) for _ in range(200)]) for _ in range(3)]
        for reader in readers:
            reader.start()
        future = array.read_async(progress=lambda *_: None)
        for _ in range(20):
            pid = os.fork()
            if pid == 0:
                sys.exit(5)  # with everything that the interpreter does then
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 5
        for reader in readers:
            reader.join()
        print(int(future.result()[5, 4096]))
        """)
    assert (done.returncode, done.stdout, without_leaks(done.stderr)) == (0, "5\n", "")


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


def test_a_token_is_asked_while_others_read(big):
    """Cancelled repeatedly from another thread: a read is correct or cancelled, and one without the token is correct."""
    array = headrace.open(big)
    expected = array.read(slice(0, 32))
    outcomes = {"right": 0, "cancelled": 0}
    lock = threading.Lock()
    wrong = []

    def read(token):
        try:
            got = array.read(slice(0, 32), cancel=token)
            outcome = "right" if np.array_equal(got, expected) else "wrong"
        except headrace.CancelledError:
            outcome = "cancelled"
        with lock:
            if outcome == "wrong" or (token is None and outcome != "right"):
                wrong.append((token, outcome))
            else:
                outcomes[outcome] += 1

    for i in range(10):
        token = headrace.Cancel()
        readers = [threading.Thread(target=read, args=(token if j % 3 else None,)) for j in range(6)]
        for reader in readers:
            reader.start()
        time.sleep(0.002 * (i % 4))
        token.ask()
        for reader in readers:
            reader.join()
    assert not wrong
    assert outcomes["right"] >= 20 and sum(outcomes.values()) == 60


def test_a_token_in_a_forked_child(big):
    """The child can use its token, which is independent of the parent's after the fork."""
    done = run(f"""
        import os, headrace
        array = headrace.open({str(big)!r})
        token = headrace.Cancel()
        array.read(slice(0, 1), cancel=token)
        pid = os.fork()
        if pid == 0:
            token.ask()
            try:
                array.read(slice(0, 1), cancel=token)
                os._exit(1)
            except headrace.HeadraceError:
                os._exit(0 if token.asked() else 2)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert not token.asked()
        array.read(slice(0, 1), cancel=token)
        print("ok")
        """)
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr


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
