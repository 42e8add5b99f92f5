//! What an attack on the first file copier found, and the test that keeps it from coming back.
//!
//! | finding | tests |
//! |---|---|
//! | Two receives with one `--out` share a partial file | `attacks::rivals__each_sender_learns_its_own_outcome`, `partial::resume__two_receivers_never_share_a_file` |
//! | Symbolic links are followed | `partial::create__follows_no_link`, `partial::resume__leaves_other_files_alone` |
//! | No fsync before the file gets its name | `transfers::stored__is_on_the_disk_before_it_has_a_name` (punctual) |
//! | A user's own `.partial` is deleted | `partial::create__leaves_other_files_alone`, `partial::resume__leaves_other_files_alone` |
//! | INT and TERM leave a partial file behind | `transfers::signals__leave_what_was_asked_for` (punctual) |
//! | A forged verdict makes `send` succeed | `attacks::forged_answers__convince_nobody` |
//! | A stray data header claims a waiting `receive` | `attacks::strays__do_not_claim_a_waiting_receiver` |
//! | A stray every 2 s holds it for ever | `attacks::strays__do_not_prolong_the_wait` |
//! | Half-open receivers never expire; pulls repeat to forged addresses | `findings::half_open__expires_and_falls_silent` |
//! | Spoofed first packets fill the flow table | `endpoint::flood__of_first_packets_from_forged_addresses`, `flood::flood__honest_requests_go_on` |
//! | One forged "cancel" moves the window of flow numbers: honest messages are refused (found by the flood) | `flood::flood__honest_requests_go_on`, `peers::known__new_opened_done` |
//! | A lost ACK and a restarted receiver: delivered twice | `endpoint::restart__a_delivered_message_is_not_delivered_again`, `processes::soak__the_receiver_is_killed` |
//! | `--listen 0.0.0.0` answers from the wrong address | `paths::wildcard__answers_come_from_the_address_that_was_asked` |
//! | The ends disagree after an outage of 1.2 s at the end | `attacks::outage__at_the_end_both_ends_agree` |
//! | Without an answer, `send` claims to know the outcome | `attacks::outage__without_an_answer_the_outcome_is_unknown` |
//! | EACCES, EINVAL or ICMP of one send kills the process | `attacks::errors__of_one_datagram_end_nothing`, `peer_errors::invalid__ends_sends_to_that_address_only`, `endpoint::peers__do_not_harm_each_other` |
//! | A path MTU below `--mtu` fails | `peer_errors::path_mtu__smaller_than_the_mtu_works` |
//! | A lost packet is resent 64 RTOs later | `files::rare_loss_stalls_nothing`, `rates::loss__no_run_takes_twice_as_long` |
//! | The window is 30 packets whatever the path | `rates::long_path__fills_most_of_it` |
//! | Asked for 100 Mb/s it sends 64 | `rates::rate__is_kept_within_five_percent` |
//! | 1 KB takes 58 ms: time-wait in the foreground | `attacks::small_file__needs_no_time_wait` |
//! | `--deadline` starts after hashing, ends before storage | `files::transfer` (time left at the receiver), `transfers::deadline__a_miss_has_its_own_exit_code` (punctual) |
//! | A missed deadline has exit code 0 | `transfers::deadline__a_miss_has_its_own_exit_code` (punctual) |
//! | JSON prints nothing on failure; drop counters are not shown | `transfers::failure__is_an_object_too`, `transfers::send__many_files_one_object_each` (punctual) |
//! | Keyed mode: recorded packets are delivered again from another address, or to their own sender | `replays::replay__from_another_address_delivers_nothing`, `replays::replay__at_another_server_delivers_nothing`, `replays::reflection__a_sender_does_not_receive_its_own_message` |
//! | Both ends are stopped for 6 s, or have no processor: each reports the other silent | `transfers::pause__of_both_ends_is_no_silence` (punctual) |
//! | All senders behind one daemon share 8 places for messages: files are refused (found in review) | `hostd_files::hostd_files__many_senders_share_an_address` |
//!
//! Errors that are typed, and their tests:
//!
//! | error | tests |
//! |---|---|
//! | Port in use | `endpoint::errors__are_typed` |
//! | Peer gone | `endpoint::errors__are_typed`, `peer_errors::unreachable__a_closed_port_is_named_before_the_silence_ends` |
//! | Other version of the envelope | `versions::version__a_peer_of_another_one_is_named`; forged: `versions::version__answers_do_not_end_a_flow_that_goes_on`, `versions::version__answers_of_strangers_are_ignored`, `versions::version__answers_are_small_and_few` |
//! | Too large, deadline past | `endpoint::errors__are_typed` |
//! | Daemon absent | `hostd::attach__errors_say_what_to_do`, `hostd_files::hostd_files__errors_are_typed`, `hostd_transfers::hostd__errors_say_what_to_do` (punctual) |
//! | Unknown outcome | `attacks::outage__without_an_answer_the_outcome_is_unknown`, `hostd_transfers::unknown__has_its_own_exit_code` (punctual) |
//!
//! Tests marked "punctual" are in crates/cli/tests/integration.

