//! The list of codecs. A codec is found by the name of its transport, or by its number on the wire.

use crate::generic::emit_generic;
use crate::layout::FieldLayout;
use crate::{
    Codec, D3_LAYOUT, D3Codec, Data, Datagram, FlowOpening, GENERIC_LAYOUT, NDP_LAYOUT, NdpCodec,
    PDQ_LAYOUT, PacketCodec, PdqCodec, RcpdcCodec, RecentNumbers, WireError, WireName, emit,
    emit_opening, parse,
};
use core::convert::Infallible;
use punctual_core::{Bytes, Content, ExtBlock, FlowId, HostId, Packet};
use punctual_transports::pdq::HEADER_BYTES as PDQ_SIMULATED_BYTES;

/// Generates [`AnyCodec`]. Each line is a variant, the codec's type, how it is made for an MTU, and
/// the layout of its fields.
macro_rules! codecs {
    ($($Variant:ident($Type:ty) = |$mtu:pat_param| $new:expr, $layout:expr;)*) => {
        /// The codec of any transport that has one.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum AnyCodec {
            $(#[doc = concat!("See [`", stringify!($Type), "`].")] $Variant($Type),)*
        }

        impl AnyCodec {
            /// The codec of the transport of this name, on interfaces of this MTU.
            pub fn of(transport: &str, mtu: Bytes) -> Option<AnyCodec> {
                match transport {
                    $(<$Type as Codec>::NAME => {
                        let $mtu = mtu;
                        Some(AnyCodec::$Variant($new))
                    })*
                    _ => None,
                }
            }

            /// The codec of the transport with this number on the wire, on interfaces of this MTU.
            pub fn numbered(number: u8, mtu: Bytes) -> Option<AnyCodec> {
                $(if number == <$Type as Codec>::TRANSPORT {
                    return AnyCodec::of(<$Type as Codec>::NAME, mtu);
                })*
                None
            }

            /// The layout of the transport's fields.
            pub fn layout(&self) -> &'static [FieldLayout] {
                match self { $(AnyCodec::$Variant(_) => $layout,)* }
            }


            /// Writes `packet` into `datagram` with zeros as payload; see [`emit`].
            pub fn emit_zeros(
                &self,
                name: WireName,
                packet: &Packet,
                block: Option<&ExtBlock>,
                datagram: &mut Vec<u8>,
            ) {
                self.emit(name, packet, block, datagram, |payload| payload.fill(0));
            }

            /// Writes `packet` into `datagram`; `fill` writes its payload. See [`emit`].
            pub fn emit(
                &self,
                name: WireName,
                packet: &Packet,
                block: Option<&ExtBlock>,
                datagram: &mut Vec<u8>,
                fill: impl FnOnce(&mut [u8]),
            ) {
                let fill = |payload: &mut [u8]| {
                    fill(payload);
                    Ok::<(), Infallible>(())
                };
                let Ok(()) = match self {
                    $(AnyCodec::$Variant(codec) => {
                        emit(codec, name, packet, block, datagram, fill)
                    })*
                };
            }

            /// Parses the packet in `datagram` and its header extension; see [`parse`].
            pub fn parse(
                &self,
                datagram: &Datagram<'_>,
                near: &RecentNumbers,
                flow: FlowId,
                to: HostId,
            ) -> Result<(Packet, Option<ExtBlock>), WireError> {
                match self {
                    $(AnyCodec::$Variant(codec) => {
                        let packet = parse(codec, datagram, near, flow, to)?;
                        Ok((packet, codec.parse_block(datagram.fields)))
                    })*
                }
            }

            /// See [`Codec::data`].
            pub fn data(&self, packet: &Packet) -> Option<Data> {
                match self { $(AnyCodec::$Variant(codec) => codec.data(packet),)* }
            }

            /// See [`Codec::observe`].
            pub fn observe(&self, packet: &Packet, near: &mut RecentNumbers) {
                match self { $(AnyCodec::$Variant(codec) => codec.observe(packet, near),)* }
            }
        }

        impl PacketCodec for AnyCodec {
            fn number(&self) -> u8 {
                match self { $(AnyCodec::$Variant(_) => <$Type as Codec>::TRANSPORT,)* }
            }
            fn switch_fields_at(&self) -> usize {
                match self { $(AnyCodec::$Variant(_) => <$Type as Codec>::SWITCH_FIELDS_AT,)* }
            }
            fn longer_by(&self) -> u16 {
                match self { $(AnyCodec::$Variant(_) => <$Type as Codec>::LONGER_BY,)* }
            }
            fn headers_bytes(&self) -> u16 {
                match self { $(AnyCodec::$Variant(codec) => codec.headers_bytes(),)* }
            }
            fn segment_bytes(&self) -> Option<u16> {
                match self { $(AnyCodec::$Variant(codec) => Codec::segment_bytes(codec),)* }
            }
            fn is_opening(&self, packet: &Packet) -> bool {
                match self { $(AnyCodec::$Variant(codec) => codec.is_opening(packet),)* }
            }
            fn write<E>(
                &self,
                name: WireName,
                packet: &Packet,
                block: Option<&ExtBlock>,
                datagram: &mut Vec<u8>,
                fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
            ) -> Result<(), E> {
                match self {
                    $(AnyCodec::$Variant(codec) => {
                        emit(codec, name, packet, block, datagram, fill)
                    })*
                }
            }
            fn write_opening(
                &self,
                name: WireName,
                packet: &Packet,
                block: Option<&ExtBlock>,
                opening: &FlowOpening,
                datagram: &mut Vec<u8>,
            ) {
                match self {
                    $(AnyCodec::$Variant(codec) => {
                        emit_opening(codec, name, packet, block, opening, datagram)
                    })*
                }
            }
            fn read(
                &self,
                datagram: &Datagram<'_>,
                near: &RecentNumbers,
                flow: FlowId,
                to: HostId,
            ) -> Result<(Packet, Option<ExtBlock>), WireError> {
                self.parse(datagram, near, flow, to)
            }
            fn data_of(&self, packet: &Packet) -> Option<Data> {
                self.data(packet)
            }
            fn note(&self, packet: &Packet, near: &mut RecentNumbers) {
                self.observe(packet, near);
            }
        }

        /// Name, number and layout of every codec, and last of the [generic header](emit_any).
        pub const CODECS: &[(&str, u8, &[FieldLayout])] = &[
            $((<$Type as Codec>::NAME, <$Type as Codec>::TRANSPORT, $layout),)*
            ("generic", crate::GENERIC_TRANSPORT, GENERIC_LAYOUT),
        ];
    };
}

