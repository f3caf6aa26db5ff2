"""Programs that are run beside the server: each in a process group of its own, which ends with the run however that ends."""

import ctypes
import os
import signal
import subprocess

PR_SET_PDEATHSIG = 1


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def run(words, *, timeout=None, cwd=None, environment=None) -> subprocess.CompletedProcess:
    """Runs a program and returns its output. Its whole group is killed when it takes longer than `timeout` seconds, or when
    this process is interrupted."""
    process = subprocess.Popen(
        [str(word) for word in words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        cwd=cwd, env=environment, start_new_session=True, preexec_fn=_end_with_parent,
    )
    try:
        output, errors = process.communicate(timeout=timeout)
    except BaseException as error:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
        if isinstance(error, subprocess.TimeoutExpired):
            raise TimeoutError(f"not done after {timeout:.0f} s") from None
        raise
    return subprocess.CompletedProcess(words, process.returncode, output, errors)
