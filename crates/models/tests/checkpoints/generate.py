"""Writes the checkpoints of this folder and the values that a reader must find in them, as safetensors.

    python generate.py          # ran with torch 2.15.0, safetensors 0.8, Python 3.11

`torch.load` reads every checkpoint back here and must find the same, in the same order. The `malicious_*` files would run a shell command if a full
unpickler read them; this script only writes them.
"""

import collections
import io
import os
import pickle
import struct
import zipfile

import torch
from safetensors.torch import load_file, save_file
from torch import nn

HERE = os.path.dirname(os.path.abspath(__file__))


def path(name):
    return os.path.join(HERE, name)


class Small(nn.Module):
    """The kinds of modules that published models consist of."""

    def __init__(self):
        super().__init__()
        self.embedding_h = nn.Embedding(5, 4)
        self.proj = nn.Linear(4, 4, bias=False)
        self.batch_norm1_h = nn.BatchNorm1d(4)
        self.layer_norm1_h = nn.LayerNorm(4)
        self.MLP_layer = nn.Sequential(nn.Linear(4, 2), nn.ReLU(), nn.Linear(2, 1))


def small():
    torch.manual_seed(41)
    model = Small()
    model.batch_norm1_h(torch.randn(7, 4))
    return model.state_dict()


def awkward():
    """Views: transposed, sliced, shared, expanded, one number, and nothing at all."""
    base = torch.arange(24, dtype=torch.float32).reshape(4, 6) / 8
    return collections.OrderedDict(
        whole=base,
        transposed=base.t(),
        columns=base[:, 1:5:2],
        row=base[2],
        cube=base.reshape(2, 2, 6).permute(2, 0, 1),
        tied=base,
        last=base[3, 5],
        expanded=base[1:2, :3].expand(2, 3),
        ones=base[0:1, 0:1],
        nothing=torch.zeros(0, 3),
        number=torch.tensor(-7),
    )


def types():
    halves = [0.0, -0.0, 1.0, -1.5, 65504.0, 6e-8, 6.1e-5, float("inf"), float("-inf"), 1 / 3]
    return {
        "f16": torch.tensor(halves, dtype=torch.float16),
        "bf16": torch.tensor([0.0, -0.0, 1 / 3, 3e38, 1e-40, float("inf")], dtype=torch.bfloat16),
        "f32": torch.tensor([1 / 3, 1e-45, 3.4e38, -0.0], dtype=torch.float32),
        "f64": torch.tensor([1 / 3, 5e-324, 1.7e308, -2.5], dtype=torch.float64),
        "bool": torch.tensor([True, False, True]),
        "u8": torch.tensor([0, 128, 255], dtype=torch.uint8),
        "i8": torch.tensor([-128, -1, 127], dtype=torch.int8),
        "i16": torch.tensor([-32768, 2, 32767], dtype=torch.int16),
        "i32": torch.tensor([-(2**31), 3, 2**31 - 1], dtype=torch.int32),
        "i64": torch.tensor([-(2**63), 4, 2**63 - 1], dtype=torch.int64),
    }


def expect(name, state):
    """The values of a state dictionary; copies, since safetensors wants no shared memory."""
    plain = {key: tensor.detach().clone().contiguous() for key, tensor in state.items()}
    save_file(plain, path(name + ".safetensors"), metadata={"order": "\n".join(state)})
    os.chmod(path(name + ".safetensors"), 0o644)


def check(name, state, inside=None):
    """That PyTorch reads `state` from a checkpoint."""
    found = torch.load(path(name + ".pt"), weights_only=False)
    found = found[inside] if inside else found
    assert list(found) == list(state), name
    for key, tensor in state.items():
        assert found[key].dtype == tensor.dtype and torch.equal(found[key], tensor), (name, key)


def write(name, content, inside=None, **options):
    torch.save(content, path(name + ".pt"), **options)
    check(name, content[inside] if inside else content, inside)


def with_training(state):
    """What training programs save beside the model."""
    parameters = [nn.Parameter(torch.ones(2, 2))]
    optimizer = torch.optim.Adam(parameters, lr=1e-3)
    parameters[0].sum().backward()
    optimizer.step()
    return {
        "epoch": 12,
        "best": 0.25,
        "seeds": (41, 95, 2**80),
        "name": "GraphTransformer",
        "shape": torch.Size([2, 3]),
        "finished": None,
        "losses": [0.5, 0.25],
        "optimizer": optimizer.state_dict(),
        "state_dict": state,
    }


def repack(source, target, change, method=zipfile.ZIP_STORED):
    """The entries of an archive again, through `change(name, content)`, as another zip writer lays them out."""
    with zipfile.ZipFile(path(source + ".pt")) as old, zipfile.ZipFile(path(target + ".pt"), "w") as new:
        for entry in old.infolist():
            content = change(entry.filename, old.read(entry.filename))
            new.writestr(zipfile.ZipInfo(entry.filename), content, compress_type=method)


def big_endian(source, target):
    """What a big-endian machine writes: `torch.load` swaps it back."""

    def change(name, content):
        if name.endswith("/byteorder"):
            return b"big"
        # All storages of the source have elements of four bytes.
        return b"".join(content[i : i + 4][::-1] for i in range(0, len(content), 4)) if "/data/" in name else content

    repack(source, target, change)


