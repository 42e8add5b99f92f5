//! The list of transports, and what is generated from a list: the closed enums through which
//! drivers reach any of them, and the settings that scenarios may give.

/// Passes our transports to [`register!`], followed by lines of the caller's own.
///
/// Adding a transport is a line here: variant, configuration type, field. The field is the
/// transport's name with `_` for `-`.
#[doc(hidden)]
#[macro_export]
macro_rules! with_our_transports {
    ($($own:tt)*) => {
        $crate::register! {
            Tcp($crate::tcp::TcpConfig), tcp;
            Tcppr($crate::tcp::TcpprConfig), tcppr;
            Dctcp($crate::tcp::DctcpConfig), dctcp;
            DctcpLossless($crate::tcp::DctcpLosslessConfig), dctcp_lossless;
            D2tcp($crate::tcp::D2tcpConfig), d2tcp;
            Mptcp($crate::mptcp::MptcpConfig), mptcp;
            D3($crate::d3::D3Config), d3;
            Rcpdc($crate::d3::RcpdcConfig), rcpdc;
            Rcp($crate::rcp::RcpConfig), rcp;
            Pdq($crate::pdq::PdqConfig), pdq;
            Ndp($crate::ndp::NdpConfig), ndp;
            Dcqcn($crate::dcqcn::DcqcnConfig), dcqcn;
            Phost($crate::phost::PhostConfig), phost;
            Udp($crate::udp::UdpConfig), udp;
            MPdq($crate::mpdq::MpdqConfig), m_pdq;
            $($own)*
        }
    };
}

