//! The kernels' structures, as Rust sees them.
//!
//! Each mirrors one of the same name in `kernels/`. A pointer is a device address, 0 for none.
//!
//! Padding is spelled out, so every byte that reaches the GPU is defined. The compiler compares
//! sizes and offsets with those of the kernels: [`checks`] is part of the source.

use std::fmt::Write;
use std::mem::offset_of;

use cudarc::driver::DeviceRepr;

/// A device address.
pub(crate) type Pointer = u64;

/// Bytes of one structure.
struct Layout {
    name: &'static str,
    size: usize,
    fields: &'static [Field],
}

/// Where a field lies in its structure.
struct Field {
    name: &'static str,
    offset: usize,
    size: usize,
}

/// Prefix of the names of fields that fill a gap. In C such gaps have no name.
const PADDING: &str = "padding";

macro_rules! device_structs {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $kind:ty),* $(,)? })*) => {
        $(
            $(#[$doc])*
            #[repr(C)]
            #[derive(Clone, Copy, Debug, Default)]
            pub(crate) struct $name { $(pub(crate) $field: $kind,)* }

            const _: () = assert!(size_of::<$name>() == 0 $(+ size_of::<$kind>())*, "a gap without a name");

            // SAFETY: plain numbers in the order and alignment of the C structure, without gaps.
            unsafe impl DeviceRepr for $name {}
        )*

        const LAYOUTS: &[Layout] = &[$(Layout {
            name: stringify!($name),
            size: size_of::<$name>(),
            fields: &[$(Field {
                name: stringify!($field),
                offset: offset_of!($name, $field),
                size: size_of::<$kind>(),
            },)*],
        },)*];
    };
}

/// C declarations that do not compile if a structure of the kernels differs from its mirror here.
pub(crate) fn checks() -> String {
    let mut text = String::new();
    let mut check = |condition: String, what: &str| {
        writeln!(text, "static_assert({condition}, \"{what} differs from abi.rs\");").expect("text has no end");
    };
    for Layout { name, size, fields } in LAYOUTS {
        check(format!("sizeof({name}) == {size}"), name);
        for Field { name: field, offset, size } in fields.iter().filter(|field| !field.name.starts_with(PADDING)) {
            let at = format!("__INTADDR__(&(({name}*)0)->{field}) == {offset}");
            check(format!("{at} && sizeof({name}::{field}) == {size}"), &format!("{name}::{field}"));
        }
    }
    text
}