use punctual_core::{Class, FlowId, Header, HostId, Packet, PacketFlags};
use punctual_host::{Endpoint, EndpointOptions};
use punctual_transports::ndp::{NdpHeader, flags, kind};
use punctual_wire::{NDP_WIRE_BYTES, NdpCodec, WireName, emit};
use std::net::UdpSocket;
use std::time::{Duration, Instant};

/// The first packet of a message whose sender never sends another: the endpoint answers with at most
/// three times its bytes, then closes the flow and is silent.
#[test]
fn half_open__expires_and_falls_silent() {
    let options = EndpointOptions {
        silence: Duration::from_millis(300),
        window: Duration::from_millis(400),
        ..EndpointOptions::default()
    };
    let server = Endpoint::bind("127.0.0.1:0".parse().unwrap(), options).unwrap();
    let listener = server.listen();
    // From now on it takes messages of strangers without asking them to prove their address.
    std::thread::sleep(Duration::from_millis(500));
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut prologue = [0; 1_000];
    prologue[0] = 0xa2;
    let packet = first_packet(1 << 20, &prologue);
    stranger.send_to(&packet, server.local_addr()).unwrap();
    stranger.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let start = Instant::now();
    let (mut answered, mut last_at, mut was_open) = (0, Duration::ZERO, false);
    while start.elapsed() < Duration::from_millis(2_000) {
        was_open |= server.stats().messages_in > 0;
        if let Ok(len) = stranger.recv(&mut [0; 2_000]) {
            answered += len;
            last_at = start.elapsed();
        }
    }
    assert!(was_open, "the message was begun");
    let message = listener.accept_timeout(Duration::ZERO);
    drop(message);
    let stats = server.stats();
    assert_eq!((stats.messages_in, stats.receive_memory), (0, 0), "{stats:?}");
    assert!(answered > 0 && answered <= 3 * packet.len(), "{answered} B for {} B", packet.len());
    // The silence of 300 ms, timers that are late, and the last answer.
    assert!(last_at < Duration::from_millis(1_000), "still answering after {last_at:?}");
}

/// The first data packet of a message of `size` bytes.
fn first_packet(size: u64, payload: &[u8]) -> Vec<u8> {
    let header = NdpHeader {
        seq: 0,
        cumulative: size,
        sent_at: 0,
        pull: 0,
        path: 0,
        kind: kind::DATA,
        flags: flags::SYN,
    };
    let mut packet = Packet::new(FlowId(0), HostId(0), Header::new(header));
    packet.class = Class::DATA;
    packet.flags = PacketFlags::TRIMMABLE;
    packet.payload_bytes = payload.len() as u16;
    packet.wire_bytes = NDP_WIRE_BYTES as u16 + packet.payload_bytes;
    let mut bytes = Vec::new();
    let name = WireName { flow: 7, incarnation: 9 };
    emit(&NdpCodec, name, &packet, None, &mut bytes, |into| {
        into.copy_from_slice(payload);
        Ok::<(), ()>(())
    })
    .unwrap();
    bytes
}
