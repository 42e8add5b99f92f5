//! DCQCN: rate-based congestion control on lossless networks, in which receivers report ECN marks
//! by congestion notification packets (CNPs) and senders cut their rate.
//!
//! ```text
//! on a CNP        R_T ← R_C,  R_C ← R_C · (1 − α/2),  α ← (1 − g) α + g
//! without a CNP   α ← (1 − g) α,  R_C ← (R_T + R_C) / 2,  later also R_T ← R_T + R_AI
//! ```
//!
//! After Y. Zhu et al., "Congestion control for large-scale RDMA deployments", SIGCOMM 2015; the
//! section numbers here are that paper's. The rate machine is QCN's (IEEE 802.1Qau), with α from
//! DCTCP. Loss recovery is RoCE's go-back-N.
//! `rules.md` lists the rules with their sources and tests.
//!
//! # Limits
//!
//! One message in one direction, on one path. The paper's switches have dynamic PFC thresholds; ours
//! are fixed. Adapters differ in ACK coalescing and in their least rate, which the paper does not
//! specify: see [`DcqcnConfig`]. DCQCN requires lossless networks; packet loss degrades it, as it
//! does RoCE.

mod config;
mod header;
mod machine;
mod receiver;
mod sender;
#[cfg(test)]
mod tests;

pub use config::{DcqcnConfig, DcqcnConfigError};
pub use header::{ACK_BYTES, CNP_BYTES, DATA_HEADER_BYTES, DcqcnFlags, DcqcnHeader};
pub use machine::{MachineParams, RateMachine};
pub use receiver::DcqcnReceiver;
pub use sender::DcqcnSender;

use punctual_core::{
    Bytes, Content, FlowRoute, FlowSpec, HostCx, NicInfo, NoController, Packet, QueueSpec, Rate,
    RedMarking, Transport, TransportInfo,
};

/// State that the flows of one host share: their parameters in internal units.
#[derive(Clone, Copy, Debug)]
pub struct DcqcnHost {
    machine: MachineParams,
    payload_bytes: u64,
    framing_bytes: u64,
}

impl Transport for DcqcnConfig {
    type Sender = DcqcnSender;
    type Receiver = DcqcnReceiver;
    type Shared = DcqcnHost;
    type Controller = NoController;

    const INFO: TransportInfo =
        TransportInfo::new("dcqcn", "DCQCN: rate-based, cut by ECN marks, for lossless Ethernet");

    fn open_host(&self, nic: &NicInfo) -> DcqcnHost {
        debug_assert_eq!(self.validate(), Ok(()));
        let mtu_bytes = nic.mtu.get().min(u64::from(u16::MAX));
        let room_bytes = mtu_bytes.saturating_sub(u64::from(DATA_HEADER_BYTES)).max(1);
        DcqcnHost {
            machine: MachineParams::new(self, nic.rate),
            payload_bytes: self.payload.map_or(room_bytes, |p| p.get().min(room_bytes)),
            framing_bytes: nic.framing.get(),
        }
    }

    fn open_sender(flow: &FlowSpec, route: &FlowRoute, cx: &mut HostCx<'_, Self>) -> DcqcnSender {
        DcqcnSender::open(flow, route, cx)
    }

    fn open_receiver(first: &Packet, route: &FlowRoute, _: &mut HostCx<'_, Self>) -> DcqcnReceiver {
        DcqcnReceiver::open(first, route)
    }

    fn check_config(&self) -> Result<(), String> {
        self.validate().map_err(|e| e.to_string())
    }

    /// Lossless, marking at random. A link is paused only where marks have not helped: at twice
    /// the queue above which all packets are marked, and goes on two packets below. DCQCN-R12.
    fn content(packet: &Packet) -> Content {
        let header: DcqcnHeader = packet.header.get();
        match packet.is_to_sender() {
            true if !header.has(DcqcnFlags::ACK) => Content::Other,
            true => Content::Ack { below: header.offset, named: None },
            false => Content::Data(header.offset),
        }
    }

    fn default_queue(&self, _: Rate, mtu: Bytes) -> QueueSpec {
        let pause_above = 2 * self.mark_to.get();
        QueueSpec::Lossless {
            buffer: Bytes::new((10_000 * mtu.get()).max(250 * pause_above)),
            pause_above: Bytes::new(pause_above),
            resume_below: Bytes::new(pause_above.saturating_sub(2 * mtu.get())),
            mark_above: None,
            red: Some(RedMarking {
                from: self.mark_from,
                to: self.mark_to,
                most_percent: self.mark_percent,
            }),
        }
    }
}
