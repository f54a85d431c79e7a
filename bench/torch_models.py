"""The published Graph Transformer in PyTorch, with graphs to run it on; and the networks that it is compared with.

One network, three ways to attend over the edges: plain PyTorch (gather and index_add), PyG (MessagePassing) and DGL
(as the published code does it). Parameters have the names and shapes of the published state_dicts. Needs torch and
numpy; torch_geometric or dgl only for their attention. Used by `compare.py` and by the generator of the parity
fixtures.

An edge (src, dst) carries a message from src to dst: node dst attends with its query to the keys of its in-neighbours.
"""
from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, replace
from typing import Any, Callable

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torch_baselines import baseline_layer


@dataclass
class Config:
    model: str  # gt | gt_edge (with edge features) | gcn | gat | gatedgcn
    task: str  # graph_reg | node_cls
    n_layers: int = 10
    hidden: int = 64
    heads: int = 8
    norm: str = "bn"  # bn | ln
    pe: str = "none"  # none | lap | wl
    pe_dim: int = 8
    wl_vocab: int = 37
    n_node_types: int = 28
    n_edge_types: int = 4  # 0: every edge carries the constant 1 through a Linear(1, hidden)
    n_out: int = 1

    @property
    def transformer(self) -> bool:
        return self.model in ("gt", "gt_edge")

    @property
    def edge_stream(self) -> bool:
        return self.model in ("gt_edge", "gatedgcn")


@dataclass
class Batch:
    """A disjoint union of graphs."""

    src: Tensor  # [E] i64
    dst: Tensor  # [E] i64
    node_type: Tensor  # [N] i64
    graph_id: Tensor  # [N] i64, non-decreasing
    n_graphs: int
    edge_type: Tensor  # [E] i64
    lap_pe: Tensor | None  # [N, k]
    wl_pe: Tensor | None  # [N] i64
    target: Tensor  # [G, 1] float or [N] i64
    graph: Any = None  # what the library of the attention wants instead of src and dst

    def to(self, dtype: torch.dtype) -> Batch:
        cast = lambda t: t.to(dtype) if t is not None and t.is_floating_point() else t
        return replace(self, lap_pe=cast(self.lap_pe), target=cast(self.target))


# ---- network


def scatter_sum(values: Tensor, index: Tensor, n: int) -> Tensor:
    return values.new_zeros((n, *values.shape[1:])).index_add(0, index, values)


def add_projections(module: nn.Module, d: int, heads: int, edge: bool) -> None:
    module.heads, module.width = heads, d // heads
    for name in ("Q", "K", "V") + (("proj_e",) if edge else ()):
        setattr(module, name, nn.Linear(d, d, bias=False))


class Attention(nn.Module):
    """Plain PyTorch."""

    def __init__(self, d: int, heads: int, edge: bool):
        super().__init__()
        add_projections(self, d, heads, edge)

    def split(self, x: Tensor) -> Tensor:
        return x.view(-1, self.heads, self.width)

    def logits(self, h: Tensor, e: Tensor | None, b: Batch) -> tuple[Tensor, Tensor | None]:
        """Logits before the clamp, [E, H, 1], and what goes on into the edge stream, [E, H, d/H]."""
        q, k = self.split(self.Q(h)), self.split(self.K(h))
        product = q[b.dst] * k[b.src]
        if e is None:
            return product.sum(-1, keepdim=True) / math.sqrt(self.width), None
        score = product / math.sqrt(self.width) * self.split(self.proj_e(e))  # gated per channel
        return score.sum(-1, keepdim=True), score

    def forward(self, h: Tensor, e: Tensor | None, b: Batch) -> tuple[Tensor, Tensor | None]:
        n = h.shape[0]
        logit, score = self.logits(h, e, b)
        v = self.split(self.V(h))
        w = torch.exp(logit.clamp(-5.0, 5.0))
        z = scatter_sum(w, b.dst, n)
        # Without in-edges the sum is 0; the published node-only layer then gives 0/0, here 0.
        z = torch.where(z > 0, z, torch.ones_like(z)) if e is None else z + 1e-6
        return scatter_sum(v[b.src] * w, b.dst, n) / z, score


