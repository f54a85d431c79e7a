//! The kernels, compiled for one network, precision and GPU; kept on disk by source, options and
//! GPU.

use std::collections::HashMap;
use std::ffi::{CString, c_char};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use cudarc::driver::{CudaFunction, sys as driver};
use cudarc::nvrtc::{Ptx, sys};

use super::abi;
use super::device::{CudaDevice, Precision};
use super::error::{CudaError, Result};
use super::kind::{LayerKind, averages};
use super::resident::Size;
use crate::channels::padded;
use crate::network::{Clamp, Gate, Network, Norm};
use crate::parameters::Parameters;

const SOURCES: [(&str, &str); 11] = [
    ("common.cuh", include_str!("kernels/common.cuh")),
    ("batch.cu", include_str!("kernels/batch.cu")),
    ("product.cuh", include_str!("kernels/product.cuh")),
    ("norm.cuh", include_str!("kernels/norm.cuh")),
    ("input.cu", include_str!("kernels/input.cu")),
    ("layer.cu", include_str!("kernels/layer.cu")),
    ("attend.cu", include_str!("kernels/attend.cu")),
    ("message.cu", include_str!("kernels/message.cu")),
    ("head.cu", include_str!("kernels/head.cu")),
    ("weights.cu", include_str!("kernels/weights.cu")),
    ("optimiser.cu", include_str!("kernels/optimiser.cu")),
];

/// The end of the names of files that hold compiled kernels.
pub const KERNEL_EXTENSION: &str = "cubin";

/// Sizes that kernels and launches must agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Channels, padded.
    pub(crate) d: usize,
    /// Heads, padded.
    pub(crate) heads: usize,
    /// Hidden channels, padded.
    pub(crate) hidden: usize,
    /// Rows of a tile.
    pub(crate) rows: usize,
    /// Adjacent pieces of 16 columns of a product that a warp computes.
    pieces: usize,
    /// Blocks that work on rows and should fit on an SM together.
    places: usize,
    /// Steps along k that a stage of the ring of weights holds.
    chunk: usize,
    /// Bytes of a step along k, as wide as the channels.
    step: usize,
    /// Stages of the ring.
    stages: usize,
    /// Blocks that share the projection of a tile of nodes.
    pub(crate) parts: usize,
    /// Edges of a node that are fetched together.
    burst: usize,
    /// Side of a block of a weight gradient.
    pub(crate) unit: usize,
    /// Partial gradients that every matrix is summed up from.
    pub(crate) chunks: usize,
    /// Partial gradients that the rows of nodes are divided into; each has as many rows as one of
    /// edges.
    pub(crate) node_chunks: usize,
}

/// Most threads of a block that works on rows, and most rows.
const MOST: (usize, usize) = (768, 96);

/// Registers and bytes of shared memory of an SM; of the latter, what a block has in arrays of
/// fixed size, and the driver's.
const REGISTERS: usize = 1 << 16;
const SHARED: (usize, usize) = (228 << 10, 9 << 10);

impl Shape {
    pub(crate) fn of(network: &Network, precision: Precision, device: &CudaDevice, usual: Size) -> Self {
        Self::with(network, precision, device.sms, usual)
    }

