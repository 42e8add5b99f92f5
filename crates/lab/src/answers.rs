//! The capacity that acknowledgements take from data, where flows are simulated without packets.
//!
//! ```text
//! capacity for data = C / (1 + a · s)
//! a = answers · (header + framing) / (payload + header + framing)
//! s = Σ min(D, D') / Σ D, over all links
//! ```
//!
//! D are the bytes of data that cross a link during the whole run, D' those that cross it in the
//! other direction, and a the bytes of answers per byte of data. s is 1 if links are used alike in
//! both directions, and 0 for an incast. It is one number for the network: capacities that differ
//! from link to link would leave every critical flow a different residual on each of its links, and
//! so make many small rates of few large ones.

use crate::wire_cost::WireCost;
use punctual_core::{FlowModel, Rate};

/// The bytes of data and of answers that cross each link.
#[derive(Debug)]
pub(crate) struct Answers {
    /// Bytes of answers per byte of data, with headers and framing.
    ratio: f64,
    /// Bytes of data on each link.
    data: Vec<f64>,
    /// Bytes of data whose answers cross each link.
    answered: Vec<f64>,
}

impl Answers {
    pub(crate) fn new(model: &FlowModel, cost: &WireCost) -> Self {
        let header = (cost.header + cost.framing) as f64;
        let ratio = model.answers * header / (cost.payload as f64 + header);
        Answers { ratio, data: Vec::new(), answered: Vec::new() }
    }

    /// Counts the data that a flow sends by these links.
    pub(crate) fn add_data(&mut self, links: &[u32], bytes: f64) {
        add(&mut self.data, links, bytes);
    }

    /// Counts data whose answers come back by these links.
    pub(crate) fn add_answers(&mut self, links: &[u32], bytes: f64) {
        add(&mut self.answered, links, bytes);
    }

    /// Lowers rates of links, and of flows, to what answers leave for data.
    pub(crate) fn leave_for_data<'a>(&self, rates: impl Iterator<Item = &'a mut Rate>) {
        let all: f64 = self.data.iter().sum();
        let both: f64 = self.data.iter().zip(&self.answered).map(|(d, back)| d.min(*back)).sum();
        if both > 0.0 {
            let part = 1.0 / (1.0 + self.ratio * both / all);
            rates.for_each(|rate| *rate = rate.mul_f64(part).max(Rate::from_bps(1)));
        }
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
        Answers { ratio: 0.04, data: Vec::new(), answered: Vec::new() }
    }

    fn left(one: f64, other: f64) -> Vec<Rate> {
        let mut answers = answers();
        for (there, back, bytes) in [(0, 1, one), (1, 0, other)] {
            answers.add_data(&[there], bytes);
            answers.add_answers(&[back], bytes);
        }
        let mut rates = vec![Rate::from_bps(1_040_000); 2];
        answers.leave_for_data(rates.iter_mut());
        rates
    }

    #[test]
    fn leave_for_data_links_that_are_used_both_ways_lose_what_answers_need() {
        assert_eq!(left(1e6, 1e6), [Rate::from_bps(1_000_000); 2]);
    }

    #[test]
    fn leave_for_data_links_that_are_used_one_way_lose_nothing() {
        assert_eq!(left(1e6, 0.0), [Rate::from_bps(1_040_000); 2]);
    }
}