def pyg_attention() -> Callable[..., nn.Module]:
    from torch_geometric.nn import MessagePassing
    from torch_geometric.utils import softmax

    class PygAttention(MessagePassing):
        def __init__(self, d: int, heads: int, edge: bool):
            super().__init__(aggr="add", node_dim=0)
            add_projections(self, d, heads, edge)

        def forward(self, h, e, b):
            q, k, v = (getattr(self, c)(h).view(-1, self.heads, self.width) for c in "QKV")
            gate = None if e is None else self.proj_e(e).view(-1, self.heads, self.width)
            self.score = None
            out = self.propagate(b.graph, q=q, k=k, v=v, e=gate, size=None)
            return out, self.score

        def message(self, q_i, k_j, v_j, e, index, ptr, size_i):
            score = q_i * k_j / math.sqrt(self.width)
            if e is not None:
                score = self.score = score * e
            return v_j * softmax(score.sum(-1).clamp(-5, 5), index, ptr, size_i).unsqueeze(-1)

    return PygAttention


def dgl_attention() -> Callable[..., nn.Module]:
    import dgl.function as fn

    class DglAttention(Attention):
        def forward(self, h, e, b):
            g, scale = b.graph, math.sqrt(self.width)
            g.ndata["q"], g.ndata["k"], g.ndata["v"] = (self.split(getattr(self, c)(h)) for c in "QKV")
            score = None
            if e is None:
                g.apply_edges(lambda x: {"s": (x.src["k"] * x.dst["q"]).sum(-1, keepdim=True)})
                g.apply_edges(lambda x: {"w": torch.exp((x.data["s"] / scale).clamp(-5, 5))})
            else:
                g.edata["e"] = self.split(self.proj_e(e))
                g.apply_edges(lambda x: {"s": x.src["k"] * x.dst["q"]})
                g.apply_edges(lambda x: {"s": x.data["s"] / scale * x.data["e"]})
                score = g.edata["s"]
                g.apply_edges(lambda x: {"w": torch.exp(x.data["s"].sum(-1, keepdim=True).clamp(-5, 5))})
            g.update_all(fn.u_mul_e("v", "w", "m"), fn.sum("m", "a"))
            g.update_all(fn.copy_e("w", "m"), fn.sum("m", "z"))
            return g.ndata["a"] / (g.ndata["z"] if e is None else g.ndata["z"] + 1e-6), score

    return DglAttention


class Layer(nn.Module):
    def __init__(self, cfg: Config, attention: Callable[..., nn.Module]):
        super().__init__()
        d, edge = cfg.hidden, cfg.model == "gt_edge"
        self.attention = attention(d, cfg.heads, edge)
        self.norm, norm = ("batch_norm", nn.BatchNorm1d) if cfg.norm == "bn" else ("layer_norm", nn.LayerNorm)
        for s in ("_h", "_e") if edge else ("",):
            setattr(self, f"O{s}", nn.Linear(d, d))
            setattr(self, f"FFN{s}_layer1", nn.Linear(d, 2 * d))
            setattr(self, f"FFN{s}_layer2", nn.Linear(2 * d, d))
            setattr(self, f"{self.norm}1{s}", norm(d))
            setattr(self, f"{self.norm}2{s}", norm(d))

    def tail(self, s: str, before: Tensor, x: Tensor) -> Tensor:
        x = getattr(self, f"O{s}")(x.reshape(before.shape))
        x = getattr(self, f"{self.norm}1{s}")(before + x)
        y = getattr(self, f"FFN{s}_layer2")(F.relu(getattr(self, f"FFN{s}_layer1")(x)))
        return getattr(self, f"{self.norm}2{s}")(x + y)

    def forward(self, h: Tensor, e: Tensor | None, b: Batch) -> tuple[Tensor, Tensor | None]:
        a, score = self.attention(h, e, b)
        if e is None:
            return self.tail("", h, a), None
        # The last layer's edge output feeds nothing, but moves its running statistics.
        return self.tail("_h", h, a), self.tail("_e", e, score)


class Readout(nn.Module):
    def __init__(self, d: int, n_out: int):
        super().__init__()
        sizes = [d, d // 2, d // 4, n_out]
        self.FC_layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(sizes, sizes[1:]))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.FC_layers[:-1]:
            x = F.relu(layer(x))
        return self.FC_layers[-1](x)