    fn with(network: &Network, precision: Precision, sms: usize, usual: Size) -> Self {
        let d = network.channels.padded_width();
        let (terms, deep) = match precision {
            Precision::F32 => (2, d / 8),
            Precision::Tf32 => (1, d / 8),
            Precision::Bf16 => (1, d / 16),
        };
        let step = 32 * d * terms;
        let edges = if network.edge_stream { usual.edges } else { 0 };
        // Enough to fill a GPU, few enough to be read again; with edges there are twice as many
        // matrices.
        let least = if network.edge_stream { 6 } else { 16 };
        let chunks = (usual.nodes.max(edges) >> 10).clamp(least, 48);
        let (rows, stage) = tile(d, sms, usual.nodes, edges);
        let shape = Self {
            d,
            heads: network.channels.padded_heads(),
            hidden: padded(2 * network.channels.width()),
            rows,
            // Half the threads then load what is on the left.
            pieces: if terms == 1 && d.is_multiple_of(32) { 2 } else { 1 },
            places: 1,
            chunk: 1,
            step,
            stages: if d <= 256 { 3 } else { 2 },
            // Nodes have three products to the edges' one.
            parts: if network.edge_stream { 3 } else { 1 },
            // Nodes of molecules have one to three; for most others, more would be better than
            // there are registers for.
            burst: if usual.edges <= 3 * usual.nodes { 2 } else { 8 },
            unit: if d <= 96 { d.max(32) } else { 64 },
            chunks,
            node_chunks: (chunks * usual.nodes).div_ceil(edges.max(1)).clamp(1, chunks),
        };
        // Parallel runs are faster with several blocks per SM, and a single run is as fast.
        // Registers decide how many there can be, and stages of the ring are small enough for them,
        // or as large as they may be where not even the smallest are.
        let threads = shape.threads() as usize;
        let registers = match (terms, threads) {
            (2, _) => 56,
            (_, ..=512) => 64,
            _ => 48,
        };
        let places = (REGISTERS / (threads * registers)).clamp(1, 3);
        let of = |chunk| Self { chunk, places, ..shape };
        let fitting = (1..=deep).rev().filter(|&chunk| deep.is_multiple_of(chunk) && chunk * step <= stage).map(of);
        let several = fitting.clone().find(|shape| places * (shape.tiles(&[d, d]) + SHARED.1) <= SHARED.0);
        several.or(fitting.clone().next()).unwrap_or(of(1))
    }

    /// Threads of a block that works on rows.
    pub(crate) fn threads(self) -> u32 {
        (self.rows * self.d / (8 * self.pieces)) as u32
    }

    /// Bytes of the ring of weights and of tiles with the given widths.
    pub(crate) fn tiles(self, widths: &[usize]) -> usize {
        let ring = self.stages * self.chunk * self.step;
        ring + widths.iter().map(|width| self.rows * (width + 4) * 4).sum::<usize>()
    }
}

/// Rows of a tile, and bytes that a stage of the ring of weights should not exceed.
///
/// As few rows as possible without more tiles than SMs: each SM then has one tile, and reads the
/// weights once. If there are more tiles than SMs in any case, tiles are small enough for an SM to
/// work on several at a time.
fn tile(d: usize, sms: usize, nodes: usize, edges: usize) -> (usize, usize) {
    let most = (8 * MOST.0 / d).min(MOST.1).max(16) / 16 * 16;
    let fits = |&rows: &usize| nodes.div_ceil(rows) + edges.div_ceil(rows) <= sms;
    match (16..=most).step_by(16).find(fits) {
        Some(rows) => (rows, 26 << 10),
        None => (most.min(48), 9 << 10),
    }
}

/// The compiler's options for a network.
pub(crate) fn options(network: &Network, shape: Shape, precision: Precision, architecture: &str) -> Vec<String> {
    let defines = [
        ("D", shape.d),
        ("WIDTH", network.channels.width()),
        ("HEADS", shape.heads),
        ("TRUE_HEADS", network.channels.heads()),
        ("HIDDEN", shape.hidden),
        ("ROWS", shape.rows),
        ("PIECES", shape.pieces),
        ("PLACES", shape.places),
        ("CHUNK", shape.chunk),
        ("PARTS", shape.parts),
        ("STAGES", shape.stages),
        ("BURST", shape.burst),
        ("UNIT", shape.unit),
        ("NORM", [Norm::None, Norm::Batch, Norm::Layer].iter().position(|&n| n == network.norm).unwrap_or(0)),
        ("EDGE", usize::from(network.edge_stream)),
        ("DROPOUT", usize::from(network.dropout > 0.0)),
        ("RESIDUAL", usize::from(network.residual)),
        ("GATE", usize::from(network.gate == Gate::Scalar)),
        ("CLAMP", usize::from(network.clamp == Clamp::Exponentials)),
        ("KIND", LayerKind::of(network) as usize),
        // A convolution with other shares.
        ("MEAN", usize::from(averages(network))),
        ("PRECISION", precision as usize),
        ("PARAMETERS", Parameters::new(network).size()),
    ];
    let mut options = vec![format!("--gpu-architecture={architecture}"), "--std=c++17".to_owned()];
    options.extend(defines.iter().map(|(name, value)| format!("-D{name}={value}")));
    options
}

