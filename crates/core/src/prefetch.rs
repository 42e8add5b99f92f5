//! Prefetching memory into the processor's caches: affects speed only.

/// Prefetches an element of a slice, see [`prefetch`]. An index beyond the slice does no harm.
#[inline]
pub fn prefetch_at<T>(slice: &[T], index: usize) {
    prefetch_line(slice.as_ptr().wrapping_add(index).cast());
}

/// Prefetches the cache lines of a value of any size, see [`prefetch`].
#[inline]
pub fn prefetch_all<T>(value: &T) {
    prefetch_all_at(core::slice::from_ref(value), 0);
}

/// Prefetches the cache lines of an element of a slice, see [`prefetch_at`].
#[inline]
pub fn prefetch_all_at<T>(slice: &[T], index: usize) {
    prefetch_lines_at(slice, index, usize::MAX);
}

/// Prefetches at most `lines` cache lines of an element of a slice, see [`prefetch_at`].
#[inline]
pub fn prefetch_lines_at<T>(slice: &[T], index: usize, lines: usize) {
    const LINE: usize = 64;
    let first = slice.as_ptr().wrapping_add(index).cast::<u8>();
    for offset in (0..size_of::<T>()).step_by(LINE).take(lines) {
        prefetch_line(first.wrapping_add(offset));
    }
}

/// Prefetches a value into the processor's caches. Affects speed only.
#[inline]
pub fn prefetch<T>(value: &T) {
    prefetch_line(core::ptr::from_ref(value).cast());
}

#[inline]
#[allow(unsafe_code)]
fn prefetch_line(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: prefetching has no effect on memory, whatever the address.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
