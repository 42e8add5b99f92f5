//! Which links each flow crosses, in compressed sparse rows.

use std::ops::Range;

/// The paths of all flows. A flow has one path or several, one after another.
#[derive(Clone, Debug)]
pub struct PathTable {
    /// The links of all paths.
    links: Vec<u32>,
    /// The part of a flow's rate that crosses each link; empty if all of it does on every link.
    parts: Vec<f64>,
    /// Where the links of each path begin, and the end of the last.
    path_starts: Vec<u32>,
    /// The first path of each flow, and the end of the last.
    flow_starts: Vec<u32>,
}

impl Default for PathTable {
    fn default() -> Self {
        PathTable {
            links: Vec::new(),
            parts: Vec::new(),
            path_starts: vec![0],
            flow_starts: vec![0],
        }
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

    /// Adds the next flow, which spreads over several paths: each link with the part of the flow's
    /// rate that crosses it, above 0 and at most 1. Only [fair shares](punctual_core::Sharing::Fair)
    /// know parts.
    ///
    /// # Panics
    ///
    /// If a flow without parts was added before.
    pub fn push_spread(&mut self, links: &[(u32, f64)]) {
        assert_eq!(self.parts.len(), self.links.len(), "flows with and without parts");
        self.parts.extend(links.iter().map(|(_, part)| *part));
        self.push([&links.iter().map(|(link, _)| *link).collect::<Vec<u32>>()[..]]);
    }

    /// Whether flows spread over several paths in parts.
    pub(super) fn has_parts(&self) -> bool {
        !self.parts.is_empty()
    }

    /// The links of a path, each with the part of the path's rate that crosses it.
    #[inline]
    pub(super) fn links_and_parts(&self, path: u32) -> impl Iterator<Item = (u32, f64)> {
        let hops = self.hops(path);
        hops.map(|hop| (self.links[hop], self.parts.get(hop).copied().unwrap_or(1.0)))
    }

    /// The part of a path's rate that crosses one of its links.
    #[inline]
    pub(super) fn part(&self, path: u32, link: u32) -> f64 {
        if self.parts.is_empty() {
            return 1.0;
        }
        let own = self.links_and_parts(path).find(|(other, _)| *other == link);
        own.map_or(0.0, |(_, part)| part)
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
