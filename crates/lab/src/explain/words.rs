//! Where a flow's time went, in one sentence.

use punctual_results::{ExplainedFlow, ExplainedPart, short_time as short};
use punctual_sim::What;

/// A second reason is told when it has at least this share of the time.
const WORTH_TELLING: f64 = 0.2;

/// How a flow came out, and what most of its time went into that it would not have needed alone.
pub(super) fn sentence(flow: &ExplainedFlow) -> String {
    let time = flow.time_ps;
    let deadline = flow.deadline_ps.map(|at| at.saturating_sub(flow.start_ps));
    let fate = match (flow.status.as_str(), flow.met, deadline) {
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
    if (lost as f64) < WORTH_TELLING * time as f64 {
        reasons.push(match lost {
            0 => format!("all of its {} went into sending it and the way there", short(time)),
            _ => format!(
                "{} of its {} went into sending it and the way there",
                short(time - lost),
                short(time)
            ),
        });
    }
    for part in avoidable.iter().take(2) {
        if reasons.is_empty() || share(part) >= WORTH_TELLING {
            reasons.push(phrase(part));
        }
    }
    format!("{fate}: {}", reasons.join(", "))
}

fn kind(part: &ExplainedPart) -> What {
    What::by_name(&part.what).unwrap_or(What::Timer)
}

/// What one part was.
fn phrase(part: &ExplainedPart) -> String {
    let time = short(part.time_ps);
    let at = part.port.as_ref().map_or_else(String::new, |port| format!(" at {port}"));
    let behind = behind(part, "flow");
    match kind(part) {
        What::Queue => format!("{time} in the queue{at}{behind}"),
        What::Nic => format!("{time} waiting for its host's NIC{behind}"),
        What::LinkPaused => format!("{time} held up by pauses{at}"),
        What::Pacing => match &part.port {
            Some(port) => format!("held for {time} to the rate that {port} granted"),
            None => format!("held to its rate for {time}"),
        },
        What::Grant => match &part.port {
            Some(port) => format!("{time} without a rate from {port}"),
            None => format!("{time} asking for a rate"),
        },
        What::Paused => format!("paused {time}{}{at}", self::behind(part, "more critical flow")),
        What::Pull => format!("{time} until its receiver pulled it{behind}"),
        What::Token => format!("{time} until its receiver had a token for it{behind}"),
        What::Timeout => {
            let lost = part.port.as_ref();
            let lost = lost.map_or_else(String::new, |port| format!(" after a loss at {port}"));
            format!("{time} waiting for {}{lost}", times(part.times, "timeout"))
        }
        What::Retransmission => format!("{time} until what was lost{at} was sent again"),
        What::Trimmed => format!("{time} until what was trimmed{at} was sent again"),
        What::Timer => format!("{time} waiting for a host's timer"),
        What::Silence => format!("the last {time} of it under way"),
        What::Serialisation | What::Propagation | What::Own => format!("{time} sending"),
    }
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
