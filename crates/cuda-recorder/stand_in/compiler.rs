//! Stand-in for the run-time compiler.
//!
//! The stand-in's machine code is a text with the kernels and the sizes of their parameters. The
//! driver needs only these sizes to record a launch. Sizes of structures come from checks in the
//! source, `static_assert(sizeof(Batch) == 112, …)`.

#[allow(dead_code, reason = "the driver uses the rest")]
mod pointers;

use std::collections::BTreeMap;
use std::ffi::{CString, c_char};

use pointers::{bytes_at_mut, list_at, put, text_at};

const INVALID_INPUT: i32 = 3;
const COMPILATION: i32 = 6;

/// A program of the compiler.
struct Program {
    source: String,
    /// Machine code, or what is wrong.
    result: Result<CString, CString>,
}

/// A kernel's parameters begin here.
const KERNEL: &str = "extern \"C\" __global__ ";

/// The machine code for a source.
fn compile(source: &str, options: &[&str]) -> Result<String, String> {
    let sizes = sizes(source);
    let mut image = format!("recorded kernels {}\n", options.join(" "));
    for kernel in source.split(KERNEL).skip(1) {
        let head = kernel.split_once(" {").ok_or("a kernel without a body")?.0;
        // Bounds of a launch may stand before the name.
        let (before, parameters) = head.rsplit_once('(').ok_or("a kernel without parameters")?;
        let name = before.rsplit(' ').next().ok_or("a kernel without a name")?;
        image += name;
        for parameter in parameters.trim_end_matches(')').split(", ") {
            image += &format!(" {}", size(&sizes, parameter)?);
        }
        image.push('\n');
    }
    Ok(image)
}

/// Bytes of each structure that a check names.
fn sizes(source: &str) -> BTreeMap<&str, usize> {
    let checks = source.split("static_assert(sizeof(").skip(1).filter_map(|check| check.split_once(") == "));
    checks.filter_map(|(name, rest)| Some((name, rest.split([',', ' ']).next()?.parse().ok()?))).collect()
}

/// Bytes of a parameter.
fn size(sizes: &BTreeMap<&str, usize>, parameter: &str) -> Result<usize, String> {
    let qualifiers = ["const", "__grid_constant__"];
    let kind = parameter.split(' ').find(|word| !qualifiers.contains(word)).unwrap_or_default();
    match kind {
        _ if parameter.contains('*') => Ok(8),
        "int" | "u32" | "float" => Ok(4),
        "size_t" | "u64" | "double" => Ok(8),
        _ => sizes.get(kind).copied().ok_or_else(|| format!("`{parameter}`: the size of {kind} is not known")),
    }
}

#[unsafe(no_mangle)]
extern "C" fn nvrtcCreateProgram(
    program: *mut *mut Program,
    source: *const c_char,
    _name: *const c_char,
    _headers: i32,
    _contents: *const *const c_char,
    _names: *const *const c_char,
) -> i32 {
    let source = text_at(source).to_owned();
    put(program, Box::into_raw(Box::new(Program { source, result: Err(CString::default()) })));
    0
}

#[unsafe(no_mangle)]
extern "C" fn nvrtcCompileProgram(program: *mut Program, count: i32, options: *const *const c_char) -> i32 {
    let program = program_at(program);
    let options: Vec<&str> = list_at(options.cast(), count as usize).iter().map(|text| text_at(text.cast())).collect();
    let text = |text: String| CString::new(text).unwrap_or_default();
    program.result = compile(&program.source, &options).map(text).map_err(text);
    if program.result.is_ok() { 0 } else { COMPILATION }
}

#[unsafe(no_mangle)]
extern "C" fn nvrtcGetCUBINSize(program: *mut Program, size: *mut usize) -> i32 {
    give_size(program_at(program).result.as_ref().ok(), size)
}

#[unsafe(no_mangle)]
extern "C" fn nvrtcGetCUBIN(program: *mut Program, to: *mut c_char) -> i32 {
    give(program_at(program).result.as_ref().ok(), to)
}

#[unsafe(no_mangle)]
extern "C" fn nvrtcGetProgramLogSize(program: *mut Program, size: *mut usize) -> i32 {
    give_size(program_at(program).result.as_ref().err(), size)
}

#[unsafe(no_mangle)]
extern "C" fn nvrtcGetProgramLog(program: *mut Program, to: *mut c_char) -> i32 {
    give(program_at(program).result.as_ref().err(), to)
}

#[unsafe(no_mangle)]
extern "C" fn nvrtcDestroyProgram(program: *mut *mut Program) -> i32 {
    // SAFETY: the caller gives back, once, what `nvrtcCreateProgram` gave.
    drop(unsafe { Box::from_raw(program.read()) });
    put(program, std::ptr::null_mut());
    0
}

fn program_at<'a>(program: *mut Program) -> &'a mut Program {
    // SAFETY: it comes from `nvrtcCreateProgram`; a program is used by one thread at a time.
    unsafe { &mut *program }
}

fn give_size(text: Option<&CString>, size: *mut usize) -> i32 {
    put(size, text.map_or(0, |text| text.as_bytes_with_nul().len()));
    if text.is_some() { 0 } else { INVALID_INPUT }
}

fn give(text: Option<&CString>, to: *mut c_char) -> i32 {
    let Some(text) = text else { return INVALID_INPUT };
    let bytes = text.as_bytes_with_nul();
    bytes_at_mut(to.cast(), bytes.len()).copy_from_slice(bytes);
    0
}
