//! The kernels' structures, as Rust sees them. Each mirrors one of the same name in `kernels/`; a pointer is a device address, 0 for none.

use cudarc::driver::DeviceRepr;

/// A device address.
pub(crate) type Pointer = u64;

macro_rules! device_structs {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $kind:ty),* $(,)? })*) => {$(
        $(#[$doc])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug, Default)]
        pub(crate) struct $name { $(pub(crate) $field: $kind,)* }

        // SAFETY: plain numbers in the order and alignment of the C structure.
        unsafe impl DeviceRepr for $name {}
    )*};
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
    }
    InputGradient { kind: i32, column: i32, entries: i32, weight: Pointer, bias: Pointer }
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
    Streams { node: Half, edge: Half, with_edges: i32, threshold: u32, scale: f32 }
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
    }
    Message {
        node: MessageHalf,
        edge: MessageHalf,
        with_edges: i32,
        threshold: u32,
        scale: f32,
        vectors: Pointer,
        logits: Pointer,
        softmax: Pointer,
        dlogits: Pointer,
        dt: Pointer,
        single: i32,
        inverse: Pointer,
    }
    HeadLayer { linear: Linear, out: Pointer, dout: Pointer, inner: i32, width: i32 }
    Head { input: Pointer, dinput: Pointer, layers: [HeadLayer; 8], count: i32, widest: i32 }
    Spread { dinput: Pointer, largest: Pointer, width: i32, reads: i32, readout: i32 }
    Labels { floats: Pointer, classes: Pointer, columns: i32, level: i32, kind: i32, width: i32, padded: i32 }
    Job { a: Pointer, g: Pointer, weight: Pointer, bias: Pointer, site: Site, k: i32, n: i32, rows: i32, chunks: i32, first: i32 }
    Jobs { list: [Job; 8], count: i32, stride: usize }
}

// SAFETY: all zeros is a valid value of each.
unsafe impl cudarc::driver::ValidAsZeroBits for Control {}