codecs! {
    Ndp(NdpCodec) = |_| NdpCodec, NDP_LAYOUT;
    D3(D3Codec) = |_| D3Codec::default(), D3_LAYOUT;
    Rcpdc(RcpdcCodec) = |_| RcpdcCodec::default(), D3_LAYOUT;
    Pdq(PdqCodec) = |mtu| PdqCodec { segment_bytes: pdq_segment_bytes(mtu), epoch: 0 }, PDQ_LAYOUT;
}

impl AnyCodec {
    /// This codec for a host or switch whose clock began at `epoch`: see [`PdqCodec::epoch`].
    pub fn with_epoch(self, epoch: u32) -> AnyCodec {
        match self {
            AnyCodec::Pdq(codec) => AnyCodec::Pdq(PdqCodec { epoch, ..codec }),
            other => other,
        }
    }

    /// This codec for a switch, which need not know how large the segments of hosts are.
    pub fn for_switches(self) -> AnyCodec {
        match self {
            AnyCodec::Pdq(codec) => AnyCodec::Pdq(PdqCodec { segment_bytes: 0, ..codec }),
            other => other,
        }
    }
}

/// The zero of a clock, in units of [`PdqCodec::epoch`], by its nanoseconds since the Unix epoch.
pub fn epoch_of(unix_nanos: u64) -> u32 {
    (unix_nanos / 10_000) as u32
}

/// Bytes of a PDQ segment, which PDQ takes from the MTU and its simulated header.
fn pdq_segment_bytes(mtu: Bytes) -> u16 {
    u16::try_from(mtu.get().saturating_sub(u64::from(PDQ_SIMULATED_BYTES))).unwrap_or(u16::MAX)
}

/// Writes `packet` into `datagram` with zeros as payload: by the codec, or with a generic header that
/// shows its `content`.
pub fn emit_any(
    codec: Option<&AnyCodec>,
    name: WireName,
    packet: &Packet,
    block: Option<&ExtBlock>,
    content: Content,
    datagram: &mut Vec<u8>,
) {
    match codec {
        Some(codec) => codec.emit_zeros(name, packet, block, datagram),
        None => emit_generic(name, packet, content, datagram),
    }
}
