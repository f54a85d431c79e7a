//! Batches: the union of graphs and back, both directions of the index, the fully connected view,
//! no allocation.

use std::alloc::{GlobalAlloc, Layout as Memory, System};
use std::cell::Cell;

use graph_transformer_graph::encoding::{Coordinates, Encodings};
use graph_transformer_graph::{
    FeatureLayout, FeatureRows, GraphBatch, GraphError, GraphParts, GraphStore, Layout, Level, MISSING_CLASS, Ragged,
    TargetKind, TargetLayout, TargetRows,
};
use proptest::prelude::*;

/// Counts allocations of the calling thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Memory) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Memory) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// One made-up graph.
#[derive(Clone, Debug)]
struct Sample {
    nodes: usize,
    edges: Vec<(u32, u32)>,
    values: u64,
}

fn samples() -> impl Strategy<Value = Vec<Sample>> {
    let sample = (0usize..7, proptest::collection::vec((any::<u32>(), any::<u32>()), 0..20), any::<u64>()).prop_map(
        |(nodes, pairs, values)| Sample {
            nodes,
            edges: if nodes == 0 {
                Vec::new()
            } else {
                pairs.into_iter().map(|(a, b)| (a % nodes as u32, b % nodes as u32)).collect()
            },
            values,
        },
    );
    proptest::collection::vec(sample, 0..8)
}

fn layouts() -> impl Strategy<Value = Layout> {
    let features = || {
        (0usize..3, 0usize..3, any::<bool>()).prop_map(|(categorical, continuous, multi_hot)| FeatureLayout {
            categorical,
            continuous,
            multi_hot,
        })
    };
    let level = prop_oneof![Just(Level::Graph), Just(Level::Node), Just(Level::Edge)];
    let kind = prop_oneof![Just(TargetKind::Float), Just(TargetKind::Class)];
    let target = proptest::option::of((level, kind, 1usize..3).prop_map(|(level, kind, columns)| TargetLayout {
        level,
        kind,
        columns,
    }));
    (features(), features(), target).prop_map(|(node, edge, target)| Layout { node, edge, target })
}

