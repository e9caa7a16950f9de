#!/usr/bin/env python3
"""Trains a U-Net to predict the next time step of a Zarr store, and reports the share of time spent waiting for data.

  python examples/train_unet.py STORE [--epochs 2] [--batch-size 4] [--device cuda]
  python examples/train_unet.py STORE --crop 128 --batch-size 64 --shuffle block
  torchrun --nproc-per-node 2 examples/train_unet.py STORE --parallel fsdp
  headrace stats STORE -o stats.json; python examples/train_unet.py STORE --statistics stats.json

STORE: a group whose arrays with dimensions time, latitude, longitude are the channels, or one array with dimensions time, channel,
latitude, longitude. Needs PyTorch, and matplotlib for --plot. With --checkpoint FILE, a later call resumes where the previous one
stopped, even in the middle of an epoch and on another number of ranks. --bars also trains the same number of steps on one batch kept
in memory, and loads as many batches without training: the three figures show whether the model or the storage is the bottleneck.
"""
import argparse
import itertools
import json
import os
import statistics
import time

import torch
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict

import headrace


def make_loader(args, device):
    """The five steps from a store to batches in device memory: open, cut into windows, shuffle, normalise, batch."""
    store = headrace.open(args.store)
    is_array = isinstance(store, headrace.Array)
    fields = store if is_array else {name: array for name, array in store.arrays() if array.dims == ("time", "latitude", "longitude")}
    return headrace.Loader(
        fields, dims=("time", "channel", "latitude", "longitude") if is_array else None, stack=None if is_array else "fields",
        input_dims={"time": 2}, input_overlap={"time": 1}, outputs={"x": {"time": 0}, "y": {"time": 1}},
        crops={"latitude": args.crop, "longitude": args.crop} if args.crop else None, crops_per_frame=args.crops_per_frame,
        crop_wrap=["longitude"] if args.crop else (), normalise=args.statistics,
        shuffle={"none": False, "full": True, "block": "block"}[args.shuffle], block_groups=args.block_groups, partitions=args.partitions, seed=args.seed,
        batch_size=args.batch_size, cache_bytes=int(args.cache_gb * 1e9), cache=args.cache, dtype="float32", device=device)


class UNet(nn.Module):
    def __init__(self, channels, width=32):
        super().__init__()
        self.down = nn.ModuleList([block(channels, width), block(width, 2 * width), block(2 * width, 4 * width)])
        self.middle = block(4 * width, 8 * width)
        self.up = nn.ModuleList([block(12 * width, 4 * width), block(6 * width, 2 * width), block(3 * width, width)])
        self.out = nn.Conv2d(width, channels, 1)

    def forward(self, x):
        kept = []
        for down in self.down:
            x = down(x)
            kept.append(x)
            x = nn.functional.max_pool2d(x, 2)
        x = self.middle(x)
        for up in self.up:
            skip = kept.pop()
            x = up(torch.cat([nn.functional.interpolate(x, size=skip.shape[-2:]), skip], 1))
        return self.out(x)


def block(inputs, outputs):
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1), nn.GroupNorm(8, outputs), nn.SiLU(),
                         nn.Conv2d(outputs, outputs, 3, padding=1), nn.SiLU())


def pair_of(batch):
    """x and y as [batch, channel, latitude, longitude]: merges the time axis, of length 1, with the adjacent channel axis."""
    return tuple(batch[name].torch().flatten(1, 2) for name in ("x", "y"))


