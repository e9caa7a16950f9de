"""Writes storages of several sizes to a file and reads them back through torch.cuda.gds: torch_round_trip.py FOLDER"""

import os
import sys

import torch
from torch.cuda import gds

path = os.path.join(sys.argv[1], "torch.bin")
SIZES = (4096, 4 << 20, 256 << 20)
for size in SIZES:
    source = torch.randint(0, 255, (size,), dtype=torch.uint8, device="cuda")
    torch.cuda.synchronize()  # calls are not ordered after work on streams
    file = gds.GdsFile(path, os.O_CREAT | os.O_RDWR)
    gds.gds_register_buffer(source.untyped_storage())
    file.save_storage(source.untyped_storage(), 0)
    gds.gds_deregister_buffer(source.untyped_storage())
    target = torch.empty_like(source)
    file.load_storage(target.untyped_storage(), 0)
    assert torch.equal(source, target), size
    del file
    assert os.path.getsize(path) == size
    with open(path, "rb") as plain:
        assert plain.read() == source.cpu().numpy().tobytes(), size
    os.unlink(path)
print(f"{len(SIZES)} passed")