def zip64(source, target):
    """Sizes and offsets in the 64-bit fields, as in archives of more than 4 GiB."""
    content = bytearray(open(path(source + ".pt"), "rb").read())
    end = content.rindex(b"PK\x05\x06")
    size, start = struct.unpack_from("<II", content, end + 12)
    directory, at = bytearray(), start
    while at < start + size:
        header = bytearray(content[at : at + 46])
        compressed, length, name = struct.unpack_from("<IIH", header, 20)
        extra, comment = struct.unpack_from("<HH", header, 30)
        (offset,) = struct.unpack_from("<I", header, 42)
        wide = struct.pack("<HHQQQ", 1, 24, length, compressed, offset)
        struct.pack_into("<II", header, 20, 0xFFFFFFFF, 0xFFFFFFFF)
        struct.pack_into("<HH", header, 30, len(wide), 0)
        struct.pack_into("<I", header, 42, 0xFFFFFFFF)
        directory += header + content[at + 46 : at + 46 + name] + wide
        at += 46 + name + extra + comment
    entries = struct.unpack_from("<H", content, end + 10)[0]
    record = struct.pack("<4sQHHIIQQQQ", b"PK\x06\x06", 44, 45, 45, 0, 0, entries, entries, len(directory), start)
    locator = struct.pack("<4sIQI", b"PK\x06\x07", 0, start + len(directory), 1)
    last = struct.pack("<4sHHHHIIH", b"PK\x05\x06", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    with open(path(target + ".pt"), "wb") as file:
        file.write(content[:start] + directory + record + locator + last)


def legacy_parts():
    """A storage of which tensors use parts: `view_metadata`, which PyTorch reads but has not written for years."""

    class Storage:
        def __init__(self, *identifier):
            self.identifier = identifier

    class Tensor:
        def __init__(self, *arguments):
            self.arguments = arguments

        def __reduce__(self):
            return torch._utils._rebuild_tensor_v2, self.arguments

    class Pickler(pickle._Pickler):
        def persistent_id(self, value):
            return value.identifier if isinstance(value, Storage) else None

    def tensor(part, offset, *shape):
        storage = Storage("storage", torch.FloatStorage, "root", "cpu", 10, part)
        strides = torch.empty(shape).stride()
        return Tensor(storage, offset, shape, strides, False, collections.OrderedDict())

    content = {"all": tensor(None, 0, 2, 5), "part": tensor(("part", 4, 5), 1, 2, 2)}
    file = io.BytesIO()
    pickle.dump(torch.serialization.MAGIC_NUMBER, file, protocol=2)
    pickle.dump(torch.serialization.PROTOCOL_VERSION, file, protocol=2)
    pickle.dump({"protocol_version": 1001, "little_endian": True, "type_sizes": {}}, file, protocol=2)
    Pickler(file, protocol=2).dump(content)
    pickle.dump(["root"], file, protocol=2)
    file.write(struct.pack("<q10f", 10, *(i / 4 for i in range(10))))
    with open(path("legacy_parts.pt"), "wb") as out:
        out.write(file.getvalue())
    whole = torch.arange(10) / 4
    state = {"all": whole.reshape(2, 5), "part": whole[5:9].reshape(2, 2)}
    expect("parts", state)
    check("legacy_parts", state)


def transformer(name):
    """A Graph Transformer after three steps, from the parity fixtures, whose predictions are known."""
    tensors = load_file(path(f"../fixtures/{name}.safetensors"))
    state = collections.OrderedDict()
    for key, value in tensors.items():
        prefix, _, rest = key.partition(".")
        if prefix in ("adam3", "bn3"):
            state[rest] = value
            if rest.endswith("running_var"):
                state[rest.replace("running_var", "num_batches_tracked")] = torch.tensor(3)
    return state


class Malicious:
    def __reduce__(self):
        return os.system, ("touch was_run_by_a_checkpoint",)


def malicious():
    content = collections.OrderedDict(weight=torch.ones(2), extra=Malicious())
    torch.save(content, path("malicious_zip.pt"))
    torch.save(content, path("malicious_zip_protocol_4.pt"), pickle_protocol=4)
    torch.save(content, path("malicious_legacy.pt"), _use_new_zipfile_serialization=False)
    for protocol in (0, 2, 4):
        with open(path(f"malicious_plain_{protocol}.pt"), "wb") as file:
            pickle.dump(Malicious(), file, protocol=protocol)


def main():
    legacy = {"_use_new_zipfile_serialization": False}
    state = small()
    expect("small", state)
    write("zip", state)
    write("legacy", state, **legacy)
    write("zip_protocol_4", state, pickle_protocol=4)
    for key in ("state_dict", "model_state_dict", "model"):
        write(f"nested_{key}", {"epoch": 3, key: state}, key)
    write("training", with_training(state), "state_dict")
    write("training_legacy", with_training(state), "state_dict", **legacy)
    torch.serialization.set_crc32_options(False)
    write("no_checksums", state)
    torch.serialization.set_crc32_options(True)
    zip64("zip", "zip64")
    check("zip64", state)
    repack("zip", "compressed", lambda name, content: content, zipfile.ZIP_DEFLATED)

    singles = collections.OrderedDict((k, nn.Parameter(v)) for k, v in state.items() if v.is_floating_point())
    expect("parameters", singles)
    write("parameters", singles)
    big_endian("parameters", "big_endian")
    check("big_endian", singles)

    for name, state in (("awkward", awkward()), ("types", types())):
        expect(name, state)
        write(name, state)
        write(f"{name}_legacy", state, **legacy)
    legacy_parts()
    malicious()
    state = transformer("gt_edge_bn_lap_sparse")
    write("transformer", state)
    write("transformer_legacy", state, **legacy)


if __name__ == "__main__":
    main()
