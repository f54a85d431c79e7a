//! The driver functions that the engine calls, with their types from `cuda.h`.
//!
//! [`state::call`] counts and records each call of these functions, and makes calls fail. A
//! function that releases a resource does so even if the call fails, because a program cannot do
//! more.

mod capture;
mod control;
mod machine;
mod memory;
mod pointers;
mod resources;
mod state;

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_void};

use capture::CAPTURE_UNSUPPORTED;
use memory::Place;
use pointers::{bytes_at, bytes_at_mut, put, text_at};
use resources::{Handle, Resource};
use state::{Code, INVALID_HANDLE, INVALID_VALUE, State, call, give_back};

const NOT_FOUND: Code = 500;
const INVALID_DEVICE: Code = 101;
const INVALID_IMAGE: Code = 200;
/// Limits of the real driver: threads of a block, and blocks in the second and third direction.
const MOST_THREADS: u32 = 1024;
const MOST_BLOCKS: u32 = 65_535;

thread_local! {
    /// The context that a thread works in.
    static CURRENT: Cell<Handle> = const { Cell::new(0) };
}

/// Defines a driver function whose calls can fail; its body sees the state.
macro_rules! driver {
    ($($(#[$doc:meta])* fn $name:ident($state:ident $(, $argument:ident: $kind:ty)* $(,)?) $body:block)*) => {$(
        $(#[$doc])*
        #[unsafe(no_mangle)]
        extern "C" fn $name($($argument: $kind),*) -> Code {
            call(stringify!($name), |$state: &mut State| $body)
        }
    )*};
}

/// Defines a driver function that releases a resource.
macro_rules! giving_back {
    ($($(#[$doc:meta])* fn $name:ident($state:ident $(, $argument:ident: $kind:ty)*) $body:block)*) => {$(
        $(#[$doc])*
        #[unsafe(no_mangle)]
        extern "C" fn $name($($argument: $kind),*) -> Code {
            give_back(stringify!($name), |$state: &mut State| $body)
        }
    )*};
}

/// Text of a result; works without a device, and never fails.
#[unsafe(no_mangle)]
extern "C" fn cuGetErrorString(error: Code, text: *mut *const c_char) -> Code {
    let known: &CStr = match error {
        2 => c"out of memory",
        100 => c"no CUDA-capable device is detected",
        700 => c"an illegal memory access was encountered",
        719 => c"unspecified launch failure",
        _ => c"a failure that a test asked for",
    };
    put(text, known.as_ptr());
    0
}

driver! {
    fn cuInit(_state, _flags: u32) { Ok(()) }
    fn cuDriverGetVersion(state, version: *mut i32) {
        put(version, state.machine.driver_version);
        Ok(())
    }
    fn cuDeviceGetCount(_state, count: *mut i32) {
        put(count, 1);
        Ok(())
    }
    fn cuDeviceGet(_state, device: *mut i32, ordinal: i32) {
        put(device, ordinal);
        if ordinal == 0 { Ok(()) } else { Err(INVALID_DEVICE) }
    }
    fn cuDeviceGetName(_state, name: *mut c_char, length: i32, _device: i32) {
        let text = b"NVIDIA H200\0";
        if (length as usize) < text.len() {
            return Err(INVALID_VALUE);
        }
        bytes_at_mut(name.cast(), text.len()).copy_from_slice(text);
        Ok(())
    }
    fn cuDeviceGetAttribute(state, value: *mut i32, attribute: i32, _device: i32) {
        put(value, match attribute {
            16 => 132,           // multiprocessors
            36 => 3_201_000,     // memory clock, kHz
            37 => 6_144,         // width of the memory's bus, bits
            75 => state.machine.capability.0,
            76 => state.machine.capability.1,
            97 => 232_448,       // shared memory that a block may use
            115 => 1,            // memory pools
            _ => return Err(INVALID_VALUE),
        });
        Ok(())
    }
    fn cuDevicePrimaryCtxRetain(state, context: *mut Handle, _device: i32) {
        put(context, state.resources.retain_context());
        Ok(())
    }
    fn cuCtxGetCurrent(_state, context: *mut Handle) {
        put(context, CURRENT.get());
        Ok(())
    }
    fn cuCtxSetCurrent(_state, context: Handle) {
        CURRENT.set(context);
        Ok(())
    }
    fn cuCtxSynchronize(state) {
        if state.capture.is_some() { Err(CAPTURE_UNSUPPORTED) } else { Ok(()) }
    }
    fn cuCtxGetStreamPriorityRange(_state, least: *mut i32, greatest: *mut i32) {
        put(least, 0);
        put(greatest, -5);
        Ok(())
    }
    fn cuMemGetInfo_v2(state, free: *mut usize, total: *mut usize) {
        put(free, state.memory.free_bytes());
        put(total, state.memory.total);
        Ok(())
    }
    fn cuMemAllocAsync(state, address: *mut u64, size: usize, stream: Handle) {
        let stream = state.resources.stream(stream)?;
        let (number, base) = state.memory.allocate(size, Place::Device)?;
        put(address, base);
        state.write(format_args!("alloc #{number} {size} {stream}"));
        Ok(())
    }
    fn cuMemHostAlloc(state, address: *mut *mut c_void, size: usize, _flags: u32) {
        let (number, base) = state.memory.allocate(size, Place::Host)?;
        put(address, state.memory.host_address(base)?.cast());
        state.write(format_args!("alloc-host #{number} {size}"));
        Ok(())
    }
    fn cuMemHostGetDevicePointer_v2(state, address: *mut u64, host: *mut c_void, _flags: u32) {
        put(address, state.memory.base_of_host(host.cast()).ok_or(INVALID_VALUE)?);
        Ok(())
    }
    fn cuMemsetD8Async(state, address: u64, value: u8, size: usize, stream: Handle) {
        let stream = state.resources.stream(stream)?;
        state.bytes(address, size)?.fill(value);
        let place = state.memory.describe(address);
        state.write(format_args!("set {place} {size} {value} {stream}"));
        Ok(())
    }
    fn cuMemcpyHtoDAsync_v2(state, to: u64, from: *const c_void, size: usize, stream: Handle) {
        let stream = state.resources.stream(stream)?;
        let content = bytes_at(from.cast(), size);
        state.bytes(to, size)?.copy_from_slice(content);
        let (place, digest) = (state.memory.describe(to), state.memory.digest(content));
        state.write(format_args!("copy-in {place} {size} {digest:016x} {stream}"));
        Ok(())
    }
    fn cuMemcpyDtoHAsync_v2(state, to: *mut c_void, from: u64, size: usize, stream: Handle) {
        let stream = state.resources.stream(stream)?;
        bytes_at_mut(to.cast(), size).copy_from_slice(state.bytes(from, size)?);
        let place = state.memory.describe(from);
        state.write(format_args!("copy-out {place} {size} {stream}"));
        Ok(())
    }
    /// Takes the text of the compiler's stand-in: options in the first line, then a kernel a line.
    fn cuModuleLoadData(state, module: *mut Handle, image: *const c_void) {
        let text = text_at(image.cast()).strip_prefix("recorded kernels ").ok_or(INVALID_IMAGE)?;
        let (options, kernels) = text.split_once('\n').ok_or(INVALID_IMAGE)?;
        put(module, state.resources.add(Resource::Module(resources::kernels(kernels).ok_or(INVALID_IMAGE)?)));
        state.write(format_args!("load {options}"));
        Ok(())
    }
    fn cuModuleGetFunction(state, function: *mut Handle, module: Handle, name: *const c_char) {
        let Resource::Module(kernels) = state.resources.get(module)? else { return Err(INVALID_HANDLE) };
        let kernel = kernels.get(text_at(name)).ok_or(NOT_FOUND)?.clone();
        put(function, state.resources.add_function(kernel));
        Ok(())
    }
    /// The compiler's stand-in knows of no shared memory of fixed size.
    fn cuFuncGetAttribute(_state, value: *mut i32, _attribute: i32, _function: Handle) {
        put(value, 0);
        Ok(())
    }
    fn cuFuncSetAttribute(state, function: Handle, attribute: i32, value: i32) {
        // The only attribute that the engine sets.
        if attribute != 8 {
            return Err(INVALID_VALUE);
        }
        state.resources.function(function)?.most_shared = value as u32;
        Ok(())
    }
    fn cuStreamCreateWithPriority(state, stream: *mut Handle, _flags: u32, priority: i32) {
        let handle = state.resources.add(Resource::Stream);
        put(stream, handle);
        let name = state.resources.stream(handle)?;
        state.write(format_args!("stream {name} priority {priority}"));
        Ok(())
    }
    fn cuStreamSynchronize(state, stream: Handle) {
        let name = state.resources.stream(stream)?;
        if state.capture.as_ref().is_some_and(|capture| capture.holds(stream)) {
            return Err(CAPTURE_UNSUPPORTED);
        }
        state.write(format_args!("wait-for {name}"));
        Ok(())
    }
    fn cuEventCreate(state, event: *mut Handle, _flags: u32) {
        put(event, state.resources.add(Resource::Event(None)));
        Ok(())
    }
    fn cuEventRecord(state, event: Handle, stream: Handle) {
        let name = state.resources.stream(stream)?;
        let seen = state.capture.as_ref().and_then(|capture| capture.seen_by(stream));
        let number = state.resources.record(event, seen)?;
        state.write(format_args!("event {number} {name}"));
        Ok(())
    }
    fn cuStreamWaitEvent(state, stream: Handle, event: Handle, _flags: u32) {
        let name = state.resources.stream(stream)?;
        let (number, seen) = state.resources.recorded(event)?;
        if let (Some(capture), Some(seen)) = (&mut state.capture, seen) {
            capture.join(stream, &seen);
        }
        state.write(format_args!("after {number} {name}"));
        Ok(())
    }
    fn cuLaunchKernel(
        state,
        function: Handle,
        grid_x: u32,
        grid_y: u32,
        grid_z: u32,
        block_x: u32,
        block_y: u32,
        block_z: u32,
        shared: u32,
        stream: Handle,
        parameters: *const *const c_void,
        _extra: *const c_void,
    ) {
        let name = state.resources.stream(stream)?;
        let kernel = state.resources.function(function)?.clone();
        let fits = grid_x > 0 && (1..=MOST_BLOCKS).contains(&grid_y) && (1..=MOST_BLOCKS).contains(&grid_z);
        let threads = u64::from(block_x) * u64::from(block_y) * u64::from(block_z);
        if !fits || !(1..=u64::from(MOST_THREADS)).contains(&threads) || shared > kernel.most_shared {
            return Err(INVALID_VALUE);
        }
        let mut arguments = String::new();
        for (&size, &parameter) in kernel.parameters.iter().zip(pointers::list_at(parameters, kernel.parameters.len())) {
            let bytes = bytes_at(parameter.cast(), size);
            state.memory.describe_words(bytes, &mut arguments);
            if let Some(stale) = state.memory.stale(bytes) {
                state.write(format_args!("misuse {} is given {stale}", kernel.name));
            }
        }
        if let Some(capture) = &mut state.capture {
            capture.work(stream);
        }
        state.write(format_args!(
            "launch {} grid {grid_x},{grid_y},{grid_z} block {block_x},{block_y},{block_z} shared {shared} {name} args{arguments}",
            kernel.name
        ));
        Ok(())
    }
    fn cuStreamBeginCapture_v2(state, stream: Handle, _mode: u32) {
        let name = state.resources.stream(stream)?;
        state.begin_capture(stream)?;
        state.write(format_args!("capture {name}"));
        Ok(())
    }
    fn cuStreamEndCapture(state, stream: Handle, graph: *mut Handle) {
        put(graph, 0);
        let launches = state.end_capture(stream)?;
        let handle = state.resources.add(Resource::Graph);
        put(graph, handle);
        let number = state.resources.number(handle)?;
        state.write(format_args!("captured {number} of {launches} launches"));
        Ok(())
    }
    fn cuGraphInstantiateWithFlags(state, executable: *mut Handle, graph: Handle, flags: u64) {
        let from = state.resources.number(graph)?;
        let handle = state.resources.add(Resource::Executable);
        put(executable, handle);
        let number = state.resources.number(handle)?;
        state.write(format_args!("instantiate {number} from {from} flags {flags}"));
        Ok(())
    }
    fn cuGraphUpload(state, executable: Handle, stream: Handle) {
        let (number, name) = (state.resources.number(executable)?, state.resources.stream(stream)?);
        state.write(format_args!("upload {number} {name}"));
        Ok(())
    }
    fn cuGraphLaunch(state, executable: Handle, stream: Handle) {
        let (number, name) = (state.resources.number(executable)?, state.resources.stream(stream)?);
        state.write(format_args!("run {number} {name}"));
        Ok(())
    }
}

giving_back! {
    fn cuDevicePrimaryCtxRelease_v2(state, _device: i32) { state.resources.release_context() }
    fn cuMemFreeAsync(state, address: u64, _stream: Handle) {
        let number = state.memory.release(address)?;
        state.write(format_args!("free #{number}"));
        Ok(())
    }
    fn cuMemFreeHost(state, host: *mut c_void) {
        let base = state.memory.base_of_host(host.cast()).ok_or(INVALID_VALUE)?;
        let number = state.memory.release(base)?;
        state.write(format_args!("free #{number}"));
        Ok(())
    }
    fn cuModuleUnload(state, module: Handle) { state.resources.remove(module) }
    fn cuStreamDestroy_v2(state, stream: Handle) { state.resources.remove(stream) }
    fn cuEventDestroy_v2(state, event: Handle) { state.resources.remove(event) }
    fn cuGraphDestroy(state, graph: Handle) { state.resources.remove(graph) }
    fn cuGraphExecDestroy(state, executable: Handle) { state.resources.remove(executable) }
}
