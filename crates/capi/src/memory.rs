//! What C hands over as pointers: checked for null, read and written here only.

use std::ffi::{CStr, c_char};

use crate::status::{Fault, Outcome};

/// The text at `text`.
///
/// # Safety
/// It is null, or ends with a zero and stays as it is during the call.
pub(crate) unsafe fn text<'a>(text: *const c_char, what: &str) -> Outcome<&'a str> {
    if text.is_null() {
        return Err(Fault::invalid(format!("{what} is null")));
    }
    // SAFETY: not null, and as the caller promises.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str()
        .map_err(|_| Fault::invalid(format!("{what} is no UTF-8")))
}

/// As [`text`]; `None` for null.
///
/// # Safety
/// As [`text`].
pub(crate) unsafe fn optional_text<'a>(
    pointer: *const c_char,
    what: &str,
) -> Outcome<Option<&'a str>> {
    match pointer.is_null() {
        true => Ok(None),
        // SAFETY: as the caller promises.
        false => unsafe { text(pointer, what) }.map(Some),
    }
}

/// The structure at `pointer`, of which C says it has `size` bytes.
///
/// # Safety
/// It is null, or points to `size` bytes. `T` is made of numbers, so that any bytes are a value.
pub(crate) unsafe fn structure<T: Copy>(pointer: *const T, size: usize, what: &str) -> Outcome<T> {
    check_size::<T>(size, what)?;
    if pointer.is_null() {
        return Err(Fault::invalid(format!("{what} is null")));
    }
    // SAFETY: not null, and as large as the caller promises; nothing is assumed of its alignment.
    Ok(unsafe { pointer.read_unaligned() })
}

/// Whether C and we mean the same structure.
pub(crate) fn check_size<T>(size: usize, what: &str) -> Outcome {
    let expected = size_of::<T>();
    match size == expected {
        true => Ok(()),
        false => Err(Fault::invalid(format!(
            "{what} has {size} bytes, this library has {expected}"
        ))),
    }
}

/// The `len` bytes at `data`.
///
/// # Safety
/// It is null, or points to `len` bytes that stay as they are during the call.
pub(crate) unsafe fn bytes<'a>(data: *const u8, len: usize, what: &str) -> Outcome<&'a [u8]> {
    if len == 0 {
        return Ok(&[]);
    }
    if data.is_null() || len > isize::MAX as usize {
        return Err(Fault::invalid(format!("{what} is null or too long")));
    }
    // SAFETY: not null, no longer than an object can be, and as the caller promises.
    Ok(unsafe { std::slice::from_raw_parts(data, len) })
}

/// Writes `value` to `pointer`, if that is not null.
///
/// # Safety
/// It is null, or points to room for a `T`.
pub(crate) unsafe fn write<T>(pointer: *mut T, value: T) {
    if !pointer.is_null() {
        // SAFETY: not null, and as the caller promises; nothing is assumed of its alignment.
        unsafe { pointer.write_unaligned(value) };
    }
}

/// Copies `data` to `buffer`, which has to have the room.
///
/// # Safety
/// `buffer` is null, or points to `capacity` bytes.
pub(crate) unsafe fn fill(buffer: *mut u8, capacity: usize, data: &[u8]) -> Outcome {
    if data.is_empty() {
        return Ok(());
    }
    if buffer.is_null() || capacity < data.len() {
        let needed = data.len();
        return Err(Fault::invalid(format!(
            "the buffer has {capacity} bytes, {needed} are needed"
        )));
    }
    // SAFETY: not null, large enough, and fresh memory of ours cannot overlap it.
    unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), buffer, data.len()) };
    Ok(())
}

/// Writes as much of `text` as fits with a final zero.
///
/// # Safety
/// `buffer` is null, or points to `size` bytes.
pub(crate) unsafe fn write_text(buffer: *mut c_char, size: usize, text: &str) {
    if size == 0 {
        return;
    }
    let cut = text.floor_char_boundary(size - 1);
    let mut bytes = text.as_bytes()[..cut].to_vec();
    bytes.push(0);
    // SAFETY: as the caller promises. A buffer that is null gets nothing.
    let _ = unsafe { fill(buffer.cast(), size, &bytes) };
}

/// `text` in an array of fixed length, cut to fit with its final zero.
pub(crate) fn array<const N: usize>(text: &str) -> [c_char; N] {
    let cut = text.floor_char_boundary(N - 1);
    let mut array = [0; N];
    for (to, from) in array.iter_mut().zip(&text.as_bytes()[..cut]) {
        *to = *from as c_char;
    }
    array
}
