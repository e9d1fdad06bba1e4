"""The allocator's thresholds change when a program asks for it, and only then.

Page faults are counted, not seconds: every array larger than 32 MiB costs fresh pages with glibc's
own thresholds, and none once freed memory is kept. Each test counts in a process of its own.
"""

import json
import platform
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")

PROGRAM = """
import json, resource, sys
import torch
from handful.nn import TransformerLayer, keep_freed_memory, return_freed_memory

def faults(count=12 * 2**20):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        torch.ones(count)  # 48 MiB, freed at once
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

faults()
counts = [faults()]
TransformerLayer(0, 1, 8, heads=2)
counts.append(faults())
taken = [keep_freed_memory(), keep_freed_memory()]
faults()
counts.append(faults())
taken.append(return_freed_memory())
counts.append(faults(64 * 2**20))  # larger than any hole that the heap may have left
print(json.dumps([counts, taken]))
"""


def test_only_keep_freed_memory_changes_the_allocator_and_it_can_be_undone():
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=120
    )
    (fresh, with_layer, kept, returned), taken = json.loads(found.stdout)
    assert taken == [True, True, True]
    assert fresh >= 100, "arrays of this size cost no pages: the count shows nothing"
    assert with_layer > 0.5 * fresh, "building a layer changed the allocator"
    assert kept < 0.1 * fresh
    assert returned > fresh
