//! Programs use the stand-ins through cudarc as they use the real driver.
#![cfg(target_os = "linux")]

use std::ffi::CString;
use std::sync::Arc;

use cudarc::driver::{
    CudaContext, CudaSlice, CudaStream, DevicePtr, DeviceRepr, LaunchConfig, PushKernelArg, result, sys,
};
use cudarc::nvrtc::{Ptx, result as compiler};
use graph_transformer_cuda_recorder::Recorder;

const SOURCE: &str = r#"
struct Pair { float* at; int count; };
extern "C" __global__ void __launch_bounds__(128) fill(Pair pair, const float* from, float by) {}
static_assert(sizeof(Pair) == 16, "Pair");
"#;

/// `Pair` of the source.
#[repr(C)]
struct Pair {
    at: u64,
    count: i32,
    padding: i32,
}

// SAFETY: the C structure's fields, without gaps.
unsafe impl DeviceRepr for Pair {}

fn stream() -> Arc<CudaStream> {
    let context = CudaContext::new(0).unwrap();
    // SAFETY: the tests order their own work.
    unsafe { context.disable_event_tracking() };
    context.new_stream_with_priority(0).unwrap()
}

fn address_of<T>(memory: &CudaSlice<T>) -> u64 {
    memory.device_ptr(memory.stream()).0
}

fn compile(source: &str) -> Result<Ptx, compiler::NvrtcError> {
    let program = compiler::create_program(&CString::new(source).unwrap(), None).unwrap();
    // SAFETY: the program was created and is destroyed once.
    unsafe {
        let image = compiler::compile_program::<&str>(program, &[]).map(|()| {
            let mut size = 0;
            cudarc::nvrtc::sys::nvrtcGetCUBINSize(program, &mut size);
            let mut image = vec![0u8; size];
            cudarc::nvrtc::sys::nvrtcGetCUBIN(program, image.as_mut_ptr().cast());
            Ptx::from_binary(image)
        });
        compiler::destroy_program(program).unwrap();
        image
    }
}

#[test]
fn memory_keeps_what_copies_put_there() {
    let recorder = Recorder::start();
    let stream = stream();
    let mut memory = stream.alloc_zeros::<u32>(4).unwrap();
    stream.memcpy_htod(&[1u32, 2], &mut memory.slice_mut(1..3)).unwrap();
    assert_eq!(stream.clone_dtoh(&memory).unwrap(), [0, 1, 2, 0]);
    assert_eq!(recorder.held(), "#1 of 16 bytes\n1 contexts\nstream 1");
    drop((memory, stream));
    assert_eq!(recorder.held(), "");
    let recording = recorder.take();
    let words: Vec<&str> = recording.as_str().lines().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(words, ["stream", "alloc", "set", "copy-in", "copy-out", "free"]);
}

#[test]
fn launches_are_recorded_with_arguments_that_do_not_depend_on_addresses() {
    let record = |before: usize| {
        let recorder = Recorder::start();
        let stream = stream();
        let module = stream.context().load_module(compile(SOURCE).unwrap()).unwrap();
        let function = module.load_function("fill").unwrap();
        // This allocation changes the addresses of later allocations.
        let first = stream.alloc_zeros::<u8>(before).unwrap();
        let memory = stream.alloc_zeros::<f32>(8).unwrap();
        let address = address_of(&memory);
        let (pair, from, by) = (Pair { at: address, count: 8, padding: 0 }, address + 4, 0.5f32);
        let config = LaunchConfig { grid_dim: (2, 1, 1), block_dim: (128, 1, 1), shared_mem_bytes: 64 };
        // SAFETY: nothing is computed.
        unsafe { stream.launch_builder(&function).arg(&pair).arg(&from).arg(&by).launch(config) }.unwrap();
        drop((first, memory));
        let recording = recorder.take();
        recording.lines_of("launch").map(str::to_owned).collect::<Vec<_>>()
    };
    let [launch] = &record(16)[..] else { panic!() };
    assert_eq!(launch, "launch fill grid 2,1,1 block 128,1,1 shared 64 s1 args #2+0 8 #2+4 3f000000");
    assert_eq!(record(1_600_000), record(16));
}

#[test]
fn a_source_whose_structures_are_not_known_does_not_compile() {
    let _recorder = Recorder::start();
    assert!(compile(&SOURCE.replace("sizeof(Pair)", "sizeof(Other)")).is_err());
}

#[test]
fn copies_outside_their_allocation_and_use_after_free_are_misuse() {
    let recorder = Recorder::start();
    let stream = stream();
    let memory = stream.alloc_zeros::<u8>(8).unwrap();
    let address = address_of(&memory);
    let mut bytes = [0u8; 9];
    // SAFETY: the stand-in checks all arguments.
    let mut copy = || unsafe { result::memcpy_dtoh_async(&mut bytes, address, stream.cu_stream()) };
    assert_eq!(copy().unwrap_err().0, sys::CUresult::CUDA_ERROR_INVALID_VALUE);
    drop(memory);
    assert!(copy().is_err());
    // SAFETY: the stand-in checks all arguments.
    assert!(unsafe { result::free_async(address, stream.cu_stream()) }.is_err());
    let recording = recorder.take();
    assert_eq!(recording.lines_of("misuse").count(), 3, "{}", recording.as_str());
}

#[test]
fn captured_work_has_to_come_back_to_the_first_stream() {
    let recorder = Recorder::start();
    let stream = stream();
    let side = stream.context().new_stream_with_priority(0).unwrap();
    let module = stream.context().load_module(compile(SOURCE).unwrap()).unwrap();
    let function = module.load_function("fill").unwrap();
    let pair = Pair { at: 0, count: 0, padding: 0 };
    let capture = |joins: bool| {
        stream.begin_capture(sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).unwrap();
        side.join(&stream).unwrap();
        let config = LaunchConfig { grid_dim: (1, 1, 1), block_dim: (1, 1, 1), shared_mem_bytes: 0 };
        // SAFETY: nothing is computed.
        unsafe { side.launch_builder(&function).arg(&pair).arg(&0u64).arg(&0f32).launch(config) }.unwrap();
        if joins {
            stream.join(&side).unwrap();
        }
        stream.end_capture(sys::CUgraphInstantiate_flags(0))
    };
    let unjoined = capture(false).map(|_| ()).unwrap_err();
    assert_eq!(unjoined.0, sys::CUresult::CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    capture(true).unwrap().unwrap().launch().unwrap();
    let recording = recorder.take();
    assert_eq!(recording.lines_of("captured").collect::<Vec<_>>(), ["captured 1 of 1 launches"]);
    assert_eq!(recording.lines_of("run").count(), 1);
}
