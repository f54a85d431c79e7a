"""A small reader of SMILES: enough for the molecules of MoleculeNet, without a chemistry toolkit.

Atoms become [element, charge, hydrogens written in brackets, aromatic, degree, in a ring]; bonds
become [single, double, triple or aromatic]. Molecules that the reader does not know are left out.
"""
import re

ELEMENTS = ["C", "N", "O", "F", "S", "Cl", "Br", "I", "P", "B", "Si", "Na", "K", "Se", "*"]
TOKEN = re.compile(r"(\[[^\]]+\]|Br|Cl|[BCNOPSFI]|[bcnops]|%\d\d|\d|[-=#:/\\.()~$])")
BRACKET = re.compile(r"^\[(\d+)?([A-Z][a-z]?|[a-z][a-z]?|\*)(@{0,2})(H\d*)?([+-]+\d*|[+-]\d+)?(:\d+)?\]$")
BONDS = {"-": 0, "/": 0, "\\": 0, "=": 1, "#": 2, ":": 3, "~": 0}


def read_smiles(smiles):
    """Atoms, and undirected bonds (a, b, kind); None if a token is unknown."""
    tokens = TOKEN.findall(smiles)
    if "".join(tokens) != smiles:
        return None
    atoms, bonds, branches, rings = [], [], [], {}
    last, bond = None, None

    def join(a, b, kind):
        if kind is None:
            kind = 3 if atoms[a][3] and atoms[b][3] else 0
        bonds.append((a, b, kind))

    for token in tokens:
        if token == "(":
            branches.append(last)
        elif token == ")":
            last = branches.pop()
        elif token == ".":
            last, bond = None, None
        elif token in BONDS:
            bond = BONDS[token]
        elif token[0].isdigit() or token[0] == "%":
            if token in rings:
                other, kind = rings.pop(token)
                join(other, last, bond if bond is not None else kind)
            else:
                rings[token] = (last, bond)
            bond = None
        else:
            charge, hydrogens = 0, 0
            name = token
            if token[0] == "[":
                found = BRACKET.match(token)
                if not found:
                    return None
                name = found.group(2)
                text = found.group(4) or ""
                hydrogens = int(text[1:] or 1) if text else 0
                text = found.group(5) or ""
                if text:
                    digits = text.strip("+-")
                    charge = (int(digits) if digits else len(text)) * (1 if text[0] == "+" else -1)
            aromatic = name[0].islower()
            name = name.capitalize()
            element = ELEMENTS.index(name) if name in ELEMENTS else len(ELEMENTS)
            atoms.append([element, max(-2, min(2, charge)) + 2, min(hydrogens, 4), int(aromatic)])
            if last is not None:
                join(last, len(atoms) - 1, bond)
            last, bond = len(atoms) - 1, None
    if rings or not atoms:
        return None
    return atoms, bonds


def in_rings(count, bonds):
    """Whether each atom has a bond that is no bridge."""
    around = [[] for _ in range(count)]
    for number, (a, b, _) in enumerate(bonds):
        around[a].append((b, number))
        around[b].append((a, number))
    order, low, ring = [0] * count, [0] * count, [0] * count
    time = 0
    for root in range(count):
        if order[root]:
            continue
        time += 1
        order[root] = low[root] = time
        stack = [(root, -1, iter(around[root]))]
        while stack:
            node, by, others = stack[-1]
            for other, number in others:
                if number == by:
                    continue
                if order[other]:
                    low[node] = min(low[node], order[other])
                    continue
                time += 1
                order[other] = low[other] = time
                stack.append((other, number, iter(around[other])))
                break
            else:
                stack.pop()
                if stack:
                    parent = stack[-1][0]
                    low[parent] = min(low[parent], low[node])
    for a, b, _ in bonds:
        bridge = low[b] > order[a] if order[a] < order[b] else low[a] > order[b]
        if not bridge:
            ring[a] = ring[b] = 1
    return ring


def graph(smiles):
    """The graph of a molecule with the keys of the native format, or None."""
    found = read_smiles(smiles.strip())
    if found is None:
        return None
    atoms, bonds = found
    degree = [0] * len(atoms)
    for a, b, _ in bonds:
        degree[a] += 1
        degree[b] += 1
    ring = in_rings(len(atoms), bonds)
    edges = sorted([(a, b, k) for a, b, k in bonds] + [(b, a, k) for a, b, k in bonds])
    return {
        "num_nodes": len(atoms),
        "node_feat": [atom + [min(degree[at], 6), ring[at]] for at, atom in enumerate(atoms)],
        "edge_index": [[a for a, _, _ in edges], [b for _, b, _ in edges]],
        "edge_attr": [[k] for _, _, k in edges],
    }
