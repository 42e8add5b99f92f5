//! The capacity that acknowledgements take from data, where flows are simulated without packets.
//!
//! ```text
//! capacity for data = C − min(C · A / (D + A), a · C)
//! a = answers · (header + framing) / (payload + header + framing)
//! ```
//!
//! D are the bytes of data packets that cross a link during the whole run, and A = a · D' the bytes
//! of answers to the D' bytes of data that cross it in the other direction. Answers are never more
//! than a times the data that they answer, so that a link loses at most a · C.

use crate::wire_cost::WireCost;
use punctual_core::{FlowModel, Rate};

/// The bytes of data and of answers that cross each link.
#[derive(Debug)]
pub(crate) struct Answers {
    /// Bytes of answers per byte of data, with headers and framing.
    ratio: f64,
    data: Vec<f64>,
    answers: Vec<f64>,
}

impl Answers {
    pub(crate) fn new(model: &FlowModel, cost: &WireCost) -> Self {
        let header = (cost.header + cost.framing) as f64;
        let ratio = model.answers * header / (cost.payload as f64 + header);
        Answers { ratio, data: Vec::new(), answers: Vec::new() }
    }

    /// Counts the data that a flow sends by these links.
    pub(crate) fn add_data(&mut self, links: &[u32], bytes: f64) {
        add(&mut self.data, links, bytes);
    }

    /// Counts the answers to `bytes` of data, which come back by these links.
    pub(crate) fn add_answers(&mut self, links: &[u32], bytes: f64) {
        add(&mut self.answers, links, bytes * self.ratio);
    }

    /// The rates that data can have on links of these rates.
    pub(crate) fn left_for_data(&self, mut rates: Vec<Rate>) -> Vec<Rate> {
        for (link, (rate, answers)) in rates.iter_mut().zip(&self.answers).enumerate() {
            let data = self.data.get(link).copied().unwrap_or(0.0);
            if *answers > 0.0 {
                let taken = (answers / (data + answers)).min(self.ratio);
                *rate = rate.mul_f64((1.0 - taken).max(0.0)).max(Rate::from_bps(1));
            }
        }
        rates
    }
}

fn add(sums: &mut Vec<f64>, links: &[u32], bytes: f64) {
    for link in links {
        let link = *link as usize;
        if link >= sums.len() {
            sums.resize(link + 1, 0.0);
        }
        sums[link] += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets of 1500 bytes and answers of 60.
    fn answers() -> Answers {
        Answers { ratio: 0.04, data: Vec::new(), answers: Vec::new() }
    }

    #[test]
    fn left_for_data_links_that_are_used_both_ways_lose_what_answers_need() {
        let mut both = answers();
        for (there, back) in [(0, 1), (1, 0)] {
            both.add_data(&[there], 1e6);
            both.add_answers(&[back], 1e6);
        }
        let rates = both.left_for_data(vec![Rate::from_bps(1_040_000); 3]);
        assert_eq!(rates, [1_000_000, 1_000_000, 1_040_000].map(Rate::from_bps));
    }

    #[test]
    fn left_for_data_a_small_flow_against_a_large_one_loses_what_answers_take_at_most() {
        let mut one_way = answers();
        one_way.add_data(&[0], 1e9);
        one_way.add_answers(&[1], 1e9);
        one_way.add_data(&[1], 1e3);
        one_way.add_answers(&[0], 1e3);
        let rates = one_way.left_for_data(vec![Rate::from_gbps(1); 2]);
        assert!(rates[0] > Rate::from_bps(999_999_000), "{rates:?}");
        assert_eq!(rates[1], Rate::from_mbps(960));
    }
}
