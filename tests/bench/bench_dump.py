"""How fast dumps are read: MB of XML a second, over one core, and over a plain bz2 line loop.

    python tests/bench/bench_dump.py                    # 500 MB, some ten minutes on two cores
    python tests/bench/bench_dump.py --megabytes 50

Runs are paired: in each round every reader takes its turn on the same file, and ratios are medians
of the rounds' ratios. Memory is the most that this process and its children hold at a time. Seconds
of CPU, children included, tell what a busy machine hides: where both readers need as many, the work
is shared without loss.
"""

from __future__ import annotations

import argparse
import bz2
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
from make_dump import FORMS, make_dump
from peak import Peak

from jfinteb.build.sources.dump import read_dump
from jfinteb.build.sources.wikipedia import CATEGORY, _article

_MB = 10**6


def resident() -> int:
    """Bytes (RSS) of this process and its children."""
    me = psutil.Process()
    total = 0
    for process in (me, *me.children(recursive=True)):
        try:
            total += process.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return total


def line_loop(path: Path) -> int:
    """What one writes first: unpack, and look at each line."""
    found = 0
    needle = CATEGORY.encode()
    with bz2.open(path) if path.suffix == ".bz2" else path.open("rb") as lines:
        for line in lines:
            found += needle in line
    return found


def reader(workers: int) -> Callable[[Path], int]:
    """The dump reader with so many processes; returns the articles it finds."""
    return lambda path: len(read_dump(path, [CATEGORY], _article, workers=workers)[0])


def measure(path: Path, size: int, cores: int, rounds: int) -> dict[str, Any]:
    """Medians over rounds for one file."""
    readers = {"line loop": line_loop, "1 core": reader(1), f"{cores} cores": reader(cores)}
    seconds: dict[str, list[float]] = {name: [] for name in readers}
    cpu: dict[str, list[float]] = {name: [] for name in readers}
    peak = dict.fromkeys(readers, 0)
    found = set()
    for _ in range(rounds):
        for name, read in readers.items():
            with Peak(resident, seconds=0.05) as memory:
                start, used = time.perf_counter(), sum(os.times()[:4])
                found.add(read(path))
                seconds[name].append(time.perf_counter() - start)
                cpu[name].append(sum(os.times()[:4]) - used)
            peak[name] = max(peak[name], memory.bytes)
    assert len(found) == 1, found
    many = seconds[f"{cores} cores"]
    return {
        "file_mb": path.stat().st_size / _MB,
        "articles": found.pop(),
        "mb_a_second": {n: size / _MB / statistics.median(t) for n, t in seconds.items()},
        "speed_up_over_1_core": _ratio(seconds["1 core"], many),
        "ratio_to_line_loop": _ratio(seconds["line loop"], many),
        "ratio_to_line_loop_1_core": _ratio(seconds["line loop"], seconds["1 core"]),
        "peak_mb": {n: b / _MB for n, b in peak.items()},
        "cpu_seconds": {name: statistics.median(times) for name, times in cpu.items()},
        "seconds": seconds,
    }


def _ratio(slow: list[float], fast: list[float]) -> float:
    return statistics.median(a / b for a, b in zip(slow, fast, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--megabytes", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cores", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=list(FORMS))
    args = parser.parse_args()
    results: dict[str, Any] = {"megabytes": args.megabytes, "cores": args.cores}
    with tempfile.TemporaryDirectory() as folder:
        for form in args.forms:
            path = Path(folder) / ("dump.xml" if form == "xml" else "dump.xml.bz2")
            size = make_dump(path, args.megabytes, form)
            results[form] = measure(path, size, args.cores, args.rounds)
            path.unlink()
    print(json.dumps(results, indent=1))
    print("\n| dump | line loop | 1 core | all cores | speed-up | to line loop | peak |")
    print("|---|---|---|---|---|---|---|")
    for form in args.forms:
        row = results[form]
        rates = " | ".join(f"{rate:.1f} MB/s" for rate in row["mb_a_second"].values())
        print(
            f"| {form} | {rates} | {row['speed_up_over_1_core']:.2f} | "
            f"{row['ratio_to_line_loop']:.2f} | {max(row['peak_mb'].values()):.0f} MB |"
        )


if __name__ == "__main__":
    main()
