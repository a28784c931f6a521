/// Bytes that a processor loads in one operation.
const LINE: usize = 64;
/// Fields of one struct are at most this far apart, in bytes.
const MOST: usize = 4_096;

/// Hints the processor to load the memory that `it` refers to; has no other effect.
///
/// A simulator of thousands of machines calls it for data that the next few events need: the caches do not hold
/// all machines, and a load that runs in the background costs little.
#[inline(always)]
pub fn prefetch<T: ?Sized>(it: &T) {
    let start = core::ptr::from_ref(it).cast::<i8>();
    for at in (0..size_of_val(it)).step_by(LINE) {
        load(start.wrapping_add(at));
    }
}

/// [Prefetches](prefetch) the memory from the field `first` to the field `last` of one struct; `last` has the
/// higher address.
#[inline(always)]
pub fn prefetch_between<A, B>(first: &A, last: &B) {
    let start = core::ptr::from_ref(first).cast::<i8>();
    let end = core::ptr::from_ref(last).addr() + size_of::<B>();
    for at in (0..end.saturating_sub(start.addr()).min(MOST)).step_by(LINE) {
        load(start.wrapping_add(at));
    }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
#[allow(unsafe_code)]
fn load(address: *const i8) {
    use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: every x86-64 processor has the instruction; it cannot fault, whatever the address, and changes no memory.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address) }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn load(_: *const i8) {}