fn store(layout: &Layout, samples: &[Sample], encoded: bool) -> GraphStore {
    let mut store = GraphStore::new(layout.clone());
    for Sample { nodes, edges, values } in samples {
        let (src, dst): (Vec<u32>, Vec<u32>) = edges.iter().copied().unzip();
        let number = |i: usize| values.rotate_left(i as u32 % 64).wrapping_add(i as u64) as u32;
        let table = |layout: &FeatureLayout, rows: usize| {
            let categorical: Vec<u32> = (0..rows * layout.categorical).map(|i| number(i) % 9).collect();
            let continuous: Vec<f32> = (0..rows * layout.continuous).map(|i| number(i) as f32).collect();
            let mut offsets = vec![0];
            let mut indices = Vec::new();
            for row in 0..rows {
                indices.extend((0..number(row) % 4).map(|j| number(row + j as usize) % 30));
                offsets.push(indices.len());
            }
            (categorical, continuous, offsets, indices)
        };
        let (node, edge) = (table(&layout.node, *nodes), table(&layout.edge, edges.len()));
        fn rows<'a>(t: &'a (Vec<u32>, Vec<f32>, Vec<usize>, Vec<u32>), hot: bool) -> FeatureRows<'a> {
            FeatureRows {
                categorical: &t.0,
                continuous: &t.1,
                multi_hot: hot.then_some(Ragged { offsets: &t.2, indices: &t.3 }),
            }
        }
        let count = layout.target.map_or(0, |t| t.level.rows(*nodes, edges.len()) * t.columns);
        let floats: Vec<f32> =
            (0..count).map(|i| if number(i) % 5 == 0 { f32::NAN } else { number(i) as f32 }).collect();
        let classes: Vec<u32> =
            (0..count).map(|i| if number(i) % 5 == 0 { MISSING_CLASS } else { number(i) % 7 }).collect();
        store
            .push(GraphParts {
                num_nodes: *nodes,
                src: &src,
                dst: &dst,
                node: rows(&node, layout.node.multi_hot),
                edge: rows(&edge, layout.edge.multi_hot),
                target: layout.target.map(|t| match t.kind {
                    TargetKind::Float => TargetRows::Float(&floats),
                    TargetKind::Class => TargetRows::Class(&classes),
                }),
            })
            .unwrap();
    }
    if encoded {
        let n = store.num_nodes();
        store
            .set_encodings(Encodings {
                laplacian: Some(Coordinates { width: 2, values: (0..2 * n).map(|i| i as f32).collect() }),
                random_walk: Some(Coordinates { width: 1, values: (0..n).map(|i| 0.5 * i as f32).collect() }),
                weisfeiler_lehman: Some((0..n as u32).collect()),
            })
            .unwrap();
    }
    store
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn kept_edges_keep_their_features_and_nodes_everything(layout in layouts(), samples in samples(), encoded in any::<bool>()) {
        let unlabelled = Layout { target: None, ..layout.clone() };
        let all = store(&layout, &samples, encoded);
        let ids: Vec<usize> = (0..all.len()).rev().collect();
        let turned: Vec<Sample> = samples.iter().rev().cloned().collect();
        let whole = all.with_edges(&ids, |_, _| true);
        prop_assert!(whole.iter().eq(store(&unlabelled, &turned, false).iter()));
        for (place, &id) in ids.iter().enumerate() {
            let (own, nodes) = (whole.node_range(place), all.node_range(id));
            let (found, expected) = (whole.encodings(), all.encodings());
            prop_assert_eq!(found.laplacian.is_some(), encoded);
            if let (Some(found), Some(expected)) = (&found.laplacian, &expected.laplacian) {
                prop_assert_eq!(found.rows(own.clone()), expected.rows(nodes.clone()));
            }
            if let (Some(found), Some(expected)) = (&found.weisfeiler_lehman, &expected.weisfeiler_lehman) {
                prop_assert_eq!(&found[own], &expected[nodes]);
            }
        }
        // Every other edge.
        let half = all.with_edges(&ids, |_, edge| edge % 2 == 1);
        let mut retained = all.with_edges(&ids, |_, _| true);
        retained.retain_edges(|_, edge, _| edge % 2 == 1);
        prop_assert!(retained.iter().eq(half.iter()));
        prop_assert_eq!((retained.num_edges(), retained.encodings()), (half.num_edges(), half.encodings()));
        for (found, &id) in half.iter().zip(&ids) {
            let graph = all.graph(id);
            let odd = |list: &[u32], width: usize| -> Vec<u32> {
                list.chunks(width.max(1)).skip(1).step_by(2).flatten().copied().collect()
            };
            prop_assert_eq!(found.src(), odd(graph.src(), 1));
            prop_assert_eq!(found.dst(), odd(graph.dst(), 1));
            prop_assert_eq!(found.node(), graph.node());
            prop_assert_eq!(found.edge().categorical, odd(graph.edge().categorical, layout.edge.categorical));
            if let (Some(found), Some(all)) = (found.edge().multi_hot, graph.edge().multi_hot) {
                prop_assert!((0..found.rows()).all(|row| found.row(row) == all.row(2 * row + 1)));
            }
        }
    }

    #[test]
    fn batch_then_split_is_the_identity(layout in layouts(), samples in samples(), encoded in any::<bool>()) {
        let store = store(&layout, &samples, encoded);
        let mut batch = GraphBatch::new();
        let all: Vec<usize> = (0..store.len()).collect();
        batch.assemble(&store, &all).unwrap();
        prop_assert!(batch.split() == store);
        // A reused batch forgets what it held.
        batch.assemble(&store, &[]).unwrap();
        prop_assert_eq!((batch.num_graphs(), batch.num_nodes(), batch.num_edges()), (0, 0, 0));
        let picked: Vec<usize> = all.iter().rev().step_by(2).copied().collect();
        batch.assemble(&store, &picked).unwrap();
        let back = batch.split();
        for (at, &id) in picked.iter().enumerate() {
            prop_assert_eq!(back.graph(at), store.graph(id));
        }
    }

    #[test]
    fn both_directions_of_the_index_agree(samples in samples()) {
        let store = store(&Layout::default(), &samples, false);
        let mut batch = GraphBatch::new();
        batch.assemble(&store, &(0..store.len()).collect::<Vec<_>>()).unwrap();
        let edges = batch.num_edges();
        let mut seen = vec![false; edges];
        for node in 0..batch.num_nodes() {
            for edge in batch.in_offsets()[node]..batch.in_offsets()[node + 1] {
                prop_assert_eq!(batch.in_dst()[edge as usize] as usize, node);
            }
            for out in batch.out_offsets()[node]..batch.out_offsets()[node + 1] {
                let edge = batch.out_to_in()[out as usize] as usize;
                prop_assert_eq!(batch.in_src()[edge] as usize, node);
                prop_assert_eq!(batch.in_dst()[edge], batch.out_dst()[out as usize]);
                prop_assert!(!std::mem::replace(&mut seen[edge], true), "each edge leaves once");
            }
        }
        prop_assert!(seen.iter().all(|s| *s));
        for graph in 0..batch.num_graphs() {
            let original = store.graph(graph);
            let first = batch.nodes_of(graph).start;
            for edge in batch.edges_of(graph) {
                let listed = batch.in_to_list()[edge] as usize - batch.edges_of(graph).start;
                prop_assert_eq!(batch.in_src()[edge] as usize, first + original.src()[listed] as usize);
                prop_assert_eq!(batch.in_dst()[edge] as usize, first + original.dst()[listed] as usize);
            }
        }
    }

    #[test]
    fn the_full_view_joins_every_ordered_pair_once(sizes in proptest::collection::vec(0usize..6, 0..5)) {
        let samples: Vec<Sample> = sizes.iter().map(|&nodes| Sample { nodes, edges: Vec::new(), values: 0 }).collect();
        let store = store(&Layout::default(), &samples, false);
        let mut batch = GraphBatch::new();
        batch.assemble(&store, &(0..store.len()).collect::<Vec<_>>()).unwrap();
        let full = batch.full();
        let mut expected = 0;
        for graph in 0..batch.num_graphs() {
            let nodes = batch.nodes_of(graph);
            prop_assert_eq!(full.edges_of(graph).start, expected);
            for s in nodes.clone() {
                for d in nodes.clone().filter(|&d| d != s) {
                    prop_assert_eq!(full.edge(s, d), Some(expected));
                    prop_assert!(full.in_edges(d).any(|e| e == (expected, s)));
                    prop_assert!(full.out_edges(s).any(|e| e == (expected, d)));
                    expected += 1;
                }
                prop_assert_eq!(full.edge(s, s), None);
                prop_assert_eq!(full.in_edges(s).count(), nodes.len() - 1);
            }
        }
        prop_assert_eq!(full.num_edges(), expected);
    }
}

