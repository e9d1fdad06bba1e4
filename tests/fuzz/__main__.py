"""`python -m fuzz --minutes 30`: the corpus, then random cases until the time is over."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path

from fuzz.cases import MOST_MEMORY, Bench, Outcome, corpus, peak_memory
from fuzz.subjects import SUBJECTS

WARM = 10
"""Cases of a reader after which its libraries are loaded and its caches have what they keep."""


def main() -> None:
    options = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    options.add_argument("--minutes", type=float, default=1.0)
    options.add_argument("--seed", type=int, default=0, help="of the first case")
    options.add_argument("--only", choices=list(SUBJECTS), help="one reader")
    options.add_argument("--cases", type=int, default=10**9, help="at most")
    options.add_argument("--json", type=Path, help="write the figures to this file")
    options.add_argument("--light", action="store_true", help="without the corpus' largest cases")
    options.add_argument("--corpus", action=argparse.BooleanOptionalAction, default=True)
    given = options.parse_args()
    warnings.simplefilter("ignore")
    counts: Counter[tuple[str, str]] = Counter()
    wrong: list[Outcome] = []
    slowest: dict[str, float] = {}
    met: Counter[str] = Counter()
    grown: Counter[str] = Counter()
    start = time.monotonic()

    def keep(outcome: Outcome) -> None:
        counts[outcome.subject, outcome.kind] += 1
        slowest[outcome.subject] = max(slowest.get(outcome.subject, 0.0), outcome.seconds)
        met[outcome.subject] += 1
        if met[outcome.subject] > WARM:
            grown[outcome.subject] += outcome.grown
        if not outcome.fine:
            wrong.append(outcome)
            print(f"{outcome.kind}: {outcome.subject}, {outcome.how}\n{outcome.what}", flush=True)

    with tempfile.TemporaryDirectory(prefix="handful-fuzz-") as folder:
        bench = Bench(Path(folder))
        if given.corpus and given.only is None:
            for entry in corpus():
                if not (given.light and entry.get("heavy")):
                    keep(bench.corpus_case(entry))
        seed = given.seed
        while time.monotonic() - start < 60 * given.minutes and seed - given.seed < given.cases:
            keep(bench.seeded_case(seed, given.only))
            seed += 1
    figures = {
        "seconds": round(time.monotonic() - start),
        "processor_seconds": round(time.process_time()),
        "cases": sum(counts.values()),
        "wrong": len(wrong),
        "peak_memory_MB": peak_memory() // 10**6,
        "readers": {
            name: {
                **{kind: count for (one, kind), count in sorted(counts.items()) if one == name},
                "slowest_s": round(slowest.get(name, 0.0), 1),
                "grown_MB": round(grown[name] / 10**6, 1),
            }
            for name in SUBJECTS
        },
    }
    text = json.dumps(figures, indent=1)
    print(text)
    if given.json is not None:
        given.json.write_text(text + "\n")
    sys.exit(bool(wrong) or peak_memory() > MOST_MEMORY)


if __name__ == "__main__":
    main()
