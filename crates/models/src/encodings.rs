//! The positional encoding that a configuration asks for: as the graphs have it, or computed.

use gt_graph::encoding::{Coordinates, Encodings, Laplacian, RandomWalk, WeisfeilerLehman, encode_all};
use gt_graph::{GraphError, GraphStore};

use crate::config::{Encoding, ModelConfig};

/// Why graphs cannot get an encoding.
#[derive(Debug, thiserror::Error)]
pub enum EncodingError {
    /// The graphs carry the encoding in another width.
    #[error(
        "column \"{column}\" has {found} values per node, the model reads {expected}; \
         remove the column, so that the encoding is computed, or train with model.encoding_size = {found}"
    )]
    Width {
        /// The column.
        column: &'static str,
        /// Values per node.
        found: usize,
        /// Values per node that the model reads.
        expected: usize,
    },
    /// A solver does not converge.
    #[error("graph {graph}: {source}")]
    Solver {
        /// The graph.
        graph: usize,
        /// Why.
        source: GraphError,
    },
}

/// Whether graphs carry the encoding that a configuration asks for.
///
/// # Errors
/// If they carry it in another width.
pub fn has_encoding(graphs: &GraphStore, config: &ModelConfig) -> Result<bool, EncodingError> {
    let there = graphs.encodings();
    let expected = config.encoding_size;
    let of_width = |column, coordinates: &Option<Coordinates>| match coordinates {
        // Without nodes a width says nothing.
        Some(found) if found.width == expected || graphs.num_nodes() == 0 => Ok(true),
        Some(found) => Err(EncodingError::Width { column, found: found.width, expected }),
        None => Ok(false),
    };
    match config.encoding {
        Encoding::None => Ok(true),
        Encoding::Laplacian => of_width("lap_pe", &there.laplacian),
        Encoding::RandomWalk => of_width("rw_pe", &there.random_walk),
        Encoding::Wl => Ok(there.weisfeiler_lehman.is_some()),
    }
}

/// Computes the encoding that a configuration asks for.
///
/// # Errors
/// If an iterative solver does not converge.
pub fn compute_encodings(graphs: &GraphStore, config: &ModelConfig) -> Result<Encodings, EncodingError> {
    let width = config.encoding_size;
    let failed = |(graph, source)| EncodingError::Solver { graph, source };
    Ok(match config.encoding {
        Encoding::None => Encodings::default(),
        Encoding::Laplacian => {
            let values = encode_all(&Laplacian::new(width), graphs).map_err(failed)?;
            Encodings { laplacian: Some(Coordinates { width, values }), ..Default::default() }
        }
        Encoding::RandomWalk => {
            let values = encode_all(&RandomWalk { steps: width }, graphs).map_err(failed)?;
            Encodings { random_walk: Some(Coordinates { width, values }), ..Default::default() }
        }
        Encoding::Wl => {
            let roles = encode_all(&WeisfeilerLehman::default(), graphs).map_err(failed)?;
            Encodings { weisfeiler_lehman: Some(roles), ..Default::default() }
        }
    })
}

/// Gives graphs the encoding that a configuration asks for, unless they carry it.
///
/// ```
/// use graph_transformer_models::{
///     Config, EncodingError, add_encodings, compute_encodings, has_encoding,
/// };
/// use gt_graph::{Graph, GraphParts, GraphStore};
///
/// let text = "[model]\nencoding = \"random-walk\"\nencoding_size = 2";
/// let mut model = Config::from_toml(text)?.model;
/// let parts = GraphParts { num_nodes: 2, src: &[0, 1], dst: &[1, 0], ..Default::default() };
/// let mut graphs = GraphStore::from(Graph::new(parts)?);
/// assert!(!has_encoding(&graphs, &model)?);
///
/// // On two joined nodes, a walk is back at its start after two steps, never after one.
/// let computed = compute_encodings(&graphs, &model)?;
/// assert_eq!(computed.random_walk.as_ref().unwrap().values, [0.0, 1.0, 0.0, 1.0]);
/// add_encodings(&mut graphs, &model)?;
/// assert_eq!(*graphs.encodings(), computed);
///
/// // A model that reads three steps does not take an encoding of two.
/// model.encoding_size = 3;
/// let error = add_encodings(&mut graphs, &model).unwrap_err();
/// assert!(matches!(error, EncodingError::Width { found: 2, expected: 3, .. }));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
/// # Errors
/// If they carry it in another width, or an iterative solver does not converge.
pub fn add_encodings(graphs: &mut GraphStore, config: &ModelConfig) -> Result<(), EncodingError> {
    if !has_encoding(graphs, config)? {
        let encodings = compute_encodings(graphs, config)?;
        graphs.set_encodings(encodings).expect("encodings have a row for every node");
    }
    Ok(())
}