/// Generates a set of transports: `AnyTransport`, `TransportSettings`, `AnyStack` and
/// `AnyController`, in the module that calls it.
///
/// Each line is a variant, the type that implements
/// [`Transport`](punctual_core::Transport), and the transport's name with `_` for `-`. `include
/// punctual;` in front adds all transports of this crate. The crate that calls it depends on
/// `serde` with its feature `derive`.
///
/// ```ignore
/// punctual_transports::register! {
///     include punctual;
///     FixedWindow(crate::fixed_window::FixedWindow), fixed_window;
/// }
/// ```
#[macro_export]
macro_rules! register {
    (include punctual; $($own:tt)*) => {
        $crate::with_our_transports! { $($own)* }
    };
    ($($Variant:ident($Type:ty), $field:ident;)*) => {
        $(const _: () = assert!(
            <$Type as $crate::core::Transport>::INFO.is_named_like(stringify!($field)),
            concat!("the field `", stringify!($field), "` is not the name of its transport"),
        );)*

        /// Any transport with its parameters.
        #[derive(Debug, Clone, PartialEq, ::serde::Serialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum AnyTransport {
            $(#[doc = concat!("See [`", stringify!($Type), "`].")] $Variant($Type),)*
        }

        /// Parameters of every transport, as a scenario may set them: `[transport.NAME]`.
        #[derive(Debug, Clone, Default, PartialEq, ::serde::Serialize, ::serde::Deserialize)]
        #[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
        pub struct TransportSettings {
            $(#[doc = concat!("See [`", stringify!($Type), "`].")] pub $field: $Type,)*
        }

        /// A stack of any transport. Dispatch is one `match`, the states behind it are typed.
        pub enum AnyStack {
            $(#[doc = concat!("See [`", stringify!($Type), "`].")]
            $Variant($crate::core::Stack<$Type>),)*
        }

        /// A controller of any transport.
        pub enum AnyController {
            $(#[doc = concat!("See [`", stringify!($Type), "`].")]
            $Variant(<$Type as $crate::core::Transport>::Controller),)*
        }

        impl AnyTransport {
            /// All transports, in the order in which they are registered.
            pub fn catalogue() -> &'static [$crate::core::TransportInfo] {
                const ALL: &[$crate::core::TransportInfo] =
                    &[$(<$Type as $crate::core::Transport>::INFO,)*];
                ALL
            }

            /// The transport of that name with the given settings.
            pub fn by_name(name: &str, settings: &TransportSettings) -> Option<AnyTransport> {
                $(if name == <$Type as $crate::core::Transport>::INFO.name {
                    return Some(AnyTransport::$Variant(settings.$field.clone()));
                })*
                None
            }

            /// Its name in scenarios, results and on the command line.
            pub fn name(&self) -> &'static str {
                $crate::core::TransportSet::info(self).name
            }

            /// The switch queue that suits it.
            pub fn default_queue(
                &self,
                rate: $crate::core::Rate,
                mtu: $crate::core::Bytes,
            ) -> $crate::core::QueueSpec {
                use $crate::core::Transport as _;
                match self { $(AnyTransport::$Variant(t) => t.default_queue(rate, mtu),)* }
            }
        }

        impl $crate::core::TransportSet for AnyTransport {
            type Settings = TransportSettings;
            type Stack = AnyStack;
            type Controller = AnyController;

            fn catalogue() -> &'static [$crate::core::TransportInfo] {
                AnyTransport::catalogue()
            }
            fn by_name(name: &str, settings: &TransportSettings) -> Option<Self> {
                AnyTransport::by_name(name, settings)
            }
            fn info(&self) -> &'static $crate::core::TransportInfo {
                match self {
                    $(AnyTransport::$Variant(_) => {
                        const INFO: &$crate::core::TransportInfo =
                            &<$Type as $crate::core::Transport>::INFO;
                        INFO
                    })*
                }
            }
            fn check_config(&self) -> Result<(), String> {
                use $crate::core::Transport as _;
                match self { $(AnyTransport::$Variant(t) => t.check_config(),)* }
            }
            fn check_nic(&self, nic: &$crate::core::NicInfo) -> Result<(), (&'static str, String)> {
                use $crate::core::Transport as _;
                match self { $(AnyTransport::$Variant(t) => t.check_nic(nic),)* }
            }
            fn sprays(&self) -> bool {
                use $crate::core::Transport as _;
                match self { $(AnyTransport::$Variant(t) => t.sprays(),)* }
            }
            fn content(&self, packet: &$crate::core::Packet) -> $crate::core::Content {
                match self {
                    $(AnyTransport::$Variant(_) => {
                        <$Type as $crate::core::Transport>::content(packet)
                    })*
                }
            }
            fn is_trimmable(&self) -> bool {
                use $crate::core::Transport as _;
                match self { $(AnyTransport::$Variant(t) => t.is_trimmable(),)* }
            }
            fn may_abandon(&self) -> bool {
                use $crate::core::Transport as _;
                match self { $(AnyTransport::$Variant(t) => t.may_abandon(),)* }
            }
            fn may_abandon_without_deadline(&self) -> bool {
                use $crate::core::Transport as _;
                match self {
                    $(AnyTransport::$Variant(t) => t.may_abandon_without_deadline(),)*
                }
            }
            fn flow_model(
                &self,
                nic: &$crate::core::NicInfo,
            ) -> Option<$crate::core::FlowModel> {
                use $crate::core::Transport as _;
                match self { $(AnyTransport::$Variant(t) => t.flow_model(nic),)* }
            }
            fn default_queue(
                &self,
                rate: $crate::core::Rate,
                mtu: $crate::core::Bytes,
            ) -> $crate::core::QueueSpec {
                AnyTransport::default_queue(self, rate, mtu)
            }
            fn stack(&self, nics: &[$crate::core::NicInfo]) -> AnyStack {
                match self {
                    $(AnyTransport::$Variant(t) => {
                        AnyStack::$Variant($crate::core::Stack::new(t.clone(), nics))
                    })*
                }
            }
            fn controller(&self, port: &$crate::core::PortView) -> Option<AnyController> {
                use $crate::core::Transport as _;
                match self {
                    $(AnyTransport::$Variant(t) => {
                        t.controller(port).map(AnyController::$Variant)
                    })*
                }
            }
        }

        impl $crate::core::FlowStack for AnyStack {
            fn open_sender(
                &mut self,
                flow: &$crate::core::FlowSpec,
                route: &$crate::core::FlowRoute,
                call: $crate::core::Call<'_>,
            ) -> u32 {
                match self { $(AnyStack::$Variant(s) => s.open_sender(flow, route, call),)* }
            }
            fn open_receiver(
                &mut self,
                first: &$crate::core::Packet,
                route: &$crate::core::FlowRoute,
                call: $crate::core::Call<'_>,
            ) -> u32 {
                match self { $(AnyStack::$Variant(s) => s.open_receiver(first, route, call),)* }
            }
            #[inline(always)]
            fn handle_packet(
                &mut self,
                end: $crate::core::End,
                slot: u32,
                packet: &$crate::core::Packet,
                call: $crate::core::Call<'_>,
            ) {
                match self { $(AnyStack::$Variant(s) => s.handle_packet(end, slot, packet, call),)* }
            }
            #[inline(always)]
            fn handle_timeout(
                &mut self,
                end: $crate::core::End,
                slot: u32,
                call: $crate::core::Call<'_>,
            ) {
                match self { $(AnyStack::$Variant(s) => s.handle_timeout(end, slot, call),)* }
            }
            fn handle_deadline(
                &mut self,
                slot: u32,
                deadline: Option<$crate::core::Instant>,
                call: $crate::core::Call<'_>,
            ) {
                match self { $(AnyStack::$Variant(s) => s.handle_deadline(slot, deadline, call),)* }
            }
            fn handle_cancel(&mut self, slot: u32, call: $crate::core::Call<'_>) {
                match self { $(AnyStack::$Variant(s) => s.handle_cancel(slot, call),)* }
            }
            fn host_timeout(&mut self, call: $crate::core::Call<'_>) {
                match self { $(AnyStack::$Variant(s) => s.host_timeout(call),)* }
            }
            #[inline]
            fn poll_transmit(
                &mut self,
                slot: u32,
                nic: u32,
                call: $crate::core::Call<'_>,
            ) -> Option<$crate::core::Packet> {
                match self { $(AnyStack::$Variant(s) => s.poll_transmit(slot, nic, call),)* }
            }
            fn close(&mut self, end: $crate::core::End, slot: u32, host: $crate::core::HostId) {
                match self { $(AnyStack::$Variant(s) => s.close(end, slot, host),)* }
            }
            fn gauges(
                &self,
                end: $crate::core::End,
                slot: u32,
                host: $crate::core::HostId,
                report: &mut dyn FnMut(&'static str, f64),
            ) {
                match self { $(AnyStack::$Variant(s) => s.gauges(end, slot, host, report),)* }
            }
            #[inline]
            fn prefetch(&self, end: $crate::core::End, slot: u32, host: $crate::core::HostId) {
                match self { $(AnyStack::$Variant(s) => s.prefetch(end, slot, host),)* }
            }
            #[inline]
            fn prefetch_content(
                &self,
                end: $crate::core::End,
                slot: u32,
                host: $crate::core::HostId,
                packet: Option<&$crate::core::Packet>,
            ) {
                match self {
                    $(AnyStack::$Variant(s) => s.prefetch_content(end, slot, host, packet),)*
                }
            }
            #[inline]
            fn prefetch_host(&self, host: $crate::core::HostId) {
                match self { $(AnyStack::$Variant(s) => s.prefetch_host(host),)* }
            }
            #[inline]
            fn prefetch_shared(&self, host: $crate::core::HostId) {
                match self { $(AnyStack::$Variant(s) => s.prefetch_shared(host),)* }
            }
            fn waits_for(&self, end: $crate::core::End, slot: u32) -> $crate::core::Wait {
                match self { $(AnyStack::$Variant(s) => s.waits_for(end, slot),)* }
            }
        }

        impl $crate::core::Controller for AnyController {
            fn handle_forward(
                &mut self,
                packet: &mut $crate::core::Packet,
                port: &$crate::core::PortView,
                ext: &mut $crate::core::ExtArena,
            ) {
                match self { $(AnyController::$Variant(c) => c.handle_forward(packet, port, ext),)* }
            }
            #[inline]
            fn forward(
                &mut self,
                packet: &mut $crate::core::Packet,
                port: &$crate::core::PortView,
                ext: &mut $crate::core::ExtArena,
            ) -> $crate::core::Instant {
                match self { $(AnyController::$Variant(c) => c.forward(packet, port, ext),)* }
            }
            fn handle_reverse(
                &mut self,
                packet: &mut $crate::core::Packet,
                port: $crate::core::PortId,
            ) {
                match self { $(AnyController::$Variant(c) => c.handle_reverse(packet, port),)* }
            }
            fn reads_answers(&self) -> bool {
                match self { $(AnyController::$Variant(c) => c.reads_answers(),)* }
            }
            fn handle_timeout(&mut self, port: &$crate::core::PortView) {
                match self { $(AnyController::$Variant(c) => c.handle_timeout(port),)* }
            }
            fn next_timeout(&self) -> Option<$crate::core::Instant> {
                match self { $(AnyController::$Variant(c) => c.next_timeout(),)* }
            }
            fn gauges(&self, report: &mut dyn FnMut(&'static str, f64)) {
                match self { $(AnyController::$Variant(c) => c.gauges(report),)* }
            }
            fn flows_ahead(
                &self,
                of: $crate::core::FlowId,
                report: &mut dyn FnMut($crate::core::FlowId),
            ) {
                match self { $(AnyController::$Variant(c) => c.flows_ahead(of, report),)* }
            }
            fn reset(&mut self) {
                match self { $(AnyController::$Variant(c) => c.reset(),)* }
            }
            fn state(&self) -> $crate::core::ControllerState {
                match self { $(AnyController::$Variant(c) => c.state(),)* }
            }
        }
    };
}

crate::register! { include punctual; }
