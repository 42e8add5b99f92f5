//! NDP: receivers pull, switches trim.
//!
//! A sender pushes its initial window at line rate, spraying packets over all paths. From then on
//! the receiver's pulls clock it, one packet per pull, paced at the rate of the receiver's link.
//! Switches have queues of a few packets and trim the payload of packets that do not fit, so that
//! the receiver learns immediately which packets to request again.
//!
//! After Handley, Raiciu, Agache, Voinescu, Moore, Antichi and Wójcik, "Re-architecting
//! datacenter networks and stacks for low latency and high performance", SIGCOMM 2017.
//!
//! The rules followed, each with its test, are in `rules.md`.
//!
//! Its latency requires switches that trim: packets that switches drop are recovered by a timeout.

mod config;
mod header;
mod paths;
mod pulls;
mod receiver;
mod scoreboard;
mod sender;
mod timewait;
mod window;

#[cfg(test)]
mod tests;

pub use config::{AnswerPaths, NdpConfig, NdpTimer, NdpVariant, PathPolicy};
pub use header::{HEADER_BYTES, NdpHeader, STAMP_SHIFT, flags, kind, stamp};
pub use pulls::PullQueue;
pub use receiver::NdpReceiver;
pub use sender::NdpSender;

use punctual_core::{
    Bytes, Content, FlowModel, FlowRoute, FlowSpec, FlowWindow, HostCx, Limit, NicInfo,
    NoController, Packet, PathUse, QueueSpec, Rate, Sharing, Transport, TransportInfo, WaitNames,
    WaitWords,
};

impl Transport for NdpConfig {
    type Sender = NdpSender;
    type Receiver = NdpReceiver;
    type Shared = PullQueue;
    type Controller = NoController;

    const INFO: TransportInfo = TransportInfo::new(
        "ndp",
        "NDP: receiver-driven pulls, packet trimming, per-packet spraying",
    )
    .with_waits(WaitNames {
        pull: WaitWords::new("waiting to be pulled", "{time} until its receiver pulled it{behind}"),
        ..WaitNames::DEFAULT
    });

    fn open_host(&self, nic: &NicInfo) -> PullQueue {
        PullQueue::new(self, nic)
    }

    fn open_sender(flow: &FlowSpec, route: &FlowRoute, cx: &mut HostCx<'_, Self>) -> NdpSender {
        NdpSender::open(flow, route, cx)
    }

    fn open_receiver(first: &Packet, route: &FlowRoute, cx: &mut HostCx<'_, Self>) -> NdpReceiver {
        NdpReceiver::open(first, route, cx)
    }

    fn handle_host_timeout(cx: &mut HostCx<'_, Self>) {
        pulls::send_next_pull(cx);
    }

    #[inline]
    fn prefetch_shared(shared: &PullQueue) {
        shared.prefetch_next();
    }

    fn check_nic(&self, nic: &NicInfo) -> Result<(), (&'static str, String)> {
        NdpConfig::check_nic(self, nic)
    }

    fn sprays(&self) -> bool {
        self.paths != PathPolicy::Single
    }

    fn check_config(&self) -> Result<(), String> {
        self.validate()
    }

    fn is_trimmable(&self) -> bool {
        true
    }

    /// Eight packets of data, as many bytes of headers.
    fn content(packet: &Packet) -> Content {
        let NdpHeader { kind, seq, cumulative: below, .. } = NdpHeader::of(packet);
        match kind {
            kind::DATA => Content::Data(seq),
            kind::ACK => Content::Ack { below, named: Some(seq) },
            _ => Content::Ack { below, named: None },
        }
    }

    /// The first window leaves at once; receivers then pull all their flows in equal shares, a
    /// packet for each that arrives.
    fn flow_model(&self, nic: &NicInfo) -> Option<FlowModel> {
        let payload = self.payload_for(nic.mtu);
        let packet = payload + u64::from(HEADER_BYTES) + nic.framing.get();
        let packets = self.path_window.unwrap_or(self.initial_window);
        let window = packet.saturating_mul(u64::from(packets));
        Some(FlowModel {
            sharing: Sharing::Fair,
            paths: if self.sprays() { PathUse::Sprayed } else { PathUse::Hashed },
            setup_rtts: 0.0,
            setup_rtts_without_deadline: 0.0,
            resume_rtts: 0.0,
            payload: Bytes::new(payload),
            header: Bytes::new(u64::from(HEADER_BYTES)),
            answers: 2.0, // An ACK and a pull.
            window: FlowWindow::Fixed(Bytes::new(window)),
            receiver_rate: None,
        })
    }

    fn default_queue(&self, _rate: Rate, mtu: Bytes) -> QueueSpec {
        let bytes = Limit::Bytes(Bytes::new(8 * self.payload_for(mtu)));
        QueueSpec::Trim { data: bytes, headers: bytes, mark_above: None }
    }
}