/// All kernels, and the checks of what they share with the host.
fn source() -> String {
    let checks = abi::checks();
    let files = SOURCES.into_iter().chain([("abi.rs", checks.as_str())]);
    files.map(|(name, text)| format!("#line 1 \"{name}\"\n{text}")).collect()
}

/// Compiles the kernels to machine code. Needs the compiler's library, but no GPU.
///
/// # Errors
/// If the library is not there, or rejects the source.
pub(crate) fn compile(options: &[String]) -> Result<Vec<u8>> {
    compile_source(&source(), options)
}

fn compile_source(source: &str, options: &[String]) -> Result<Vec<u8>> {
    // SAFETY: only tries to load the library.
    if !unsafe { sys::is_culib_present() } {
        return Err(CudaError::NoCompiler);
    }
    let failed = |what: &str, code: sys::nvrtcResult| CudaError::Compile(format!("{what} gave {code:?}"));
    let text = |value: &str| CString::new(value).map_err(|e| CudaError::Compile(e.to_string()));
    let (source, name) = (text(source)?, text("graph-transformer.cu")?);
    let options: Vec<CString> = options.iter().map(|option| text(option)).collect::<Result<_>>()?;
    let pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
    let mut program = std::ptr::null_mut();
    // SAFETY: all texts end with a zero and outlive the program; lengths are queried before buffers
    // are filled.
    unsafe {
        let created = sys::nvrtcCreateProgram(
            &mut program,
            source.as_ptr(),
            name.as_ptr(),
            0,
            std::ptr::null(),
            std::ptr::null(),
        );
        if created != sys::nvrtcResult::NVRTC_SUCCESS {
            return Err(failed("nvrtcCreateProgram", created));
        }
        let compiled = sys::nvrtcCompileProgram(program, pointers.len() as i32, pointers.as_ptr());
        let result = if compiled == sys::nvrtcResult::NVRTC_SUCCESS {
            let mut size = 0;
            sys::nvrtcGetCUBINSize(program, &mut size);
            let mut image = vec![0u8; size];
            match sys::nvrtcGetCUBIN(program, image.as_mut_ptr().cast()) {
                sys::nvrtcResult::NVRTC_SUCCESS => Ok(image),
                code => Err(failed("nvrtcGetCUBIN", code)),
            }
        } else {
            let mut size = 0;
            sys::nvrtcGetProgramLogSize(program, &mut size);
            let mut log = vec![0u8; size];
            sys::nvrtcGetProgramLog(program, log.as_mut_ptr().cast());
            Err(CudaError::Compile(String::from_utf8_lossy(&log).trim_matches(['\0', '\n', ' ']).to_owned()))
        };
        sys::nvrtcDestroyProgram(&mut program);
        result
    }
}

/// A program that is in use or was dropped by all its users; locked while it is compiled.
type Place = Arc<Mutex<Weak<Program>>>;

/// The programs in use on a GPU, by the options they were compiled with.
#[derive(Debug, Default)]
pub(crate) struct Programs(Mutex<HashMap<Vec<String>, Place>>);