#[test]
fn a_steady_state_batch_allocates_nothing() {
    let layout = Layout {
        node: FeatureLayout { categorical: 1, continuous: 2, multi_hot: true },
        edge: FeatureLayout { categorical: 1, continuous: 0, multi_hot: true },
        target: Some(TargetLayout { level: Level::Edge, kind: TargetKind::Float, columns: 1 }),
    };
    let samples: Vec<Sample> = (0..64u32)
        .map(|g| Sample {
            nodes: 10,
            edges: (0..20).map(|e| ((e * g) % 10, (e + g) % 10)).collect(),
            values: u64::from(g),
        })
        .collect();
    let store = store(&layout, &samples, true);
    let ids: Vec<usize> = (0..32).collect();
    let others: Vec<usize> = (32..64).collect();
    let mut batch = GraphBatch::new();
    for warm_up in [&ids, &others] {
        batch.assemble(&store, warm_up).unwrap();
    }
    let before = ALLOCATIONS.with(Cell::get);
    for _ in 0..10 {
        batch.assemble(&store, &ids).unwrap();
        batch.assemble(&store, &others).unwrap();
    }
    assert_eq!(ALLOCATIONS.with(Cell::get) - before, 0);
}

#[test]
fn a_failed_push_changes_nothing() {
    let mut store = GraphStore::new(Layout::default());
    store.push(GraphParts { num_nodes: 2, src: &[0], dst: &[1], ..Default::default() }).unwrap();
    let before = store.clone();
    let error = store.push(GraphParts { num_nodes: 2, src: &[2], dst: &[1], ..Default::default() }).unwrap_err();
    assert_eq!(error.to_string(), "edge 0 starts at node 2, but the graph has 2 nodes");
    assert!(store == before);
}

