/// Bytes that a processor loads at once.
const LINE: usize = 64;
/// More than so many bytes are no two fields of one struct.
const MOST: usize = 4_096;

/// Lets the processor begin to load what `it` refers to, where it can; nothing else happens.
///
/// For what a simulator of many thousand machines will need in a few events: caches do not hold them all, and a load
/// that nobody waits for costs little.
#[inline(always)]
pub fn prefetch<T: ?Sized>(it: &T) {
    let start = core::ptr::from_ref(it).cast::<i8>();
    for at in (0..size_of_val(it)).step_by(LINE) {
        load(start.wrapping_add(at));
    }
}

/// [Prefetches](prefetch) what lies from `first` to `last`, two fields of one struct, of which `last` is the later one.
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