class Training:
    def __init__(self, args, device, channels):
        self.device, self.args = device, args
        self.world = torch.distributed.get_world_size() if torch.distributed.is_initialized() else 1
        torch.manual_seed(args.seed)
        model = UNet(channels, args.width).to(device)
        if self.world > 1 and args.parallel == "fsdp":
            mesh = torch.distributed.init_device_mesh(device.type, (self.world,))
            for part in [*model.down, model.middle, *model.up, model]:
                torch.distributed.fsdp.fully_shard(part, mesh=mesh)
        elif self.world > 1:
            model = nn.parallel.DistributedDataParallel(model.to(memory_format=torch.channels_last), device_ids=[device.index] if device.type == "cuda" else None)
        else:
            model = model.to(memory_format=torch.channels_last)
        self.model, self.optimizer = model, torch.optim.AdamW(model.parameters(), lr=1e-3, fused=device.type == "cuda")

    def step(self, x, y):
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
            loss = nn.functional.mse_loss(self.model(x), y)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def save(self, path, state):
        model, optimizer = get_state_dict(self.model, self.optimizer, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
        if int(os.environ.get("RANK", 0)) == 0:  # all ranks must call get_state_dict(), but only one writes
            torch.save({"model": model, "optimizer": optimizer, **state}, path + ".new")
            os.replace(path + ".new", path)

    def load(self, path):
        saved = torch.load(path, map_location="cpu", weights_only=True)
        set_state_dict(self.model, self.optimizer, model_state_dict=saved.pop("model"), optim_state_dict=saved.pop("optimizer"),
                       options=StateDictOptions(full_state_dict=True))
        return saved


def say(text):
    if int(os.environ.get("RANK", 0)) == 0:
        print(text, flush=True)


def seconds_per_step(training, batches, steps, warmup, train=True):
    """Mean time of `steps` batches after `warmup` others. Synchronises with the device before reading the clock."""
    def wait():
        if training.device.type == "cuda":
            torch.cuda.synchronize(training.device)

    started, done = 0.0, 0
    for x, y in itertools.islice(batches, warmup + steps):
        if done == warmup:
            wait()
            started = time.perf_counter()
        if train:
            training.step(x, y)
        done += 1
    wait()
    return (time.perf_counter() - started) / max(1, done - warmup)


def endless(loader):
    while True:
        yield from map(pair_of, loader)


def three_bars(args, training, loader):
    warmup, steps = args.warmup, args.bars
    if args.cache_gb:
        for _ in loader:  # one epoch to fill the cache
            pass
    fixed = tuple(tensor.clone() for tensor in pair_of(next(iter(loader))))
    bars = {"synthetic": lambda: seconds_per_step(training, itertools.repeat(fixed), steps, warmup),
            "real": lambda: seconds_per_step(training, endless(loader), steps, warmup),
            "loader": lambda: seconds_per_step(training, endless(loader), steps, warmup, train=False)}
    # In turns, because a GPU's clock changes with its temperature.
    rounds = [{name: bar() for name, bar in bars.items()} for _ in range(args.rounds)]
    seconds = {name: statistics.median(each[name] for each in rounds) for name in bars}
    ratio = statistics.median(each["synthetic"] / each["real"] for each in rounds)
    say(f"{'':10} {'ms a step':>10} {'samples/s':>10}   ({training.world} ranks, {steps} steps)")
    for name, each in seconds.items():
        rate = args.batch_size * training.world / each
        say(f"{name:10} {each * 1e3:10.2f} {rate:10.1f}   {'#' * round(40 * min(1, min(seconds.values()) / each))}")
    say(f"real / synthetic: {ratio:.3f}")
    say(json.dumps({"ranks": training.world, "device": loader_device(training), "crop": args.crop, "batch_size": args.batch_size,
                    "shuffle": args.shuffle, "crops_per_frame": args.crops_per_frame, "block_groups": args.block_groups, "cache_gb": args.cache_gb, "cache": args.cache, "partitions": args.partitions,
                    "parallel": args.parallel, "steps": steps, "rounds": args.rounds, **{f"{name}_ms": round(each * 1e3, 3) for name, each in seconds.items()},
                    "kept_chunks": loader.stats["reads"].kept_chunks, "kept_encoded_chunks": loader.stats["reads"].kept_encoded_chunks,
                    "bus_bytes": loader.stats["reads"].bus_bytes, "read_bytes": loader.stats["reads"].read_bytes, "chunks": loader.stats["reads"].chunks,
                    "real_to_synthetic": round(ratio, 4)}))


def loader_device(training):
    return torch.cuda.get_device_name(training.device) if training.device.type == "cuda" else "CPU"


def train(args, training, loader):
    losses, first = [], 0
    if args.checkpoint and os.path.exists(args.checkpoint):
        saved = training.load(args.checkpoint)
        loader.load_state_dict(saved["loader"])
        losses, first = saved["losses"], saved["loader_epoch"]
        say(f"goes on in epoch {first} behind step {len(losses)}")
    started, steps = time.perf_counter(), len(losses)
    for epoch in range(first, args.epochs):
        fresh = []  # losses stay on the device, so that no step waits for a number
        for batch in loader:
            fresh.append(training.step(*pair_of(batch)))
            if len(losses) + len(fresh) == args.stop_at:
                break
        losses += [float(loss) for loss in fresh]
        state = {"loader": loader.state_dict(), "losses": losses, "loader_epoch": epoch if len(losses) == args.stop_at else epoch + 1}
        if args.checkpoint:
            training.save(args.checkpoint, state)
        say(f"epoch {epoch}: {len(losses)} steps, loss {sum(losses[-10:]) / max(1, len(losses[-10:])):.4f}")
        if len(losses) == args.stop_at:
            break
    seconds = time.perf_counter() - started
    waited = loader.stats["wait_seconds"]
    say(f"{(len(losses) - steps) * args.batch_size * training.world / seconds:.1f} samples/s; waited for data {waited:.2f} s of {seconds:.2f} s")
    return losses


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store")
    parser.add_argument("--statistics", metavar="FILE", help="mean and deviation of each array, from headrace stats -o")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=4, help="of each rank")
    parser.add_argument("--crop", type=int, default=0, help="train on squares of so many points instead of whole frames")
    parser.add_argument("--crops-per-frame", type=int, default=1)
    parser.add_argument("--shuffle", choices=("none", "full", "block"), default="full")
    parser.add_argument("--block-groups", type=int, default=16, help="chunks whose samples are mixed by --shuffle block")
    parser.add_argument("--partitions", type=int, default=1, help="parts of the chunks; with one a rank, each reads and caches only its own (--shuffle block)")
    parser.add_argument("--cache-gb", type=float, default=0, help="device memory for chunks, which later epochs do not read again")
    parser.add_argument("--cache", choices=("decoded", "encoded"), default="decoded", help="how they are kept there: encoded, more of them fit")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--width", type=int, default=32, help="channels of the model's first level")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--parallel", choices=("ddp", "fsdp"), default="ddp", help="under torchrun")
    parser.add_argument("--checkpoint", metavar="FILE")
    parser.add_argument("--stop-at", type=int, default=0, metavar="STEP", help="stop behind this step, as if interrupted")
    parser.add_argument("--bars", type=int, default=0, metavar="STEPS", help="compare real, synthetic and loading alone instead")
    parser.add_argument("--rounds", type=int, default=1, help="of --bars, in turns; the medians are printed")
    parser.add_argument("--warmup", type=int, default=8, help="steps before --bars measures")
    parser.add_argument("--plot", metavar="FILE", help="the learning curve as a picture")
    args = parser.parse_args()

    device = torch.device("cpu")
    if args.device == "cuda":
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
        torch.cuda.set_device(device)
        torch.backends.cudnn.benchmark = True
    if "RANK" in os.environ:
        torch.distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
    loader = make_loader(args, "host" if device.type == "cpu" else str(device))
    x, _ = pair_of(next(iter(loader)))
    training = Training(args, device, x.shape[1])
    if args.bars:
        three_bars(args, training, loader)
    else:
        loader = make_loader(args, "host" if device.type == "cpu" else str(device))
        losses = train(args, training, loader)
        if args.plot:
            import matplotlib
            matplotlib.use("agg")
            from matplotlib import pyplot
            pyplot.plot(losses)
            pyplot.xlabel("step")
            pyplot.ylabel("loss")
            pyplot.savefig(args.plot)
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
