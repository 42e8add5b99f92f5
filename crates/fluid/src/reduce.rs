//! Removes links that can never be a bottleneck.

use crate::FluidFlow;
use punctual_core::Rate;

/// Removes links that can never be a bottleneck: a link whose flows all share another link that is
/// no faster. This changes no allocation. A tree whose flows all end at one host becomes a single
/// link.
pub(crate) fn reduce(flows: &[FluidFlow], capacities: &[Rate]) -> (Vec<FluidFlow>, Vec<Rate>) {
    let mut on_link: Vec<Vec<usize>> = vec![Vec::new(); capacities.len()];
    for (i, flow) in flows.iter().enumerate() {
        flow.path.iter().for_each(|link| on_link[*link].push(i));
    }
    let mut kept = vec![true; capacities.len()];
    for link in 0..capacities.len() {
        let here = &on_link[link];
        let Some(&first) = here.first() else {
            kept[link] = false;
            continue;
        };
        let implies = |other: usize| {
            other != link
                && kept[other]
                && capacities[other] <= capacities[link]
                && here.iter().all(|&i| flows[i].path.contains(&other))
        };
        kept[link] = !flows[first].path.iter().any(|&other| implies(other));
    }
    let mut place = vec![usize::MAX; capacities.len()];
    let mut fewer = Vec::new();
    for link in (0..capacities.len()).filter(|link| kept[*link]) {
        place[link] = fewer.len();
        fewer.push(capacities[link]);
    }
    let shorter = |flow: &FluidFlow| FluidFlow {
        path: flow.path.iter().filter(|link| kept[**link]).map(|link| place[*link]).collect(),
        ..flow.clone()
    };
    (flows.iter().map(shorter).collect(), fewer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_core::{Bytes, Instant};

    fn flow(path: &[usize]) -> FluidFlow {
        FluidFlow {
            id: 0,
            start: Instant::ZERO,
            size: Bytes::new(1),
            deadline: None,
            path: path.to_vec(),
        }
    }

    #[test]
    fn a_tree_into_one_host_is_one_link() {
        let rates = [Rate::from_gbps(1); 5];
        let (flows, links) = reduce(&[flow(&[0, 3, 4]), flow(&[1, 3, 4]), flow(&[2, 4])], &rates);
        assert_eq!(links.len(), 1);
        assert!(flows.iter().all(|flow| flow.path == [0]));
    }

    #[test]
    fn a_slower_link_and_a_shared_one_both_stay() {
        let rates = [Rate::from_gbps(1), Rate::from_gbps(2)];
        let (flows, links) = reduce(&[flow(&[0, 1]), flow(&[1])], &rates);
        assert_eq!(links, rates);
        assert_eq!(flows[0].path, [0, 1]);
    }

    #[test]
    fn of_equal_links_one_stays() {
        let (flows, links) = reduce(&[flow(&[0, 1, 2])], &[Rate::from_gbps(1); 3]);
        assert_eq!((links.len(), flows[0].path.len()), (1, 1));
    }
}
