//! Data that callers point at.
//!
//! The functions trust their callers as the real driver does: a pointer is valid for as many bytes
//! as the call says.

use std::ffi::{CStr, c_char, c_void};

/// Stores a result where the caller wants it.
pub fn put<T>(to: *mut T, value: T) {
    // SAFETY: the caller gives memory for the result.
    unsafe { to.write(value) }
}

/// Bytes that a caller gives.
pub fn bytes_at<'a>(from: *const u8, size: usize) -> &'a [u8] {
    // SAFETY: the caller points at that many bytes, which outlive the call.
    unsafe { std::slice::from_raw_parts(from, size) }
}

/// Bytes that a caller wants written.
pub fn bytes_at_mut<'a>(to: *mut u8, size: usize) -> &'a mut [u8] {
    // SAFETY: the caller gives memory for that many bytes, which outlives the call.
    unsafe { std::slice::from_raw_parts_mut(to, size) }
}

/// Pointers that a caller gives.
pub fn list_at<'a>(from: *const *const c_void, count: usize) -> &'a [*const c_void] {
    // SAFETY: the caller of a launch gives a pointer per parameter.
    unsafe { std::slice::from_raw_parts(from, count) }
}

/// Text that a caller gives; empty where it is not UTF-8.
pub fn text_at<'a>(from: *const c_char) -> &'a str {
    // SAFETY: texts end with a zero, and outlive the call.
    unsafe { CStr::from_ptr(from) }.to_str().unwrap_or_default()
}