impl Programs {
    /// The program in use for some options, or a new one; concurrent requests for the same options
    /// wait.
    fn get(&self, options: &[String], make: impl FnOnce() -> Result<Program>) -> Result<Arc<Program>> {
        let place = {
            let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(places.entry(options.to_vec()).or_default())
        };
        let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(program) = place.upgrade() {
            return Ok(program);
        }
        let program = Arc::new(make()?);
        *place = Arc::downgrade(&program);
        Ok(program)
    }
}

/// The kernels on a GPU.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) shape: Shape,
    /// With the bytes of shared memory that a launch may use.
    functions: HashMap<&'static str, (CudaFunction, usize)>,
}

const KERNELS: [&str; 28] = [
    "use_running",
    "merge_group",
    "settle_gradients",
    "begin_batch",
    "gather_batch",
    "embed",
    "embed_backward",
    "project",
    "attend",
    "join",
    "feed",
    "read_rows",
    "pool",
    "pair_up",
    "head_forward",
    "count_labels",
    "loss",
    "head_backward",
    "spread",
    "enter_backward",
    "feed_backward",
    "join_backward",
    "attend_backward",
    "project_backward",
    "weigh_gradients",
    "gather_gradients",
    "adam",
    "copy_all",
];

/// Kernels of layers of other kinds than attention.
fn message_kernels(kind: LayerKind) -> Vec<&'static str> {
    let all = [
        "message_forward",
        "message_project",
        "message_measure",
        "message_activate",
        "message_activate_backward",
        "message_project_backward",
    ];
    let own: &[&str] = match kind {
        LayerKind::Attention => return Vec::new(),
        LayerKind::Convolution => &["message_return"],
        LayerKind::AdditiveAttention => &["message_into", "message_out", "message_unnormalise", "message_vectors"],
        LayerKind::Gated => {
            &["message_gate", "message_gate_backward", "message_into", "message_out", "message_unnormalise"]
        }
    };
    [&all[..], own].concat()
}

impl Program {
    /// The kernels of a network. Parallel runs of the same network share them, so an SM caches the
    /// instructions of one program.
    ///
    /// # Errors
    /// If they are not cached and cannot be compiled, or the driver rejects them.
    pub(crate) fn of(
        device: &CudaDevice,
        network: &Network,
        precision: Precision,
        usual: Size,
        cache: Option<&Path>,
    ) -> Result<Arc<Self>> {
        let shape = Shape::of(network, precision, device, usual);
        let options = options(network, shape, precision, &device.architecture);
        device.programs.get(&options, || Self::new(device, network, shape, &options, cache))
    }

    /// Takes the kernels from the cache, or compiles them and puts them there.
    fn new(
        device: &CudaDevice,
        network: &Network,
        shape: Shape,
        options: &[String],
        cache: Option<&Path>,
    ) -> Result<Self> {
        let load = |image| device.context.load_module(Ptx::from_binary(image));
        let module = match load(machine_code(options, cache)?) {
            // What lies in the cache may be damaged.
            Err(_) if forget(options, cache) => load(machine_code(options, cache)?)?,
            loaded => loaded?,
        };
        let names = KERNELS.into_iter().chain(message_kernels(LayerKind::of(network)));
        let function = |name| {
            use driver::CUfunction_attribute as Attribute;
            let function = module.load_function(name)?;
            // More than the usual 48 KB: all that arrays of fixed size leave.
            let fixed = function.get_attribute(Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)? as usize;
            let room = device.shared_memory.saturating_sub(fixed);
            function.set_attribute(Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, room as i32)?;
            Ok((name, (function, room)))
        };
        Ok(Self { shape, functions: names.map(function).collect::<Result<_>>()? })
    }

    pub(crate) fn function(&self, name: &str) -> &CudaFunction {
        &self.functions[name].0
    }

    /// Bytes of shared memory that a launch may use.
    pub(crate) fn room(&self, name: &str) -> usize {
        self.functions[name].1
    }
}

