//! Writes one sentence about where a flow's time went.

use punctual_core::{WaitNames, WaitWords};
use punctual_results::{ExplainedFlow, ExplainedPart, short_time as short};
use punctual_sim::What;

/// A second cause is named if it takes at least this share of the time.
const SHARE_MIN: f64 = 0.2;

/// The result of a flow and the largest causes of the time that it would not have needed alone.
pub(super) fn sentence(flow: &ExplainedFlow, names: &WaitNames) -> String {
    let time = flow.time_ps;
    let deadline = flow.deadline_ps.map(|at| at.saturating_sub(flow.start_ps));
    let result = match (flow.status.as_str(), flow.met, deadline) {
        ("completed", Some(false), Some(deadline)) => {
            format!("missed by {}", short(time - deadline.min(time)))
        }
        ("completed", _, Some(deadline)) => {
            format!("on time with {} to spare", short(deadline.saturating_sub(time)))
        }
        ("completed", ..) => format!("took {}", short(time)),
        ("abandoned", ..) => format!("given up after {}", short(time)),
        _ => format!("not complete when the run ended, after {}", short(time)),
    };
    let mut avoidable: Vec<&ExplainedPart> =
        flow.parts.iter().filter(|part| !kind(part).is_needed()).collect();
    avoidable.sort_by_key(|part| std::cmp::Reverse(part.time_ps));
    let share = |part: &ExplainedPart| part.time_ps as f64 / time.max(1) as f64;
    let lost: u64 = avoidable.iter().map(|part| part.time_ps).sum();
    let mut reasons: Vec<String> = Vec::new();
    if (lost as f64) < SHARE_MIN * time as f64 {
        reasons.push(match lost {
            0 => format!("all of its {} went into sending and propagation", short(time)),
            _ => format!(
                "{} of its {} went into sending and propagation",
                short(time - lost),
                short(time)
            ),
        });
    }
    for part in avoidable.iter().take(2) {
        if reasons.is_empty() || share(part) >= SHARE_MIN {
            reasons.push(phrase(part, names));
        }
    }
    format!("{result}: {}", reasons.join(", "))
}

fn kind(part: &ExplainedPart) -> What {
    What::by_name(&part.what).unwrap_or(What::Timer)
}

/// One part in words.
fn phrase(part: &ExplainedPart, names: &WaitNames) -> String {
    if let Some(words) = kind(part).words(names) {
        return in_words_of(words, part);
    }
    let time = short(part.time_ps);
    let at = part.port.as_ref().map_or_else(String::new, |port| format!(" at {port}"));
    let behind = behind(part, "flow");
    match kind(part) {
        What::Queue => format!("{time} in the queue{at}{behind}"),
        What::Nic => format!("{time} waiting for its host's NIC{behind}"),
        What::LinkPaused => format!("{time} held up by PFC pauses{at}"),
        What::Timeout => {
            let lost = part.port.as_ref();
            let lost = lost.map_or_else(String::new, |port| format!(" after a loss at {port}"));
            format!("{time} waiting for {}{lost}", times(part.times, "timeout"))
        }
        What::Retransmission => format!("{time} until data lost{at} was retransmitted"),
        What::Trimmed => format!("{time} until data trimmed{at} was retransmitted"),
        // Waits that transports name are handled above.
        What::Timer | What::Pacing | What::Grant | What::Paused | What::Pull | What::Token => {
            format!("{time} waiting for a host's timer")
        }
        What::Silence => format!("the last {time} of it under way"),
        What::Serialisation | What::Propagation | What::Own => format!("{time} sending"),
    }
}

/// One part in the transport's words.
fn in_words_of(words: &WaitWords, part: &ExplainedPart) -> String {
    let (sentence, port) = match &part.port {
        Some(port) => (words.sentence_at_port, port.as_str()),
        None => (words.sentence, ""),
    };
    let sentence = sentence.replace("{behind}", &behind(part, words.ahead));
    sentence.replace("{time}", &short(part.time_ps)).replace("{port}", port)
}

fn behind(part: &ExplainedPart, whom: &str) -> String {
    match (part.behind_count, &part.behind[..]) {
        (0, _) => String::new(),
        (1, [only]) => format!(" behind a {whom} ({only})"),
        (count, _) => format!(" behind {count} {whom}s"),
    }
}

fn times(count: u32, what: &str) -> String {
    if count == 1 { format!("a {what}") } else { format!("{count} {what}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(what: What, port: Option<&str>, behind: &[u32]) -> ExplainedPart {
        ExplainedPart {
            what: what.name().to_owned(),
            port: port.map(str::to_owned),
            time_ps: 2_000_000,
            behind: behind.to_vec(),
            behind_count: behind.len() as u32,
            ..ExplainedPart::default()
        }
    }

    #[test]
    fn waits_are_described_in_the_words_of_their_transport() {
        let of = |name: &str, part: &ExplainedPart| {
            let catalogue = punctual_transports::AnyTransport::catalogue();
            let info = catalogue.iter().find(|info| info.name == name).unwrap();
            phrase(part, &info.waits)
        };
        let pacing = |port| part(What::Pacing, port, &[]);
        assert_eq!(of("d3", &pacing(Some("a"))), "held for 2.00 µs to the rate that a granted");
        assert_eq!(of("d3", &pacing(None)), "held to its rate for 2.00 µs");
        assert_eq!(of("dcqcn", &pacing(None)), "held to its rate for 2.00 µs");
        let grant = part(What::Grant, Some("a"), &[]);
        assert_eq!(of("rcp", &grant), "2.00 µs without a rate from a");
        let paused = part(What::Paused, Some("a"), &[1, 2]);
        assert_eq!(of("pdq", &paused), "paused 2.00 µs behind 2 more critical flows at a");
        let pull = part(What::Pull, Some("a"), &[7]);
        assert_eq!(of("ndp", &pull), "2.00 µs until its receiver pulled it behind a flow (7)");
        let token = part(What::Token, None, &[]);
        assert_eq!(of("phost", &token), "2.00 µs until its receiver had a token for it");
    }

    #[test]
    fn a_transport_without_words_gets_neutral_ones() {
        let pull = part(What::Pull, None, &[7]);
        let words = phrase(&pull, &WaitNames::DEFAULT);
        assert_eq!(words, "2.00 µs waiting for its receiver behind a flow (7)");
        let own = WaitWords::new("waiting for credit", "{time} without credit{behind}");
        let names = WaitNames { pull: own.ahead("sender"), ..WaitNames::DEFAULT };
        assert_eq!(phrase(&pull, &names), "2.00 µs without credit behind a sender (7)");
    }
}