class Net(nn.Module):
    def __init__(self, cfg: Config, attention: Callable[..., nn.Module] = Attention):
        super().__init__()
        self.cfg, d = cfg, cfg.hidden
        self.embedding_h = nn.Embedding(cfg.n_node_types, d)
        if cfg.edge_stream:
            self.embedding_e = nn.Embedding(cfg.n_edge_types, d) if cfg.n_edge_types else nn.Linear(1, d)
        if cfg.pe == "lap":
            setattr(self, self.lap_name(), nn.Linear(cfg.pe_dim, d))
        elif cfg.pe == "wl":
            self.embedding_wl_pos_enc = nn.Embedding(cfg.wl_vocab, d)
        last = cfg.n_layers - 1
        self.layers = nn.ModuleList(Layer(cfg, attention) if cfg.transformer
                                    else baseline_layer(cfg.model, d, cfg.heads, i == last) for i in range(cfg.n_layers))
        self.MLP_layer = Readout(d, cfg.n_out)

    def lap_name(self) -> str:
        return "embedding_lap_pos_enc" if self.cfg.transformer else "embedding_pos_enc"

    def forward(self, b: Batch, hidden: list[tuple[Tensor, Tensor | None]] | None = None) -> Tensor:
        """`hidden` receives the features of nodes and edges after the embedding and after each layer."""
        cfg, e = self.cfg, None
        h = self.embedding_h(b.node_type)
        if cfg.pe == "lap":
            h = h + getattr(self, self.lap_name())(b.lap_pe)
        elif cfg.pe == "wl":
            h = h + self.embedding_wl_pos_enc(b.wl_pe)
        if cfg.edge_stream:
            e = self.embedding_e(b.edge_type if cfg.n_edge_types else h.new_ones(b.src.shape[0], 1))
        if hidden is not None:
            hidden.append((h, e))
        for layer in self.layers:
            h, e = layer(h, e, b) if cfg.transformer else layer(h, e, b.src, b.dst)
            if hidden is not None:
                hidden.append((h, e))
        if cfg.task == "graph_reg":
            count = scatter_sum(h.new_ones(h.shape[0]), b.graph_id, b.n_graphs).clamp(min=1)
            h = scatter_sum(h, b.graph_id, b.n_graphs) / count[:, None]
        return self.MLP_layer(h)

    def loss(self, out: Tensor, target: Tensor) -> Tensor:
        """L1, or cross-entropy with the weights (V - n_c)/V of the batch, divided by the sum of the weights."""
        if self.cfg.task == "graph_reg":
            return (out - target).abs().mean()
        count = torch.bincount(target, minlength=out.shape[1])
        weight = (target.shape[0] - count).to(out.dtype) / target.shape[0] * (count > 0)
        picked = -torch.log_softmax(out, 1).gather(1, target[:, None]).squeeze(1)
        return (weight[target] * picked).sum() / weight[target].sum()


def published(name: str, pe: str = "lap", norm: str = "bn") -> Config:
    """The configuration of about 500,000 parameters of `zinc`, `pattern` or `cluster`."""
    if name == "zinc":
        return Config("gt_edge", "graph_reg", norm=norm, pe=pe)
    types, classes, k = {"pattern": (3, 2, 2), "cluster": (7, 6, 10)}[name]
    return Config("gt", "node_cls", hidden=80, norm=norm, pe=pe, pe_dim=k, wl_vocab=100, n_node_types=types,
                  n_edge_types=0, n_out=classes)


# ---- graphs


@dataclass
class Graph:
    n: int
    src: np.ndarray
    dst: np.ndarray
    node_type: np.ndarray
    edge_type: np.ndarray
    y: np.ndarray  # [1] f32 or [n] i64