device_structs! {
    Control {
        next: i32,
        current: i32,
        batch_size: i32,
        listed: i32,
        graphs: i32,
        nodes: i32,
        edges: i32,
        rows: i32,
        row_base: i32,
        bad_batch: i32,
        steps: u32,
        labels: u32,
        dropout_base: u64,
        lr: f32,
        beta1: f32,
        beta2: f32,
        adam_epsilon: f32,
        weight_decay: f32,
        clip: f32,
        decoupled: i32,
        train: i32,
        signs: i32,
        padding: i32,
        loss: f64,
        norm: f64,
        rate: f32,
        spread: f32,
    }
    Linear { weight: Pointer, transposed: Pointer, bias: Pointer }
    Site {
        gamma: Pointer,
        beta: Pointer,
        dgamma: Pointer,
        dbeta: Pointer,
        running: Pointer,
        stats: Pointer,
        moments: Pointer,
        sums: Pointer,
        ticket: Pointer,
        tiles: i32,
        group: i32,
        edges: i32,
        padding: i32,
    }
    Resident {
        node_start: Pointer,
        edge_start: Pointer,
        in_start: Pointer,
        in_source: Pointer,
        out_start: Pointer,
        out_edge: Pointer,
        out_target: Pointer,
    }
    Batch {
        control: Pointer,
        order: Pointer,
        graph_id: Pointer,
        node_start: Pointer,
        edge_start: Pointer,
        node_graph: Pointer,
        node_row: Pointer,
        edge_row: Pointer,
        in_start: Pointer,
        source: Pointer,
        target: Pointer,
        out_start: Pointer,
        out_edge: Pointer,
        out_target: Pointer,
    }
    Input {
        categorical: Pointer,
        linear: Pointer,
        hot_start: Pointer,
        hot: Pointer,
        laplacian: Pointer,
        walk: Pointer,
        roles: Pointer,
        signs: Pointer,
        embedding: [Pointer; 8],
        of_linear: Linear,
        of_laplacian: Linear,
        of_walk: Linear,
        words: Pointer,
        role_table: Pointer,
        bias: Pointer,
        columns: i32,
        linear_width: i32,
        laplacian_width: i32,
        walk_width: i32,
        role_count: i32,
        signs_per_graph: i32,
        zero_features: i32,
        padding: i32,
    }
    InputGradient { kind: i32, column: i32, entries: i32, padding: i32, weight: Pointer, bias: Pointer }
    Half {
        x: Pointer,
        projected: Pointer,
        attended: Pointer,
        middle: Pointer,
        hidden: Pointer,
        passed: Pointer,
        out: Pointer,
        normal_in: Pointer,
        normal_middle: Pointer,
        dout: Pointer,
        dout_raw: Pointer,
        dhidden: Pointer,
        dmiddle: Pointer,
        dmiddle_raw: Pointer,
        dattended: Pointer,
        dprojected: Pointer,
        delta: Pointer,
        jump: Pointer,
        jump_stride: i32,
        padding: i32,
        projection: Linear,
        output: Linear,
        first: Linear,
        second: Linear,
        input: Site,
        norm1: Site,
        norm2: Site,
        dropped_attended: u32,
        dropped_hidden: u32,
    }
    Streams { node: Half, edge: Half, with_edges: i32, threshold: u32, scale: f32, padding: i32 }
    Attention {
        qkv: Pointer,
        p: Pointer,
        attended: Pointer,
        scores: Pointer,
        inverse: Pointer,
        dattended: Pointer,
        dscores: Pointer,
        delta: Pointer,
        dqkv: Pointer,
        dp: Pointer,
        node_site: u32,
        edge_site: u32,
        threshold: u32,
        scale: f32,
    }
    MessageHalf {
        h: Pointer,
        projected: Pointer,
        x: Pointer,
        out: Pointer,
        g: Pointer,
        dy: Pointer,
        dx: Pointer,
        dprojected: Pointer,
        jump: Pointer,
        jump_stride: i32,
        returns: i32,
        linear: Linear,
        norm: Site,
        dropped: u32,
        padding: i32,
    }
    Message {
        node: MessageHalf,
        edge: MessageHalf,
        with_edges: i32,
        threshold: u32,
        scale: f32,
        padding: i32,
        vectors: Pointer,
        logits: Pointer,
        softmax: Pointer,
        dlogits: Pointer,
        dt: Pointer,
        single: i32,
        padding_before_inverse: i32,
        inverse: Pointer,
    }
    HeadLayer { linear: Linear, out: Pointer, dout: Pointer, inner: i32, width: i32 }
    Head { input: Pointer, dinput: Pointer, layers: [HeadLayer; 8], count: i32, widest: i32 }
    Spread { dinput: Pointer, largest: Pointer, width: i32, reads: i32, readout: i32, padding: i32 }
    Labels {
        floats: Pointer,
        classes: Pointer,
        columns: i32,
        level: i32,
        kind: i32,
        width: i32,
        padded: i32,
        padding: i32,
    }
    Job {
        a: Pointer,
        g: Pointer,
        weight: Pointer,
        bias: Pointer,
        site: Site,
        k: i32,
        n: i32,
        rows: i32,
        chunks: i32,
        first: i32,
        padding: i32,
    }
    Jobs { list: [Job; 8], count: i32, padding: i32, stride: usize }
}

// SAFETY: all zeros is a valid value of each.
unsafe impl cudarc::driver::ValidAsZeroBits for Control {}
