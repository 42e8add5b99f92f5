//! DCQCN: senders at a rate of their own, cut by notifications that receivers send when switches
//! mark, on a network that loses nothing.
//!
//! After Y. Zhu et al., "Congestion control for large-scale RDMA deployments", SIGCOMM 2015; the
//! section numbers here are that paper's. The rate machine is QCN's (IEEE 802.1Qau), with α from
//! DCTCP. Packets are RoCE's: in order, and what is missing comes again with everything after it.
//! `rules.md` lists the rules with their sources and tests.
//!
//! # Limits
//!
//! One message in one direction, by one path. The paper's switches pause at limits that move with
//! what is free in their buffer; here they are fixed. Adapters differ in how they acknowledge and
//! how slow a flow can get, and the paper is silent on both: see `Dcqcn`. It is made for lossless
//! networks; where packets are lost it works, badly, as RoCE does.

mod config;
mod header;
mod machine;
mod receiver;
mod sender;
#[cfg(test)]
mod tests;

pub use config::{Dcqcn, DcqcnConfigError};
pub use header::{ACK_BYTES, CNP_BYTES, DATA_HEADER_BYTES, DcqcnFlags, DcqcnHeader};
pub use machine::{MachineParams, RateMachine};
pub use receiver::DcqcnReceiver;
pub use sender::DcqcnSender;

use punctual_core::{
    Bytes, FlowRoute, FlowSpec, HostCx, NicInfo, NoController, Packet, QueueSpec, Rate, RedMarking,
    Transport, TransportInfo,
};

/// What the flows of one host share: parameters made ready for use.
#[derive(Clone, Copy, Debug)]
pub struct DcqcnHost {
    machine: MachineParams,
    payload_bytes: u64,
    framing_bytes: u64,
}

impl Transport for Dcqcn {
    type Sender = DcqcnSender;
    type Receiver = DcqcnReceiver;
    type Shared = DcqcnHost;
    type Controller = NoController;

    const INFO: TransportInfo = TransportInfo::new(
        "dcqcn",
        "DCQCN: rates cut by marks that receivers report, on networks that lose nothing",
    );

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