def molecule(rng: np.random.Generator, n: int, rings: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A tree of degree 4 at most, grown mostly along the last atoms, and about rings * n rings of 5 or 6 atoms.

    Returns the two ends and the bond type (1 to 3) of each directed edge, in order."""
    degree, parent, bonds = np.zeros(n, int), [-1] * n, set()

    def join(u: int, v: int) -> None:
        bonds.add((u, v))
        degree[[u, v]] += 1

    for v in range(1, n):
        free = [u for u in range(max(0, v - 4), v) if degree[u] < 3] or [u for u in range(v) if degree[u] < 4]
        parent[v] = int(free[-1] if rng.random() < 0.75 else rng.choice(free))
        join(parent[v], v)
    wanted = rng.binomial(n, rings)
    for _ in range(50 * n):
        v = u = int(rng.integers(n))
        for _ in range(int(rng.choice([4, 5, 5]))):
            u = parent[u] if u >= 0 else -1
        if wanted > 0 and u >= 0 and (u, v) not in bonds and degree[u] < 4 and degree[v] < 4:
            join(u, v)
            wanted -= 1
    types = [int(rng.choice([1, 2, 3], p=[0.74, 0.25, 0.01])) for _ in bonds]
    edges = sorted(x for (u, v), t in zip(sorted(bonds), types) for x in ((u, v, t), (v, u, t)))
    table = np.array(edges, np.int64).reshape(-1, 3)
    return table[:, 0], table[:, 1], table[:, 2]


def block_edges(rng: np.random.Generator, probability: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both directions of undirected edges drawn with the given probabilities, in order."""
    upper = np.triu(rng.random(probability.shape) < probability, 1)
    return np.nonzero(upper | upper.T)


def blocks(rng: np.random.Generator, sizes: list[int] | np.ndarray) -> np.ndarray:
    """The block of each node, in random order."""
    return rng.permutation(np.repeat(np.arange(len(sizes)), sizes))


def published_graph(name: str, rng: np.random.Generator) -> Graph:
    """A graph with the sizes and densities of the published set."""
    if name == "zinc":
        n = int(np.clip(round(rng.normal(23.15, 4.5)), 9, 37))
        src, dst, bonds = molecule(rng, n, 0.115)
        atoms = rng.choice(28, n, p=[0.74, 0.10, 0.12] + [0.04 / 25] * 25)
        return Graph(n, src, dst, atoms, bonds, rng.normal(size=1).astype(np.float32))
    if name == "cluster":
        y = blocks(rng, rng.integers(5, 35, 6))
        src, dst = block_edges(rng, np.where(y[:, None] == y, 0.55, 0.25))
        x = np.zeros(len(y), np.int64)
        for c in range(6):
            x[np.flatnonzero(y == c)[0]] = c + 1
    else:
        block = blocks(rng, rng.integers(5, 35, 6))  # the last one is the pattern
        y = (block == 5).astype(np.int64)
        p = np.where(block[:, None] == block, 0.5, 0.35)
        src, dst = block_edges(rng, np.where((y[:, None] | y) == 1, 0.5, p))
        x = rng.integers(0, 3, len(y))
    return Graph(len(y), src, dst, x, np.zeros(len(src), np.int64), y)


def laplacian_encoding(g: Graph, k: int) -> np.ndarray:
    """Eigenvectors 1 to k of I - D^-1/2 A D^-1/2 (in-degree at least 1), filled up with zeros."""
    adjacency = np.zeros((g.n, g.n))
    np.add.at(adjacency, (g.src, g.dst), 1.0)
    scale = np.clip(np.bincount(g.dst, minlength=g.n), 1, None) ** -0.5
    vectors = np.linalg.eigh(np.eye(g.n) - scale[:, None] * adjacency * scale)[1][:, 1 : k + 1]
    return np.pad(vectors, ((0, 0), (0, k - vectors.shape[1]))).astype(np.float32)


def wl_encoding(g: Graph) -> np.ndarray:
    """One round, as in the published code: 1 + rank of md5("1" + "_1" * degree) in the graph."""
    digests = [hashlib.md5(("1" + "_1" * d).encode()).hexdigest() for d in np.bincount(g.src, minlength=g.n)]
    rank = {x: i + 1 for i, x in enumerate(sorted(set(digests)))}
    return np.array([rank[x] for x in digests], np.int64)


def full_edges(n: int) -> tuple[np.ndarray, np.ndarray]:
    """All ordered pairs of different nodes."""
    return np.nonzero(~np.eye(n, dtype=bool))


def collate(graphs: list[Graph], cfg: Config, full: bool = False, lap: np.ndarray | None = None) -> Batch:
    """One batch with the encoding of `cfg`; `lap` replaces the Laplacian one. Full graphs have edge type 0."""
    offset = np.cumsum([0] + [g.n for g in graphs])
    edges = [full_edges(g.n) if full else (g.src, g.dst) for g in graphs]
    types = [np.zeros(len(s), np.int64) if full else g.edge_type for g, (s, _) in zip(graphs, edges)]
    tensor = lambda parts: torch.from_numpy(np.concatenate(parts))
    if cfg.pe == "lap" and lap is None:
        lap = np.concatenate([laplacian_encoding(g, cfg.pe_dim) for g in graphs])
    y = tensor([g.y for g in graphs])
    return Batch(
        src=tensor([s + o for (s, _), o in zip(edges, offset)]),
        dst=tensor([d + o for (_, d), o in zip(edges, offset)]),
        node_type=tensor([g.node_type for g in graphs]),
        graph_id=torch.from_numpy(np.repeat(np.arange(len(graphs)), [g.n for g in graphs])),
        n_graphs=len(graphs),
        edge_type=tensor(types),
        lap_pe=None if lap is None else torch.from_numpy(lap),
        wl_pe=tensor([wl_encoding(g) for g in graphs]) if cfg.pe == "wl" else None,
        target=y.view(-1, 1) if cfg.task == "graph_reg" else y,
    )