/// Machine code from the cache, or from the compiler and then into the cache.
pub(crate) fn machine_code(options: &[String], cache: Option<&Path>) -> Result<Vec<u8>> {
    let file = cache.map(|folder| folder.join(cache_name(options)));
    let cached = file.as_ref().and_then(|file| std::fs::read(file).ok()).filter(|image| !image.is_empty());
    if let Some(image) = cached {
        return Ok(image);
    }
    let image = compile(options)?;
    if let Some(file) = &file {
        keep(file, &image);
    }
    Ok(image)
}

/// Removes machine code from the cache, and returns whether there was any.
fn forget(options: &[String], cache: Option<&Path>) -> bool {
    cache.is_some_and(|folder| std::fs::remove_file(folder.join(cache_name(options))).is_ok())
}

/// Names the machine code by everything that it depends on.
fn cache_name(options: &[String]) -> PathBuf {
    // FNV-1a, twice with different starts. The hash only names a file; it is no protection against
    // an attacker.
    let hash = |start: u64| {
        let bytes = options.iter().flat_map(|option| option.bytes().chain([0])).chain(source().into_bytes());
        bytes.fold(start, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
    };
    PathBuf::from(format!(
        "{:016x}{:016x}.{KERNEL_EXTENSION}",
        hash(0xcbf2_9ce4_8422_2325),
        hash(0x8422_2325_cbf2_9ce4)
    ))
}

/// Stores machine code in the cache. A cache that cannot be written is no error.
fn keep(file: &Path, image: &[u8]) {
    let Some(folder) = file.parent() else { return };
    let _ = gt_graph::create_folder(folder).and_then(|()| gt_graph::write_atomic(file, image));
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use gt_testing::{Resource, skip};
    use rayon::prelude::*;

    use super::*;
    use crate::{Branch, Channels, Gate};

    /// Needs no GPU.
    #[test]
    fn kernels_compile_for_every_kind_of_network() {
        // SAFETY: only tries to load the library.
        if !unsafe { sys::is_culib_present() } {
            return skip(Resource::Nvrtc, "the CUDA run-time compiler (libnvrtc) cannot be loaded");
        }
        let base = Network::new(Channels::new(64, 8), 2);
        let message =
            |branch, width, heads| Network::new(Channels::new(width, heads), 2).with_branches(&[branch], false);
        let networks = [
            Network { edge_stream: true, ..base.clone() },
            Network { norm: Norm::Layer, ..Network::new(Channels::new(80, 8), 2) },
            Network { norm: Norm::None, edge_stream: true, gate: Gate::Scalar, ..Network::new(Channels::new(7, 1), 1) },
            Network { residual: false, ..Network::new(Channels::new(96, 48), 1) },
            Network::new(Channels::new(512, 8), 1),
            message(Branch::Gcn, 172, 1),
            message(Branch::GcnMean, 16, 1),
            message(Branch::Gat, 176, 8),
            Network { norm: Norm::Layer, ..message(Branch::Gat, 40, 20) },
            Network { edge_stream: true, ..message(Branch::GatedGcn, 78, 1) },
            Network { edge_stream: true, dropout: 0.1, ..message(Branch::GatedGcn, 7, 1) },
        ];
        let kinds = networks.iter().flat_map(|network| Precision::ALL.map(|precision| (network, precision, "sm_90")));
        let older = Precision::ALL.map(|precision| (&networks[0], precision, "sm_80"));
        let kinds: Vec<_> = kinds.chain(older).collect();
        // Small and large tiles interleaved.
        kinds.into_par_iter().enumerate().for_each(|(number, (network, precision, architecture))| {
            let (nodes, edges) = [(6_000, 12_000), (100, 200)][number % 2];
            let usual = Size { graphs: 10, nodes, edges };
            let shape = Shape::with(network, precision, 132, usual);
            let image = compile(&options(network, shape, precision, architecture)).unwrap();
            assert!(image.starts_with(b"\x7fELF"), "{architecture}");
        });
    }

    #[test]
    fn a_structure_that_differs_from_the_kernels_does_not_compile() {
        // SAFETY: only tries to load the library.
        if !unsafe { sys::is_culib_present() } {
            return skip(Resource::Nvrtc, "the CUDA run-time compiler (libnvrtc) cannot be loaded");
        }
        let network = Network::new(Channels::new(16, 1), 1);
        let shape = Shape::with(&network, Precision::F32, 132, Size { graphs: 1, nodes: 10, edges: 0 });
        let options = options(&network, shape, Precision::F32, "sm_90");
        let (size, offset) = ("sizeof(Site) == 88", "__INTADDR__(&((Control*)0)->dropout_base) == 48");
        for (right, wrong, what) in [(size, "sizeof(Site) == 84", "Site"), (offset, "false", "Control::dropout_base")] {
            assert!(source().contains(right), "{right}");
            match compile_source(&source().replace(right, wrong), &options) {
                Err(CudaError::Compile(log)) => assert!(log.contains(&format!("{what} differs from abi.rs")), "{log}"),
                other => panic!("{what}: {:?}", other.map(|image| image.len())),
            }
        }
    }

    #[test]
    fn runs_that_are_alike_share_their_kernels() {
        let network = Network::new(Channels::new(16, 1), 1);
        let shape = Shape::with(&network, Precision::F32, 132, Size { graphs: 1, nodes: 10, edges: 0 });
        let programs = Programs::default();
        let made = AtomicUsize::new(0);
        let get = |name: &str| {
            programs.get(&[name.to_owned()], || {
                made.fetch_add(1, Ordering::Relaxed);
                Ok(Program { shape, functions: HashMap::new() })
            })
        };
        assert!(programs.get(&["a".to_owned()], || Err(CudaError::NoCompiler)).is_err());
        let (first, again, other) = (get("a").unwrap(), get("a").unwrap(), get("b").unwrap());
        assert!(Arc::ptr_eq(&first, &again) && !Arc::ptr_eq(&first, &other));
        assert_eq!(made.load(Ordering::Relaxed), 2);
        // A program without users does not stay on the GPU.
        drop((first, again));
        get("a").unwrap();
        assert_eq!(made.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn several_blocks_fit_an_sm_where_registers_allow_it() {
        let blocks = |width, heads, precision, nodes, edges| {
            let network = Network { edge_stream: edges > 0, ..Network::new(Channels::new(width, heads), 2) };
            let shape = Shape::with(&network, precision, 132, Size { graphs: 128, nodes, edges });
            let places = SHARED.0 / (shape.tiles(&[shape.d, shape.d]) + SHARED.1);
            assert!(places >= shape.places, "{places} {shape:?}");
            shape.places
        };
        assert_eq!(blocks(64, 8, Precision::Tf32, 2_965, 6_382), 3);
        assert_eq!(blocks(64, 8, Precision::Bf16, 2_965, 6_382), 3);
        // Two terms need more registers.
        assert_eq!(blocks(64, 8, Precision::F32, 2_965, 6_382), 1);
        assert_eq!(blocks(64, 8, Precision::F32, 60_000, 120_000), 3);
        assert_eq!(blocks(80, 8, Precision::Tf32, 3_750, 0), 3);
        assert_eq!(blocks(48, 8, Precision::Tf32, 3_750, 8_000), 2);
    }

    #[test]
    fn tiles_are_as_small_as_the_sms_allow() {
        let rows = |d, nodes, edges| tile(d, 132, nodes, edges).0;
        assert_eq!(rows(64, 2_965, 6_382), 80);
        assert_eq!(rows(64, 100, 200), 16);
        assert_eq!(rows(64, 100_000, 200_000), 48);
        assert_eq!(rows(80, 3_750, 0), 32);
        assert_eq!(rows(512, 100_000, 0), 16);
    }
}