#[test]
fn every_kind_of_nonsense_is_refused() {
    let layout = Layout {
        node: FeatureLayout { categorical: 1, continuous: 1, multi_hot: true },
        edge: FeatureLayout::default(),
        target: Some(TargetLayout { level: Level::Node, kind: TargetKind::Float, columns: 1 }),
    };
    let good = GraphParts {
        num_nodes: 2,
        src: &[0],
        dst: &[1],
        node: FeatureRows {
            categorical: &[3, 4],
            continuous: &[0.5, -1.0],
            multi_hot: Some(Ragged { offsets: &[0, 1, 3], indices: &[7, 8, 9] }),
        },
        edge: FeatureRows::default(),
        target: Some(TargetRows::Float(&[f32::NAN, 2.0])),
    };
    good.check(&layout).unwrap();
    let refuse = |parts: GraphParts<'_>| parts.check(&layout).unwrap_err();
    let with_node = |node: FeatureRows<'static>| refuse(GraphParts { node, ..good });
    assert!(matches!(refuse(GraphParts { dst: &[], ..good }), GraphError::EdgeListLengths { sources: 1, targets: 0 }));
    assert!(matches!(
        refuse(GraphParts { dst: &[2], ..good }),
        GraphError::EdgeOutOfRange { node: 2, is_source: false, .. }
    ));
    let node = FeatureRows {
        categorical: &[3, 4],
        continuous: &[0.5, -1.0],
        multi_hot: Some(Ragged { offsets: &[0, 1, 3], indices: &[7, 8, 9] }),
    };
    assert!(matches!(
        with_node(FeatureRows { categorical: &[3], ..node }),
        GraphError::Length { found: 1, rows: 2, columns: 1, .. }
    ));
    let nan = with_node(FeatureRows { continuous: &[0.5, f32::NAN], ..node });
    assert_eq!(nan.to_string(), "node 1, continuous column 0: NaN is not a finite number");
    let level = Level::Node;
    let absent = with_node(FeatureRows { multi_hot: None, ..node });
    assert_eq!(absent, GraphError::MultiHotMismatch { level, expected: true });
    assert!(absent.to_string().ends_with("absent here, present there"));
    let offsets = |offsets| with_node(FeatureRows { multi_hot: Some(Ragged { offsets, indices: &[7, 8, 9] }), ..node });
    assert_eq!(offsets(&[0, 1]), GraphError::OffsetCount { level, found: 2, rows: 2 });
    assert_eq!(offsets(&[0, 2, 1]), GraphError::OffsetOrder { level, row: 1 });
    assert_eq!(offsets(&[0, 1, 2]), GraphError::OffsetSpan { level, spanned: 2, found: 3 });
    let expected = Some(TargetKind::Float);
    assert_eq!(refuse(GraphParts { target: None, ..good }), GraphError::TargetMismatch { found: None, expected });
    let classes = refuse(GraphParts { target: Some(TargetRows::Class(&[1, 2])), ..good });
    assert_eq!(classes, GraphError::TargetMismatch { found: Some(TargetKind::Class), expected });
    assert!(classes.to_string().ends_with("class here, float there"));
    assert!(matches!(
        refuse(GraphParts { target: Some(TargetRows::Float(&[1.0])), ..good }),
        GraphError::Length { .. }
    ));
    let infinite = refuse(GraphParts { target: Some(TargetRows::Float(&[1.0, f32::INFINITY])), ..good });
    assert_eq!(infinite.to_string(), "node 1, target column 0: inf is not a finite number");
}

#[test]
fn encodings_must_cover_every_node() {
    let mut store = GraphStore::new(Layout::default());
    store.push(GraphParts { num_nodes: 3, ..Default::default() }).unwrap();
    let short = Encodings { weisfeiler_lehman: Some(vec![1, 1]), ..Default::default() };
    assert!(matches!(store.set_encodings(short), Err(GraphError::Length { found: 2, rows: 3, .. })));
    let broken = Coordinates { width: 1, values: vec![0.0, f32::NAN, 0.0] };
    assert!(store.set_encodings(Encodings { laplacian: Some(broken), ..Default::default() }).is_err());
    let fitting = Encodings { weisfeiler_lehman: Some(vec![1, 1, 2]), ..Default::default() };
    store.set_encodings(fitting).unwrap();
    store.push(GraphParts::default()).unwrap();
    assert!(store.encodings().is_empty(), "a new graph has not been encoded");
}
