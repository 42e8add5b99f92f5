//! The packet path allocates nothing: a longer run of the same flows takes no more memory, and
//! hardly an allocation more.
#![allow(unsafe_code)]

#[path = "integration/common/mod.rs"]
mod common;

use common::*;
use punctual_transports::{AnyTransport, TransportSettings};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: everything is left to the system's allocator; counting has no part in it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations and packet-hops of a permutation on 16 hosts.
fn cost(name: &str, ms: u64) -> (u64, u64) {
    let mut settings = TransportSettings::default();
    settings.udp.rate = GBPS10;
    let transport = AnyTransport::by_name(name, &settings).expect("a transport");
    let mut setup = setup(fat_tree(4, 1500), vec![transport], permutation(16, 1));
    setup.stop = until_ms(ms);
    setup.check = false;
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    let outcome = run(setup);
    (ALLOCATIONS.load(Ordering::Relaxed) - before, outcome.totals.packet_hops)
}

#[test]
fn packets_are_moved_without_allocating() {
    for info in AnyTransport::catalogue() {
        let (short, long) = (cost(info.name, 20), cost(info.name, 30));
        let hops = long.1 - short.1;
        let more = long.0.saturating_sub(short.0);
        println!("{}: {more} allocations more in {hops} packet-hops more", info.name);
        assert!(hops > 100_000, "{}: {hops}", info.name);
        // Queues still find their largest size now and then.
        assert!(more * 50_000 < hops, "{}: {more} in {hops}", info.name);
    }
}
