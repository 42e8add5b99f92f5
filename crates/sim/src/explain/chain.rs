//! The chain of causes: calls to a flow's ends and what led to them.

use super::{Behind, What};
use punctual_core::{Instant, PortId};
use std::cell::RefCell;
use std::rc::Rc;

/// A call to one of a flow's ends.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) at: Instant,
    /// Its cause, which may be replaced during the call.
    pub(super) link: RefCell<Link>,
}

/// The cause of a call.
#[derive(Debug, Default)]
pub(super) struct Link {
    /// The call that led to it; none for the start of the flow.
    pub(super) parent: Option<Rc<Node>>,
    pub(super) cause: Cause,
}

/// What happened between a call and the one that led to it.
#[derive(Debug, Default)]
pub(super) enum Cause {
    /// The flow started.
    #[default]
    Start,
    /// A packet arrived that was created in the earlier call.
    Trip(Box<Trip>),
    /// Time passed, all of it for one reason or for several.
    Wait(Vec<Stretch>),
}

/// A part of a wait. Parts are in order, but may in fact have alternated.
#[derive(Clone, Debug)]
pub(super) struct Stretch {
    pub(super) what: What,
    pub(super) until: Instant,
    pub(super) port: Option<PortId>,
    pub(super) behind: Behind,
}

/// A packet's way from the host that created it to where it arrived.
#[derive(Debug, Default)]
pub(super) struct Trip {
    pub(super) hops: Vec<Hop>,
    pub(super) has_data: bool,
    /// Set for a retransmission.
    pub(super) again: Option<Again>,
}

/// A packet at a port.
#[derive(Debug)]
pub(super) struct Hop {
    pub(super) port: PortId,
    pub(super) came: Instant,
    /// What it waited for since, in order; empty if it did not.
    pub(super) waits: Vec<Stretch>,
    /// When its transmission began and ended.
    pub(super) from: Instant,
    pub(super) until: Instant,
}

/// What happened to a packet before it was retransmitted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Again {
    /// When the first packet with its data was created.
    pub(super) first_made: Instant,
    /// Where the previous packet with its data was lost or trimmed.
    pub(super) port: Option<PortId>,
    pub(super) trimmed: bool,
}

impl Node {
    pub(super) fn new(at: Instant, parent: Option<Rc<Node>>, cause: Cause) -> Rc<Node> {
        debug_assert!(parent.as_ref().is_none_or(|parent| parent.at <= at));
        Rc::new(Node { at, link: RefCell::new(Link { parent, cause }) })
    }

    /// A call that an earlier one caused after a wait.
    pub(super) fn after(at: Instant, parent: Rc<Node>, what: What) -> Rc<Node> {
        Node::new(at, Some(parent), Cause::wait(what, at, None, Behind::default()))
    }

    /// Replaces the cause of the call: `parent` led to it.
    pub(super) fn relink(&self, parent: Rc<Node>, cause: Cause) {
        debug_assert!(parent.at <= self.at);
        let before = self.link.replace(Link { parent: Some(parent), cause });
        drop(before);
    }
}

impl Cause {
    pub(super) fn wait(what: What, until: Instant, port: Option<PortId>, behind: Behind) -> Self {
        Cause::Wait(vec![Stretch { what, until, port, behind }])
    }
}

/// Frees a chain in a loop, because chains are too long for recursion.
impl Drop for Node {
    fn drop(&mut self) {
        let mut next = self.link.get_mut().parent.take();
        while let Some(node) = next {
            match Rc::try_unwrap(node) {
                Ok(mut node) => next = node.link.get_mut().parent.take(),
                Err(_) => return,
            }
        }
    }
}
