"""Layers of the networks that the Graph Transformer is compared with, in plain PyTorch: GCN, GAT and GatedGCN.

Parameters have the names and shapes of the published state_dicts, and PyTorch's own first values. `torch_models.py`
builds networks of them. Each takes node features h, edge features e (GatedGCN only) and the ends of the edges.
"""
from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def scatter_sum(values: Tensor, index: Tensor, n: int) -> Tensor:
    return values.new_zeros((n, *values.shape[1:])).index_add(0, index, values)


class GraphConv(nn.Module):
    def __init__(self, d: int):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.empty(d, d)), nn.Parameter(torch.zeros(d))  # weight: [in, out]
        nn.init.xavier_uniform_(self.weight)


class GcnLayer(nn.Module):
    """h + relu(BN(D_in^-1/2 A^T D_out^-1/2 h W + b)), degrees at least 1, no self loops."""

    def __init__(self, d: int):
        super().__init__()
        self.conv, self.batchnorm_h = GraphConv(d), nn.BatchNorm1d(d)

    def forward(self, h: Tensor, e: None, src: Tensor, dst: Tensor) -> tuple[Tensor, None]:
        degree = lambda ends: scatter_sum(h.new_ones(len(ends)), ends, len(h)).clamp(min=1).pow(-0.5)[:, None]
        x = scatter_sum((h * degree(src))[src], dst, len(h)) @ self.conv.weight
        return h + F.relu(self.batchnorm_h(x * degree(dst) + self.conv.bias)), None


class GatConv(nn.Module):
    def __init__(self, d: int, heads: int):
        super().__init__()
        self.fc = nn.Linear(d, d, bias=False)
        self.attn_l, self.attn_r = (nn.Parameter(torch.empty(1, heads, d // heads)) for _ in range(2))
        for w in (self.fc.weight, self.attn_l, self.attn_r):
            nn.init.xavier_normal_(w, gain=nn.init.calculate_gain("relu"))


class GatLayer(nn.Module):
    """h + elu(BN(sum_j softmax_j(leaky_relu(a_l z_j + a_r z_i)) z_j)), z = h W, head by head; 0 without in-edges."""

    def __init__(self, d: int, heads: int):
        super().__init__()
        self.gatconv, self.batchnorm_h = GatConv(d, heads), nn.BatchNorm1d(d)

    def forward(self, h: Tensor, e: None, src: Tensor, dst: Tensor) -> tuple[Tensor, None]:
        conv, n = self.gatconv, len(h)
        z = conv.fc(h).view(n, *conv.attn_l.shape[1:])
        s = F.leaky_relu((z * conv.attn_l).sum(-1)[src] + (z * conv.attn_r).sum(-1)[dst], 0.2)
        top = s.new_full((n, s.shape[1]), -math.inf)
        top = top.scatter_reduce(0, dst[:, None].expand_as(s), s.detach(), "amax")
        w = torch.exp(s - top[dst])
        w = w / scatter_sum(w, dst, n)[dst]
        return h + F.elu(self.batchnorm_h(scatter_sum(z[src] * w[..., None], dst, n).flatten(1))), None


class GatedGcnLayer(nn.Module):
    """g = C e + D h_src + E h_dst; x = A h + sum_j s B h_j / (sum_j s + 1e-6), s = sigmoid(g); h + relu(BN(x)), e + relu(BN(g))."""

    def __init__(self, d: int):
        super().__init__()
        for name in "ABCDE":
            setattr(self, name, nn.Linear(d, d))
        self.bn_node_h, self.bn_node_e = nn.BatchNorm1d(d), nn.BatchNorm1d(d)

    def forward(self, h: Tensor, e: Tensor, src: Tensor, dst: Tensor) -> tuple[Tensor, Tensor]:
        g = self.C(e) + self.D(h)[src] + self.E(h)[dst]
        s = torch.sigmoid(g)
        x = self.A(h) + scatter_sum(self.B(h)[src] * s, dst, len(h)) / (scatter_sum(s, dst, len(h)) + 1e-6)
        return h + F.relu(self.bn_node_h(x)), e + F.relu(self.bn_node_e(g))


def baseline_layer(model: str, d: int, heads: int, last: bool) -> nn.Module:
    """A layer of `gcn`, `gat` (whose last layer has one head of the full width) or `gatedgcn`."""
    if model == "gat":
        return GatLayer(d, 1 if last else heads)
    return {"gcn": GcnLayer, "gatedgcn": GatedGcnLayer}[model](d)
