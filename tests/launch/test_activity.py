"""What a process does, as the system tells it."""

import subprocess
import sys
import time
from collections.abc import Mapping

from chaos.launch.standstill import (
    ActivitySample,
    is_idle,
)
from chaos.processes.activity import Activity, measure_activities


def sampled(*activities: Mapping[int, Activity]) -> list[ActivitySample]:
    return [ActivitySample(float(second), each) for second, each in enumerate(activities)]


def test_a_loop_that_looks_a_hundred_times_a_second_is_idle() -> None:
    looking = [{1: Activity(cpu_s=0.03 * second, is_busy=second % 6 == 0)} for second in range(11)]
    assert is_idle(sampled(*looking), for_s=10)


def test_what_a_process_does_is_read_from_the_system() -> None:
    code = "import time\nprint(flush=True)\nwhile True: time.sleep(0.01)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            before = measure_activities([process.pid])[process.pid]
            time.sleep(0.5)
            after = measure_activities([process.pid])[process.pid]
        finally:
            process.kill()

    assert after.wakes[process.pid] - before.wakes[process.pid] > 5
    assert after.cpu_s - before.cpu_s < 0.3
    assert measure_activities([process.pid]) == {}
