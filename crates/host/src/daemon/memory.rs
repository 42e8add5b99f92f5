//! Memory that the daemon shares with one client.
//!
//! Its words are atomics, so that whatever the other process writes, and whenever, reading them is
//! defined. Nothing else about them is: callers check each value they read.
#![allow(unsafe_code)]

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

/// A shared mapping, seen as words.
#[derive(Debug)]
pub(super) struct Memory {
    words: NonNull<AtomicU64>,
    len: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread, and its words are atomics.
unsafe impl Send for Memory {}
// SAFETY: shared references give access to atomics only.
unsafe impl Sync for Memory {}

/// A file with these seals keeps its size, so that no process can make another one read beyond its
/// end, which would end that process.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

impl Memory {
    /// Makes memory of this many words, all zero. The file is for the other process.
    pub(super) fn create(words: usize) -> io::Result<(OwnedFd, Memory)> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = rustix::fs::memfd_create("punctual-hostd", flags)?;
        ftruncate(&file, (words * size_of::<u64>()) as u64)?;
        fcntl_add_seals(&file, SEALS)?;
        let memory = Memory::map(&file, words)?;
        Ok((file, memory))
    }

    /// Maps memory of this many words that the other process made.
    pub(super) fn open(file: &OwnedFd, words: usize) -> io::Result<Memory> {
        let is_sealed = fcntl_get_seals(file)?.contains(SealFlags::SHRINK);
        let has_size = u64::try_from(fstat(file)?.st_size) == Ok((words * size_of::<u64>()) as u64);
        if !is_sealed || !has_size {
            return Err(io::Error::other("the shared memory has another size or may shrink"));
        }
        Memory::map(file, words)
    }

    fn map(file: impl AsFd, words: usize) -> io::Result<Memory> {
        let bytes = words * size_of::<u64>();
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing.
        let address =
            unsafe { mmap(std::ptr::null_mut(), bytes, access, MapFlags::SHARED, file, 0) }?;
        let words_at =
            NonNull::new(address.cast()).ok_or_else(|| io::Error::other("mmap: null"))?;
        Ok(Memory { words: words_at, len: words })
    }

    pub(super) fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping has `len` words, is aligned to pages, lives as long as `self`, and its
        // file cannot shrink. Any bits are an AtomicU64, and both processes access it as such.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr(), self.len) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: nothing refers to the mapping any more.
        let _ = unsafe { munmap(self.words.as_ptr().cast(), self.len * size_of::<u64>()) };
    }
}

#[cfg(test)]
#[allow(non_snake_case)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn memory__is_shared_and_keeps_its_size() {
        let (file, ours) = Memory::create(1_024).unwrap();
        let theirs = Memory::open(&file, 1_024).unwrap();
        ours.words()[1_023].store(7, Ordering::Relaxed);
        assert_eq!(theirs.words()[1_023].load(Ordering::Relaxed), 7);
        assert!(ftruncate(&file, 8).is_err(), "it must not shrink");
        assert!(ftruncate(&file, 1 << 20).is_err(), "it must not grow");
        assert!(Memory::open(&file, 2_048).is_err(), "another size");
    }

    #[test]
    fn memory__that_may_shrink_is_refused() {
        let file = rustix::fs::memfd_create("test", MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&file, 8 * 1_024).unwrap();
        assert!(Memory::open(&file, 1_024).is_err());
    }
}
