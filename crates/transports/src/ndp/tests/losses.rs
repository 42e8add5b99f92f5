//! Every packet of a short flow lost, and every two: it ends all the same.

use super::*;

/// Runs a flow of seven packets, the first window three, in which each packet whose number is in
/// `lost` is lost, counting all that both hosts send.
fn survives(lost: &[u64], trimmed: Option<u64>) -> u64 {
    let mut pair = pair(window(3));
    let lost_owned = lost.to_vec();
    let mut sent = 0;
    pair.set_faults(move |packet, _| {
        sent += 1;
        let is_data = NdpHeader::of(packet).kind == kind::DATA;
        if lost_owned.contains(&(sent - 1)) {
            Fault::Drop
        } else if is_data && trimmed == Some(NdpHeader::of(packet).seq) && packet_is_first(packet) {
            Fault::Trim
        } else {
            Fault::Deliver
        }
    });
    let flow = start(&mut pair, 7);
    // A sender that is forgotten waits for 64 timeouts of 1 ms; the sum of all is far below.
    let ends = pair.run_until_done(Instant::ZERO + Duration::from_millis(400));
    assert!(ends, "lost {lost:?}, trimmed {trimmed:?}: {:?}", pair.result(flow));
    pair.trace().len() as u64
}

/// Whether it was sent at the start, before anything was sent again.
fn packet_is_first(packet: &Packet) -> bool {
    NdpHeader::of(packet).sent_at < 5_000_000
}

#[test]
fn any_one_loss_is_survived() {
    // With a packet trimmed there are NACKs and pulls of their own too.
    for trimmed in [None, Some(0), Some(1), Some(2)] {
        let packets = survives(&[], trimmed);
        assert!(packets >= 14, "seven packets and their answers: {packets}");
        for lost in 0..packets {
            survives(&[lost], trimmed);
        }
    }
}

#[test]
fn any_two_losses_are_survived() {
    for trimmed in [None, Some(1)] {
        // What is sent again may be lost as well, hence more than the flow needs without faults.
        let packets = survives(&[], trimmed) + 6;
        for first in 0..packets {
            for second in first + 1..packets {
                survives(&[first, second], trimmed);
            }
        }
    }
}
