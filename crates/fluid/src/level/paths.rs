//! Which links each flow crosses, in compressed sparse rows.

use std::ops::Range;

/// The paths of all flows. A flow has one path or several, one after another.
#[derive(Clone, Debug)]
pub struct PathTable {
    /// The links of all paths.
    links: Vec<u32>,
    /// Where the links of each path begin, and the end of the last.
    path_starts: Vec<u32>,
    /// The first path of each flow, and the end of the last.
    flow_starts: Vec<u32>,
}

impl Default for PathTable {
    fn default() -> Self {
        PathTable { links: Vec::new(), path_starts: vec![0], flow_starts: vec![0] }
    }
}

impl PathTable {
    /// Adds the next flow with its paths.
    ///
    /// # Panics
    ///
    /// If all paths together have 2³² links or more.
    pub fn push<'a>(&mut self, paths: impl IntoIterator<Item = &'a [u32]>) {
        for path in paths {
            self.links.extend_from_slice(path);
            let end = u32::try_from(self.links.len()).expect("fewer than 2^32 links on paths");
            self.path_starts.push(end);
        }
        self.flow_starts.push(self.path_count() as u32);
    }

    /// The number of flows.
    pub fn flow_count(&self) -> usize {
        self.flow_starts.len() - 1
    }

    /// The number of paths of all flows.
    pub fn path_count(&self) -> usize {
        self.path_starts.len() - 1
    }

    /// The paths of a flow.
    #[inline]
    pub fn of(&self, flow: u32) -> Range<u32> {
        self.flow_starts[flow as usize]..self.flow_starts[flow as usize + 1]
    }

    /// Where the links of a path stand among those of all paths.
    #[inline]
    pub(super) fn hops(&self, path: u32) -> Range<usize> {
        self.path_starts[path as usize] as usize..self.path_starts[path as usize + 1] as usize
    }

    /// The number of links on all paths.
    pub(super) fn hop_count(&self) -> usize {
        self.links.len()
    }

    /// The links of a path.
    #[inline]
    pub fn links(&self, path: u32) -> &[u32] {
        &self.links[self.hops(path)]
    }

    /// The flow of each path.
    pub(super) fn flows_of_paths(&self) -> Vec<u32> {
        let mut flows = vec![0; self.path_count()];
        for flow in 0..self.flow_count() as u32 {
            self.of(flow).for_each(|path| flows[path as usize] = flow);
        }
        flows
    }
}
